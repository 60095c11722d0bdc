"""Acting for users at Hive 4.2 and 3.1 with Kerberos, for clients in Python and Hive's own: Hive's own audit names the
users."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hive_metastore.ttypes import Database
from thrift.Thrift import TApplicationException

from tests.clients.sasl_calls import PROTECTIONS, run
from tests.proxy import Proxy
from tests.server.logged_in import AUTH, AUTH_CONF, AUTH_INT, Refused, SaslConnection
from tests.testbed.bed import Bed
from tests.testbed.kdc import REALM
from tests.testbed.raw import decode_reply, encode_call
from tests.upstream.secured_hive import TIME_S, Place, place_in


@pytest.fixture(scope="module", params=["hive42", "hive31"])
def place(bed: Bed, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Place]:
    """One for all tests of a version. The proxy may act for alice and bob, and not for svc; hive may ask for tokens of
    alice and bob."""
    more = {"STORE": "none", "TOKENS_PROXY_USERS": "hive=alice|bob"}
    with place_in(tmp_path_factory.mktemp("delegation"), bed, request.param, "alice,bob", more) as place:
        yield place


def is_4(place: Place) -> bool:
    """Hive 3.1 gives new databases no owner."""
    return place.hive.flavour.version.startswith("4.")


def owner_of(client: SaslConnection, name: str) -> str | None:
    """Who owns a new database of this name, which is left to the metastore."""
    assert decode_reply(client.call(encode_call("create_database", Database(name=name, parameters={}))))[2].o1 is None
    owner: str | None = decode_reply(client.call(encode_call("get_database", name)))[2].success.ownerName
    return owner


@pytest.mark.secures(
    client="Python",
    login="Kerberos, token",
    metastore="Hive 4.2 and 3.1.3 with Kerberos",
    who="the user, as Hive's audit says",
)
def test_the_audit_names_the_user(place: Place) -> None:
    owns, before = is_4(place), len(place.audit("create_database"))
    for number, layer in enumerate((AUTH, AUTH_INT, AUTH_CONF)):
        for user in ("alice", "bob"):
            with place.client(user, layer) as client:
                assert owner_of(client, f"{user}_{number}") == (user if owns else None)
    with place.client("alice") as alice:
        token = decode_reply(alice.call(encode_call("get_delegation_token", "alice", "alice")))[2].success
    with SaslConnection.to(place.proxy.port) as by_token:
        by_token.socket.settimeout(TIME_S)
        by_token.log_in_with(token, AUTH_CONF)
        assert owner_of(by_token, "by_token") == ("alice" if owns else None)
    audit = place.audit("create_database")[before:]
    assert len(audit) == 7, audit
    for line in audit:
        user = "bob" if "bob_" in line else "alice"
        assert f"ugi={user}\t" in line, line
    assert place.proxy.log.read_text().count("token of a metastore") == 2


def test_a_user_whom_the_proxy_may_not_act_for(place: Place) -> None:
    with place.client("svc/localhost") as client, place.client("bob") as bob:
        refusal = decode_reply(client.call(encode_call("get_all_databases")))[2]
        assert isinstance(refusal, TApplicationException), refusal
        assert f"User: proxy/localhost@{REALM} is not allowed to impersonate svc" in refusal.message
        bob.call(encode_call("get_all_databases"))
    assert "ugi=svc" not in place.hive.log.read_text()


@pytest.mark.secures(
    client="Python",
    login="Kerberos, the metastore's token; passed through",
    metastore="Hive 4.2 and 3.1.3 with Kerberos",
    who="the user, as Hive's audit says",
)
def test_a_login_that_is_passed_through(place: Place, tmp_path: Path) -> None:
    """By ticket, and by Hive's own token; the proxy has no right to act for anybody, and needs none. (Of a login by
    ticket, Hive 4.2 logs the principal.)"""
    owns, before = is_4(place), len(place.audit("create_database"))
    settings = place.realm.service(SECURITY_UPSTREAM_IDENTITY="pass_through", STORE="none", WORKERS="1")
    settings |= {"SECURITY_TRANSPORTS": "sasl", "SECURITY_HANDSHAKE_TIMEOUT_S": "60"}
    proxy = Proxy(tmp_path / "passing", f"thrift://localhost:{place.hive.port}", settings=settings)
    with closing(proxy.start()):
        for user in ("alice", "bob"):
            with place.client(user, port=proxy.port) as client:
                assert owner_of(client, f"passed_{user}") == (user if owns else None)
                token = decode_reply(client.call(encode_call("get_delegation_token", user, user)))[2].success
        with SaslConnection.to(proxy.port) as by_token:
            by_token.socket.settimeout(TIME_S)
            by_token.log_in_with(token)
            assert owner_of(by_token, "passed_bob_token") == ("bob" if owns else None)
        with SaslConnection.to(proxy.port) as client, pytest.raises(Refused, match=r"hadoop\.rpc\.protection"):
            client.socket.settimeout(TIME_S)
            client.log_in(place.realm.client("alice"), AUTH_CONF)
    audit = [re.search(r"ugi=(\w+)(@\S+)?\t", line) for line in place.audit("create_database")[before:]]
    assert [found and found[1] for found in audit] == ["alice", "bob", "bob"], audit


def calls_of(place: Place, users: list[str], names: list[str]) -> list[str]:
    """What SaslCalls prints of calls by these users on new databases."""
    lines = []
    for user, name in zip(users, names, strict=True):
        listed = ", ".join(sorted(("default", name)))
        lines += [f"[{listed}] {user if is_4(place) else 'null'} 100000", "missing"]
    return lines


def hives_client(place: Place, *arguments: str) -> tuple[list[str], str]:
    """Hive's client of the same age: what it prints, and what it says if something is wrong."""
    version = "4.0.1" if is_4(place) else "3.1.3"
    krb5, uri = place.realm.kdc.environment["KRB5_CONFIG"], f"thrift://localhost:{place.proxy.port}"
    mode, *rest = arguments
    ran = run(place.hive.directory / "client", uri, mode, f"hive/_HOST@{REALM}", *rest, krb5=krb5, version=version)
    return ran.stdout.splitlines(), ran.stderr[-3000:] + place.proxy.log_tail()


def no_database_is_left(place: Place) -> None:
    """The tests of Hive's client list all databases."""
    with place.client("alice") as client:
        for name in decode_reply(client.call(encode_call("get_all_databases")))[2].success:
            if name != "default":
                client.call(encode_call("drop_database", name, True, True))


@pytest.mark.timeout(900)
@pytest.mark.secures(
    client="Hive's Java client 4.0.1, 3.1.3",
    login="Kerberos, token",
    metastore="Hive 4.2 and 3.1.3 with Kerberos",
    who="the user, as Hive's audit says",
)
def test_hives_client(place: Place) -> None:
    """By ticket and by token, in all protections."""
    no_database_is_left(place)
    before = len(place.audit("create_database"))
    found, said = hives_client(place, "kerberos", "alice", str(place.realm.users["alice"]), *PROTECTIONS)
    names = [name for name in PROTECTIONS for _ in ("ticket", "token")]
    assert found == calls_of(place, ["alice"] * len(names), names), said
    audit = place.audit("create_database")[before:]
    assert len(audit) == len(names) and all("ugi=alice\t" in line for line in audit), audit


@pytest.mark.timeout(900)
@pytest.mark.secures(
    client="Hive's Java client 4.0.1, 3.1.3, as HiveServer2 with doAs",
    login="Kerberos, tokens of its users",
    metastore="Hive 4.2 and 3.1.3 with Kerberos",
    who="the user, as Hive's audit says",
)
def test_a_service_that_acts_for_users(place: Place) -> None:
    """As HiveServer2 with doAs: it gets tokens for its users, whom Hive's audit names; no token for svc, who is in no
    rule."""
    no_database_is_left(place)
    before = len(place.audit("create_database"))
    service = f"hive/localhost@{REALM}"
    found, said = hives_client(place, "doas", service, str(place.realm.proxy), "alice", "bob", "svc")
    assert found[:-1] == calls_of(place, ["alice", "bob"], ["of_alice", "of_bob"]), said
    assert "svc" in found[-1] and "impersonate" in found[-1], found
    audit = place.audit("create_database")[before:]
    assert [line.partition("ugi=")[2].split("\t")[0] for line in audit] == ["alice", "bob"], audit
