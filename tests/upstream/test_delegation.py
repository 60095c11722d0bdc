"""Acting for users at metastores with Kerberos: another proxy, with an embedded metastore and tokens, is one."""

from __future__ import annotations

from pathlib import Path

from hive_metastore.ttypes import Database
from thrift.Thrift import TApplicationException

from tests.server.logged_in import AUTH, AUTH_CONF, AUTH_INT, SaslConnection
from tests.server.web import Web
from tests.testbed.processes import wait_until
from tests.testbed.raw import decode_reply, encode_call
from tests.upstream.delegating import Place, owner_of


def test_the_metastore_sees_the_user(place: Place) -> None:
    """Of logins by ticket and by token, in three protections, of many connections with one token for each user."""
    metastore = place.metastore()
    proxy = place.proxy(metastore)
    for number, layer in enumerate((AUTH, AUTH_INT, AUTH_CONF)):
        for user in ("alice", "bob"):
            with place.client(proxy.port, user, layer) as client:
                assert owner_of(client, f"{user}_{number}") == user
    with place.client(proxy.port, "alice") as alice:
        token = decode_reply(alice.call(encode_call("get_delegation_token", "alice", "alice")))[2].success
        assert decode_reply(alice.call(encode_call("set_ugi", "bob", ["g"])))[2].success == ["g", "bob"]
        refusal = decode_reply(alice.call(encode_call("get_master_keys")))[2]
        assert isinstance(refusal, TApplicationException) and "refuses get_master_keys" in refusal.message
    with SaslConnection.to(proxy.port) as by_token:
        by_token.log_in_with(token, AUTH_CONF)
        assert owner_of(by_token, "by_token") == "alice"
    log, own = metastore.log.read_text(), proxy.log.read_text()
    assert "protection=auth-conf" in log and "real_user=proxy" in log
    assert own.count("token of a metastore") == 2, "one for each user"
    assert log.count("method=get_delegation_token") == 2
    for secret in (token, token[-20:]):
        assert secret not in own + log


def test_a_user_whom_the_proxy_may_not_act_for(place: Place) -> None:
    """Nothing runs as somebody else, and others are not concerned."""
    metastore = place.metastore(TOKENS_PROXY_USERS="proxy=bob")
    proxy = place.proxy(metastore)
    with place.client(proxy.port, "bob") as bob, place.client(proxy.port, "alice") as alice:
        assert owner_of(bob, "of_bob") == "bob"
        for number in range(3):
            refusal = decode_reply(alice.call(encode_call("get_all_databases")))[2]
            assert isinstance(refusal, TApplicationException)
            assert "User: proxy is not allowed to impersonate alice" in refusal.message
            assert owner_of(bob, f"of_bob_{number}") == "bob"
        with place.client(proxy.port, "bob") as another:
            another.call(encode_call("get_all_databases"))
    assert proxy.status()["upstream"]["reachable"] is True
    assert "metastore is sick" not in proxy.log.read_text()


def test_a_token_that_the_metastore_does_not_know_any_more(place: Place, tmp_path: Path) -> None:
    """It is asked for again, once: after its key has gone, and after it was cancelled."""
    keys = tmp_path / "keys"
    keys.write_text("1" * 32 + "\n")
    metastore = place.metastore(TOKENS_KEY_FILE=str(keys), WORKERS="1")
    proxy = place.proxy(metastore)
    with place.client(proxy.port, "alice") as alice:
        assert owner_of(alice, "before") == "alice"
        keys.write_text("2" * 32 + "\n")
        assert wait_until(lambda: "what=token_keys" in metastore.log.read_text())
        assert wait_until(lambda: "client closed" in metastore.log.read_text())  # not in the middle of a call
        assert owner_of(alice, "after") == "alice"
    with place.client(proxy.port, "alice") as alice:
        assert owner_of(alice, "once_more") == "alice"
    assert proxy.log.read_text().count("token of a metastore") == 2


def test_http_users(place: Place) -> None:
    """Two users on one connection, each as himself."""
    header = {"HTTP_TRANSPORT_AUTHENTICATION": "header", "HTTP_TRANSPORT_TRUSTED_ADDRESSES": "127.0.0.1"}
    proxy = place.proxy(place.metastore(), "http", **header)
    with Web(proxy.port, x_actor_username="carol") as web:
        for number in range(3):
            for user in ("carol", "dave"):
                made = encode_call("create_database", Database(name=f"{user}_{number}", parameters={}))
                web.ask(made, x_actor_username=user)
                found = web.ask(encode_call("get_database", f"{user}_{number}"), x_actor_username=user)
                assert decode_reply(found.body)[2].success.ownerName == user
        refusal = decode_reply(web.call(encode_call("get_delegation_token", "carol", "carol")))[2].o1
        assert "hms-cache-proxy refuses get_delegation_token" in refusal.message
