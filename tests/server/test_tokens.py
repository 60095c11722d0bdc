"""The proxy's own delegation tokens, at workers and a real KDC."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.server import digest
from tests.server.conftest import Worker, started
from tests.server.logged_in import AUTH, AUTH_CONF, AUTH_INT, Refused, SaslConnection, message, realm_in
from tests.server.scripted import ScriptedMetastore
from tests.server.test_kerberos import USER, VERSION, Place, closed
from tests.testbed.raw import decode_reply, encode_call

RULES: dict[str, Any] = {
    "tokens": {"proxy_users": ["bob=alice|carol@127.0.0.0/8", "bob=dave@10.0.0.1"], "administrators": ["root"]}
}
KEY, NEW_KEY = "k" * 32, "n" * 40
UNKNOWN = "DIGEST-MD5: IO error acquiring password"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """One for several tests."""
    directory = tmp_path_factory.mktemp("tokens")
    with (
        realm_in(directory) as realm,
        ScriptedMetastore() as metastore,
        started(directory, metastore.address, **realm.settings(), **RULES) as worker,
    ):
        yield Place(realm, worker, metastore)


@pytest.fixture
def place(shared: Place) -> Place:
    """The shared one."""
    shared.metastore.calls.clear()
    return shared._replace(worker=shared.worker.lent())


def ask(client: SaslConnection, method: str, *args: str) -> Any:
    """The result, or the text of the exception."""
    result = decode_reply(client.call(encode_call(method, *args)))[2]
    return result.o1.message if result.o1 is not None else getattr(result, "success", None)


def token_of(place: Place, user: str = "alice", owner: str = "", renewer: str = "hive/localhost@LAB.TEST") -> str:
    """A new token."""
    with place.connected(user) as client:
        text = ask(client, "get_delegation_token", owner or user, renewer)
    assert isinstance(text, str) and len(text) > 100, text
    return text


def come_by(worker: Worker, token: str, layer: int = AUTH) -> SaslConnection:
    """A client with this token."""
    client = SaslConnection.to(worker.port, worker.source)
    try:
        client.log_in_with(token, layer)
    except BaseException:
        client.close()
        raise
    return client


def refused(worker: Worker, token: str) -> str:
    """The words with which this token is refused."""
    with pytest.raises(Refused) as raised:
        come_by(worker, token)
    return str(raised.value)


@pytest.mark.parametrize("layer", [AUTH, AUTH_INT, AUTH_CONF])
def test_a_client_comes_by_its_token(place: Place, layer: int) -> None:
    token = token_of(place)
    found = digest.said(token)
    assert (found.owner, found.renewer, found.real_user) == ("alice", "hive", "")
    assert found.latest_ms - found.issued_ms == 7 * 86_400_000
    with come_by(place.worker, token, layer) as client:
        for seqid in range(3):
            assert b"ok" in client.call(encode_call("get_config_value", "x" * 100_000, "y", seqid=seqid))
        assert decode_reply(client.call(encode_call("set_ugi", "root", ["g"])))[2].success == ["g", "root"]
    assert [call.arguments for call in place.metastore.named("set_ugi")] == [USER["alice"]]
    assert place.worker.logged("mechanism=DIGEST-MD5") or place.worker.logged('"mechanism": "DIGEST-MD5"')
    assert not place.metastore.named("get_delegation_token")
    for secret in (token, digest.parts_of(token)[1].hex()):
        assert secret not in place.worker.log()


def test_who_may_ask_for_whom(place: Place) -> None:
    with place.connected("alice") as alice, place.connected("bob") as bob:
        assert "alice is not allowed to impersonate bob" in ask(alice, "get_delegation_token", "bob", "hive")
        assert "Unauthorized connection for super-user: bob" in ask(bob, "get_delegation_token", "dave", "hive")
        assert "not allowed to impersonate erin" in ask(bob, "get_delegation_token", "erin", "hive")
        assert "needs an owner" in ask(alice, "get_delegation_token", "", "hive")
        assert "no rule" in ask(alice, "get_delegation_token", "alice@OTHER.TEST", "hive")
        assert "no rule" in ask(alice, "get_delegation_token", "alice", "hive/h@OTHER.TEST")
        token = ask(alice, "get_delegation_token", "alice@LAB.TEST", "x")
        assert digest.said(token)[:3] == ("alice", "x", "")
    token = token_of(place, "bob", "carol")
    assert digest.said(token)[:3] == ("carol", "hive", "bob")
    with come_by(place.worker, token) as carol:
        assert "only with kerberos" in ask(carol, "get_delegation_token", "carol", "hive")
        carol.call(VERSION)
    assert place.worker.logged("real_user=bob") or place.worker.logged('"real_user": "bob"')


def test_who_may_ask_for_the_users_of_a_group(
    place: Place, new_worker: Callable[..., Worker], scripted: ScriptedMetastore, tmp_path: Path
) -> None:
    """The file is followed; a rule of a group says nothing about others."""
    file = tmp_path / "groups"
    file.write_text("analysts:x:1000:carol\n")
    tokens = {"proxy_users": ["bob=%analysts|dave", "alice=%none"], "groups_file": str(file)}
    worker = new_worker(scripted.address, **place.realm.settings(), tokens=tokens)
    own = place._replace(worker=worker, metastore=scripted)
    assert digest.said(token_of(own, "bob", "carol"))[:3] == ("carol", "hive", "bob")
    assert digest.said(token_of(own, "bob", "dave"))[:3] == ("dave", "hive", "bob")
    with own.connected("alice") as alice, own.connected("bob") as bob:
        assert "alice is not allowed to impersonate carol" in ask(alice, "get_delegation_token", "carol", "hive")
        assert "not allowed to impersonate erin" in ask(bob, "get_delegation_token", "erin", "hive")
        file.write_text("analysts:x:1000:erin\n")
        assert worker.counted(1, "hms_proxy_reloads_total", what="groups")
        assert "not allowed to impersonate carol" in ask(bob, "get_delegation_token", "carol", "hive")
    assert digest.said(token_of(own, "bob", "erin"))[:3] == ("erin", "hive", "bob")


def test_renewing_and_cancelling(place: Place) -> None:
    token = token_of(place, renewer="bob")
    other = token_of(place, "bob", renewer="nobody")
    with place.connected("alice") as alice, place.connected("bob") as bob, come_by(place.worker, token) as by_token:
        assert ask(bob, "renew_delegation_token", token) == digest.said(token).latest_ms
        assert "alice tries to renew a token with non-matching renewer bob" in ask(
            alice, "renew_delegation_token", token
        )
        assert "not authorized to cancel the token of bob" in ask(alice, "cancel_delegation_token", other)
        wrong = digest.changed(token, password=b"x" * 32)
        assert "wrong password" in ask(alice, "cancel_delegation_token", wrong)
        assert "not a delegation token" in ask(alice, "cancel_delegation_token", "x")
        by_token.call(VERSION)
        assert ask(bob, "cancel_delegation_token", token) is None
        assert refused(place.worker, token) == UNKNOWN
        assert closed(by_token)
        assert "has been cancelled" in ask(bob, "renew_delegation_token", token)
        assert ask(bob, "cancel_delegation_token", other) is None
        alice.call(VERSION)
    assert place.worker.logged("has been cancelled")
    assert place.worker.metric("hms_proxy_internal_errors_total") == 0


def test_tokens_that_are_not_ours(place: Place) -> None:
    token = token_of(place)
    identifier = digest.parts_of(token)[0]
    forged = identifier.replace(b"\5alice", b"\5carol")
    assert "Mismatched response" in refused(place.worker, digest.changed(token, identifier=forged))
    assert "Mismatched response" in refused(place.worker, digest.changed(token, password=b"x" * 32))
    for wrong in (b"", identifier[:-1], identifier + b"x", identifier[:-4] + b"\x8c\1\1\1\1", b"\0" * 100):
        assert refused(place.worker, digest.changed(token, identifier=wrong)) == UNKNOWN
    with come_by(place.worker, token) as client:
        client.call(VERSION)
    with SaslConnection.to(place.worker.port, place.worker.source) as client, pytest.raises(Refused):
        client.send_bytes(message(1, b"DIGEST-MD5") + message(2, b"x"))
        client.answer(2)
    assert place.worker.metric("hms_proxy_internal_errors_total") == 0


def test_expiry_ends_connections(place: Place, new_worker: Callable[..., Worker], scripted: ScriptedMetastore) -> None:
    worker = new_worker(scripted.address, **place.realm.settings(), tokens={"lifetime": 3})
    token = token_of(place._replace(worker=worker))
    with come_by(worker, token) as by_token, place._replace(worker=worker).connected() as by_ticket:
        by_token.call(VERSION)
        assert closed(by_token)
        assert time.time() * 1000 > digest.said(token).latest_ms
        by_ticket.call(VERSION)
    assert refused(worker, token) == UNKNOWN
    assert worker.logged("has expired")


def test_keys_are_shared_and_rotated(
    place: Place, new_worker: Callable[..., Worker], scripted: ScriptedMetastore, tmp_path: Path
) -> None:
    """Two proxies with one file; a new key signs, the old one verifies until it is taken away."""
    file = tmp_path / "keys"
    file.write_text(f"# of tests\n{KEY}\n")
    settings = {**place.realm.settings(), "tokens": {"key_file": str(file)}}
    one, other = (place._replace(worker=new_worker(scripted.address, **settings)) for _ in range(2))
    old = token_of(one)
    with come_by(other.worker, old) as client:
        client.call(VERSION)
        assert refused(place.worker, old) == UNKNOWN
        file.write_text(f"{NEW_KEY}\n{KEY}\n")
        assert all(it.worker.counted(1, "hms_proxy_reloads_total", what="token_keys") for it in (one, other))
        new = token_of(one)
        assert digest.said(new).key != digest.said(old).key
        for token in (old, new):
            with come_by(other.worker, token) as later:
                later.call(VERSION)
        file.write_text("short\n")
        assert other.worker.counted(1, "hms_proxy_reloads_total", what="token_keys", result="failed")
        client.call(VERSION)
        file.write_text(f"{NEW_KEY}\n")
        assert closed(client)
    assert refused(other.worker, old) == UNKNOWN
    with come_by(other.worker, new) as client:
        client.call(VERSION)
