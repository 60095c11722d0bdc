"""Logins that are passed through: another proxy, with an embedded metastore and tokens, lets the clients in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest
from thrift.Thrift import TApplicationException

from tests.proxy import Proxy
from tests.server.logged_in import AUTH, AUTH_CONF, AUTH_INT, Realm, Refused, SaslConnection
from tests.testbed.processes import wait_until
from tests.testbed.raw import EndOfStream, decode_reply, encode_call
from tests.upstream.delegating import Place, owner_of, place_in


def passing(place: Place, **more: str) -> tuple[Proxy, Proxy]:
    """A metastore, and a proxy in front of it that follows its log and has no keys for clients."""
    metastore = place.metastore()
    settings = {"SECURITY_UPSTREAM_IDENTITY": "pass_through", "STORE": "thrift", "WORKERS": "1", **more}
    environment = {"SECURITY_TRANSPORTS": "sasl", **place.realm.service(**settings)}
    return metastore, place.started("proxy", f"thrift://localhost:{metastore.port}", environment)


class Pair(NamedTuple):
    """A metastore, and a proxy that passes logins on to it."""

    place: Place
    metastore: Proxy
    proxy: Proxy

    def client(self, user: str = "alice") -> SaslConnection:
        """After a login through the proxy."""
        return self.place.client(self.proxy.port, user)


def hits_of(proxy: Proxy, method: str) -> float:
    """As far as they have been counted."""
    return sum(
        number for (name, outcome, _), number in proxy.told_requests().items() if (name, outcome) == (method, "hit")
    )


def token_of(client: SaslConnection, owner: str) -> str:
    """The metastore's own."""
    found: str = decode_reply(client.call(encode_call("get_delegation_token", owner, owner)))[2].success
    return found


@pytest.fixture(scope="module")
def passed(realm: Realm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """For tests that leave both as they were."""
    with place_in(realm, tmp_path_factory.mktemp("passed")) as place:
        yield Pair(place, *passing(place))


def refusal_of(reply: bytes) -> str:
    """Of the proxy: as the method's exception, or as Thrift's."""
    result = decode_reply(reply)[2]
    return str(result.message if isinstance(result, TApplicationException) else result.o1.message)


def test_the_metastore_lets_clients_in_and_the_cache_answers(passed: Pair) -> None:
    """By ticket, and by the metastore's own token; its log names them, and reads are hits."""
    metastore, proxy = passed.metastore, passed.proxy
    for user in ("alice", "bob"):
        with passed.client(user) as client:
            assert owner_of(client, f"of_{user}") == user
    with passed.client() as alice:
        token = token_of(alice, "alice")
    read = encode_call("get_database", "of_alice")
    with SaslConnection.to(proxy.port) as by_token:
        by_token.log_in_with(token)
        assert owner_of(by_token, "by_token") == "alice"
        assert decode_reply(by_token.call(encode_call("set_ugi", "bob", ["g"])))[2].success == ["g", "bob"]
        assert owner_of(by_token, "after_set_ugi") == "alice"
        assert wait_until(lambda: bool(by_token.call(read)) and hits_of(proxy, "get_database") > 0)
    theirs, own = metastore.log.read_text(), proxy.log.read_text()
    assert theirs.count("user=bob") >= 1 and "method=get_delegation_token" in theirs
    assert "mechanism=GSSAPI" in own and "mechanism=DIGEST-MD5" in own and "user=alice" in own
    assert token[-20:] not in own


def test_other_protections_are_refused_with_what_to_do(passed: Pair) -> None:
    """The proxy could not read what follows. Others are not concerned."""
    proxy, realm = passed.proxy, passed.place.realm
    with passed.client() as alice:
        token = token_of(alice, "alice")
        for layer in (AUTH_INT, AUTH_CONF):
            with SaslConnection.to(proxy.port) as client, pytest.raises(Refused, match=r"hadoop\.rpc\.protection"):
                client.log_in(realm.client("bob"), layer)
            with SaslConnection.to(proxy.port) as client, pytest.raises(Refused, match=r"hadoop\.rpc\.protection"):
                client.log_in_with(token, layer)
        assert owner_of(alice, "still") == "alice"
    with SaslConnection.to(proxy.port) as plain, pytest.raises(Refused, match="Unsupported mechanism type PLAIN"):
        plain.send_bytes(b"\1\0\0\0\5PLAIN\2\0\0\0\x07\0bob\0pw")
        plain.answer(AUTH)
    with SaslConnection.to(proxy.port) as other, pytest.raises(Refused):
        other.log_in(realm.client("bob", "other"))


def test_a_connection_that_is_lost_ends_its_client_alone(place: Place) -> None:
    """Nobody else could log in for it. A new login is as good as the first."""
    metastore, proxy = passing(place)
    with place.client(proxy.port) as alice:
        assert owner_of(alice, "before") == "alice"
        metastore.stop()
        with SaslConnection.to(proxy.port) as nobody, pytest.raises(Refused, match="no metastore can be reached"):
            nobody.log_in(place.realm.client("bob"))
        with pytest.raises((EndOfStream, ConnectionError)):
            alice.call(encode_call("get_all_functions"))
            alice.call(encode_call("get_all_functions"))
        assert "the client has to log in again" in proxy.log.read_text()
        metastore.start()
    with place.client(proxy.port) as alice:
        assert owner_of(alice, "after") == "alice"


def test_places_at_the_metastore(place: Place) -> None:
    """Each client holds one, from its login to its end."""
    _, proxy = passing(place, UPSTREAM_OPTIONS_MAX_CONNECTIONS="1")
    with place.client(proxy.port) as alice:
        assert owner_of(alice, "first") == "alice"
        with SaslConnection.to(proxy.port) as bob, pytest.raises(Refused, match=r"max_connections = 1"):
            bob.log_in(place.realm.client("bob"))
        assert owner_of(alice, "second") == "alice"

    def let_in() -> bool:
        try:
            with place.client(proxy.port, "bob") as bob:
                return bool(bob.call(encode_call("get_all_databases")))
        except Refused:
            return False

    assert wait_until(let_in)


def test_who_leaves_before_he_is_let_in_keeps_no_place(place: Place) -> None:
    """Nor a connection to the metastore."""
    _, proxy = passing(place, UPSTREAM_OPTIONS_MAX_CONNECTIONS="1")
    with SaslConnection.to(proxy.port) as leaves:
        leaves.ask_in(place.realm.client())
    assert wait_until(lambda: "the client closed the connection during the login" in proxy.log.read_text())
    with place.client(proxy.port) as alice:
        assert owner_of(alice, "after") == "alice"


def test_tokens_of_others_and_the_metastores_keys(passed: Pair) -> None:
    """An owner is known by the token that he has logged in with."""
    with passed.client() as alice, passed.client("bob") as bob:
        of_alice, of_bob = token_of(alice, "alice"), token_of(bob, "bob")
        assert "refuses get_master_keys" in refusal_of(alice.call(encode_call("get_master_keys")))
        cancel = encode_call("cancel_delegation_token", of_alice)
        for client in (alice, bob):
            assert "foreign_cancellations" in refusal_of(client.call(cancel))
    with SaslConnection.to(passed.proxy.port) as by_token:
        by_token.log_in_with(of_alice)
        assert "foreign_cancellations" in refusal_of(by_token.call(encode_call("cancel_delegation_token", of_bob)))
        assert decode_reply(by_token.call(cancel))[2].o1 is None
    with SaslConnection.to(passed.proxy.port) as late, pytest.raises(Refused):
        late.log_in_with(of_alice)
