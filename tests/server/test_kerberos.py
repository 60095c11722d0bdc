"""Clients that log in with Kerberos, at one worker and a real KDC."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from tests.chance import chance
from tests.lengths import by_tier
from tests.server.conftest import Worker, started
from tests.server.logged_in import (
    AUTH,
    AUTH_CONF,
    AUTH_INT,
    Realm,
    Refused,
    SaslConnection,
    client_context,
    message,
    realm_in,
)
from tests.server.scripted import STOP, Call, Hangup, ScriptedMetastore, string_field
from tests.server.secured import over_tls
from tests.testbed.certificates import Authority
from tests.testbed.kdc import REALM, Kdc
from tests.testbed.processes import SOON_S, wait_until
from tests.testbed.raw import EndOfStream, RawConnection, decode_reply, encode_call

VERSION = encode_call("getVersion", seqid=4)
RULE = r"RULE:[1:$1@$0](.*@LAB\.TEST)s/@.*//"
LOGINS = int(os.environ.get("FUZZ_HANDSHAKES", by_tier(test=300, all=2000, every=10_000)))
BRIEF_S, SKEW_S = 10, 2
USER = {name: Call(encode_call("set_ugi", name, [])).arguments for name in ("alice", "bob")}


def hang_up(message: bytes, call: Call) -> Iterator[bytes]:
    """Close instead of an answer."""
    raise Hangup
    yield b""


class Place(NamedTuple):
    """A worker where clients log in, and its metastore, which wants no login."""

    realm: Realm
    worker: Worker
    metastore: ScriptedMetastore

    def connected(self, user: str = "alice", layer: int = AUTH, authzid: str = "") -> SaslConnection:
        """After a login."""
        connection = SaslConnection.to(self.worker.port, self.worker.source)
        try:
            connection.log_in(self.realm.client(user), layer, authzid)
        except (Refused, AssertionError):
            connection.close()
            raise
        return connection


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """One for several tests."""
    directory = tmp_path_factory.mktemp("kerberos")
    with (
        realm_in(directory) as realm,
        ScriptedMetastore() as metastore,
        started(
            directory, metastore.address, **realm.settings(auth_to_local=[RULE]), limits={"max_message_bytes": 8 << 20}
        ) as worker,
    ):
        yield Place(realm, worker, metastore)


@pytest.fixture
def place(shared: Place) -> Place:
    """The shared one."""
    shared.metastore.calls.clear()
    return shared._replace(worker=shared.worker.lent())


def of_clients(metastore: ScriptedMetastore) -> list[str]:
    """The calls, but for the worker's own: whether the metastore heeds users."""
    return [call.name for _, call in metastore.calls if call.name != "get_config_value"]


def closed(connection: RawConnection) -> bool:
    """Does the worker end it, without a word?"""
    connection.socket.settimeout(SOON_S)
    return connection.at_end() and not connection._buffer


def refused(worker: Worker) -> float:
    """Logins so far."""
    return worker.metric("hms_proxy_handshakes_total", transport="sasl", result="failed")


@pytest.mark.parametrize("layer", [AUTH, AUTH_INT, AUTH_CONF])
def test_served(place: Place, layer: int) -> None:
    done = place.worker.metric("hms_proxy_handshakes_total", transport="sasl", result="done")
    with place.connected(layer=layer) as client:
        for seqid in range(3):
            assert b"ok" in client.call(encode_call("getVersion", seqid=seqid))
    assert of_clients(place.metastore) == ["set_ugi", *["getVersion"] * 3]
    assert place.metastore.named("set_ugi")[0].arguments == USER["alice"]
    assert place.worker.counted(done + 1, "hms_proxy_handshakes_total", transport="sasl", result="done")
    kind = {AUTH: "auth", AUTH_INT: "auth-int", AUTH_CONF: "auth-conf"}[layer]
    assert place.worker.logged(f"protection={kind}") or place.worker.logged(f'"protection": "{kind}"')


def test_the_user_is_that_of_the_login(place: Place) -> None:
    """set_ugi is answered as Hive answers it over SASL, and changes nothing, also on a new connection upstream."""
    with place.connected("bob", authzid="bob@LAB.TEST") as bob, place.connected("alice") as alice:
        for client in (bob, alice):
            reply = client.call(encode_call("set_ugi", "root", ["wheel", "staff"], seqid=3))
            assert decode_reply(reply)[2].success == ["wheel", "staff", "root"]
            client.call(VERSION)
            assert decode_reply(client.call(encode_call("set_ugi", "root", [], seqid=4)))[2].success == ["root"]
        assert [call.arguments for call in place.metastore.named("set_ugi")] == [USER["bob"], USER["alice"]]
        place.metastore.answers["get_all_databases"] = hang_up
        with pytest.raises(EndOfStream):
            bob.call(encode_call("get_all_databases"))
        alice.call(VERSION)
    assert {call.arguments for call in place.metastore.named("set_ugi")} == {USER["bob"], USER["alice"]}
    assert place.worker.logged("principal=bob@LAB.TEST") or place.worker.logged('"principal": "bob@LAB.TEST"')


@pytest.mark.parametrize("layer", [AUTH, AUTH_INT, AUTH_CONF])
def test_both_directions_have_any_size(place: Place, layer: int) -> None:
    """Nobody else waits meanwhile."""
    big = os.urandom(1 << 20) * 12
    place.metastore.answers["get_config_value"] = lambda message, call: iter([call.reply(string_field(0, big) + STOP)])
    question = encode_call("get_config_value", "x" * 3_000_000, "y", seqid=7)
    waits: list[float] = []
    with place.connected(layer=layer) as client, place.connected() as neighbour, ThreadPoolExecutor(1) as thread:
        client.socket.settimeout(120)
        neighbour.call(VERSION)
        for _ in range(2):
            under_way = thread.submit(client.call, question)
            while not under_way.done():
                began_s = time.monotonic()
                neighbour.call(VERSION)
                waits.append(time.monotonic() - began_s)
            reply = under_way.result()
            assert big in reply and len(reply) < len(big) + 100
        assert len(waits) > 5, "the large reply let nobody else be served"
    assert len(place.metastore.named("get_config_value")[0].arguments) > 3_000_000
    assert place.worker.metric("hms_proxy_internal_errors_total") == 0


def test_many_requests_at_once(place: Place) -> None:
    """Frames in one packet, frames byte by byte, a message in several frames."""
    for layer in (AUTH, AUTH_INT):
        with place.connected(layer=layer) as client:
            expected = client.call(VERSION)
            frames = [client.framed_bytes(VERSION) for _ in range(50)]
            client.send_bytes(b"".join(frames))
            assert [client.receive() for _ in frames] == [expected] * 50
            for byte in client.framed_bytes(VERSION):
                client.send_bytes(bytes([byte]))
            assert client.receive() == expected
            client.send_bytes(b"".join(client.framed_bytes(part) for part in (VERSION[:9], VERSION[9:])))
            assert client.receive() == expected


def test_refused_logins(place: Place) -> None:
    """Each with its words, one line of the log, and no effect on others."""
    realm, worker = place.realm, place.worker
    ticket: list[bytes] = []
    with place.connected() as neighbour:
        expected = neighbour.call(VERSION)

        def attempt(first: Callable[[], bytes], *, mechanism: bytes = b"GSSAPI") -> str:
            before = refused(worker)
            with SaslConnection.to(worker.port, worker.source) as client:
                client.send_bytes(message(1, mechanism) + message(2, first()))
                with pytest.raises(Refused) as raised:
                    client.answer(2)
                assert closed(client)
            assert worker.counted(before + 1, "hms_proxy_handshakes_total", transport="sasl", result="failed")
            assert neighbour.call(VERSION) == expected
            return str(raised.value)

        def once_more() -> bytes:
            if not ticket:
                context = realm.client()
                ticket.append(context.step())
                with SaslConnection.to(worker.port, worker.source) as client:
                    client.send_bytes(message(1, b"GSSAPI") + message(2, ticket[0]))
                    client.answer(2)
            return ticket[0]

        assert attempt(once_more) == "GSS initiate failed" and worker.logged("replay")
        assert attempt(lambda: realm.client(service="other").step()) == "GSS initiate failed"
        assert worker.logged("not found in keytab")
        assert attempt(lambda: b"\x60" + os.urandom(300)) == "GSS initiate failed"
        assert worker.logged("Invalid token was supplied")
        assert attempt(lambda: b"") == "GSS initiate failed" and worker.logged("an empty response")
        assert attempt(lambda: b"\0alice\0secret", mechanism=b"PLAIN") == "Unsupported mechanism type PLAIN"
        with SaslConnection.to(worker.port, worker.source) as client, pytest.raises(Refused, match="callback handler"):
            client.log_in(realm.client(), authzid="bob")
        assert worker.logged("alice@LAB.TEST asks to act as")
        with SaslConnection.to(worker.port, worker.source) as client, pytest.raises(Refused, match="No user"):
            client.log_in(realm.client("svc/localhost"))
        assert wait_until(lambda: worker.log().count("login refused") >= 8) and worker.log().count("login refused") == 8
    assert len(place.metastore.named("set_ugi")) == 1


def test_a_ticket_that_has_expired(
    place: Place, scripted: ScriptedMetastore, new_worker: Callable[..., Worker], tmp_path: Path
) -> None:
    """It was good when its client sent it; the KDC gives this user no longer ones. Nobody else is concerned."""
    principal, config = f"brief@{REALM}", tmp_path / "krb5.conf"
    keytab = place.realm.kdc.keytab("brief", options=f'-maxlife "{BRIEF_S} seconds"')
    usual = Path(os.environ["KRB5_CONFIG"]).read_text()
    config.write_text(usual.replace("[libdefaults]", f"[libdefaults]\n  clockskew = {SKEW_S}"))
    settings = place.realm.settings()
    settings["security"] = {"transports": ["plain", "sasl"]}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KRB5_CONFIG", str(config))
        worker = new_worker(scripted.address, **settings)
    late, soon = (client_context(keytab, principal, f"hive/localhost@{REALM}") for _ in range(2))
    ticket = late.step()
    until_s = time.time() + BRIEF_S + SKEW_S + 1
    with worker.raw() as neighbour, SaslConnection.to(place.worker.port, place.worker.source) as good:
        good.log_in(soon)
        expected = neighbour.call(VERSION)
        assert wait_until(lambda: time.time() > until_s)
        with SaslConnection.to(worker.port) as client:
            client.send_bytes(message(1, b"GSSAPI") + message(2, ticket))
            with pytest.raises(Refused, match="GSS initiate failed"):
                client.answer(2)
            assert closed(client)
        assert worker.logged("Ticket expired")
        assert neighbour.call(VERSION) == good.call(VERSION) == expected


def test_users_of_another_realm(place: Place, tmp_path: Path) -> None:
    """With a ticket for their own realm's service of the same name; and with one of the proxy's KDC, which trusts their
    realm. Neither makes alice@OTHER.TEST the user alice."""
    other = "OTHER.TEST"
    alice = f"alice@{other}"
    with Kdc(tmp_path / "other", other) as kdc, place.connected() as neighbour:
        expected = neighbour.call(VERSION)
        keytab, _ = kdc.keytab("alice"), kdc.keytab("hive/localhost")
        place.realm.kdc.trusts(kdc)
        for service, refusal, why in (
            (f"hive/localhost@{other}", "GSS initiate failed", "not found in keytab"),
            (f"hive/localhost@{REALM}", "No user has this principal's name", f"applies to {alice}"),
        ):
            with (
                pytest.MonkeyPatch.context() as patch,
                SaslConnection.to(place.worker.port, place.worker.source) as client,
                pytest.raises(Refused, match=refusal),
            ):
                patch.setenv("KRB5_CONFIG", kdc.environment["KRB5_CONFIG"])
                client.log_in(client_context(keytab, alice, service))
            assert place.worker.logged(why)
            assert neighbour.call(VERSION) == expected


def test_what_is_not_a_login_is_not_answered(place: Place) -> None:
    worker = place.worker
    for framed, name in ((False, "binary"), (True, "framed")):
        with worker.raw(framed=framed) as plain:
            plain.send(VERSION)
            assert closed(plain)
        assert worker.counted(1, "hms_proxy_refused_transports_total", transport=name)
    with worker.raw() as tls:
        tls.send_bytes(b"\x16\3\1\2\0\1\0\1\xfc\3\3")
        assert closed(tls)
    assert not of_clients(place.metastore)


def test_after_the_login_frames_have_to_be_as_agreed(place: Place) -> None:
    for layer in (AUTH_INT, AUTH_CONF):
        for wrong in (b"bare", b"changed", b"long"):
            with place.connected(layer=layer) as client:
                client.call(VERSION)
                payload = VERSION
                if wrong == b"changed":
                    payload = bytes(client.framed_bytes(VERSION)[4:-1]) + b"?"
                size = 2**31 - 1 if wrong == b"long" else len(payload)
                client.send_bytes(size.to_bytes(4, "big") + payload)
                assert closed(client), (layer, wrong)
    assert place.worker.logged("not wrapped as agreed") and place.worker.logged("a frame of 2147483647 bytes")
    assert place.worker.metric("hms_proxy_internal_errors_total") == 0


def test_long_frames_share_the_memory(
    place: Place, scripted: ScriptedMetastore, new_worker: Callable[..., Worker]
) -> None:
    """Frames that are not there yet count; the one that does not fit ends its connection, and no other."""
    limits = {"memory_bytes": 8 << 20}
    worker = new_worker(scripted.address, limits=limits, **place.realm.settings())
    place = place._replace(worker=worker)
    question = encode_call("get_config_value", "x" * 3_000_000, "y", seqid=7)
    with place.connected(layer=AUTH_INT) as first, place.connected(layer=AUTH_INT) as second:
        frames = [client.framed_bytes(question) for client in (first, second)]
        for client, frame in zip((first, second), frames, strict=True):
            client.send_bytes(frame[:-1])
        assert worker.counted(5_900_000, "hms_proxy_budget_bytes", budget="memory_bytes")
        with place.connected(layer=AUTH_CONF) as third:
            third.send_bytes(third.framed_bytes(question)[:-1])
            assert closed(third)
        assert worker.logged("limits.memory_bytes is used up")
        assert worker.counted(1, "hms_proxy_limits_broken_total", limit="memory_bytes")
        for client, frame in zip((first, second), frames, strict=True):
            client.send_bytes(frame[-1:])
            assert b"ok" in client.receive()
        with place.connected(layer=AUTH_CONF) as third:
            assert b"ok" in third.call(question)
    assert wait_until(lambda: worker.metric("hms_proxy_budget_bytes", budget="memory_bytes") < 100_000)


def test_a_login_has_its_time(place: Place, scripted: ScriptedMetastore, new_worker: Callable[..., Worker]) -> None:
    settings = place.realm.settings()
    settings["security"] = {"transports": ["plain", "sasl"], "handshake_timeout_s": 3}
    worker, ticket = new_worker(scripted.address, **settings), place.realm.client().step()
    with SaslConnection.to(worker.port) as slow, worker.raw() as neighbour:
        slow.send_bytes(message(1, b"GSSAPI") + message(2, ticket))
        slow.answer(2)
        neighbour.call(VERSION)
        assert closed(slow)
        neighbour.call(VERSION)
    assert worker.counted(1, "hms_proxy_limits_broken_total", limit="handshake_timeout_s")


def test_broken_logins_harm_nobody(place: Place) -> None:
    worker, rng = place.worker, chance("logins")
    ticket = place.realm.client().step()
    whole = message(1, b"GSSAPI") + message(2, ticket) + message(2) + message(5, rng.randbytes(32))
    descriptors = f"/proc/{worker.process.id.pid}/fd"
    with place.connected(layer=AUTH_CONF) as client, place.connected() as other:
        expected = other.call(VERSION)
        assert client.call(VERSION) == expected
        before = len(os.listdir(descriptors))
        for number in range(LOGINS):
            with worker.raw() as connection:
                try:
                    connection.send_bytes(broken(whole, len(ticket), rng))
                except ConnectionError:
                    pass  # closed before all of it was sent
            if number % 50 == 0:
                assert client.call(VERSION) == other.call(VERSION) == expected
        with place.connected() as late:
            assert late.call(VERSION) == expected
        assert wait_until(lambda: len(os.listdir(descriptors)) <= before)
    assert worker.metric("hms_proxy_internal_errors_total") == 0, worker.log()[-3000:]
    assert "Traceback" not in worker.log()


def broken(whole: bytes, ticket_bytes: int, rng: Random) -> bytes:
    """A login that means nothing, cut or changed anywhere."""
    kind = rng.randrange(6)
    if kind == 0:
        return whole[: rng.randrange(1, len(whole))]
    if kind == 1:
        return message(1, rng.choice((b"GSSAPI", b"DIGEST-MD5", b"", b"x" * 70_000))) + rng.randbytes(rng.randrange(99))
    if kind == 2:  # a length that is too large, or does not fit
        return message(1, b"GSSAPI") + bytes([rng.randrange(8)]) + rng.randbytes(4) + whole[20 : rng.randrange(21, 900)]
    damaged = bytearray(whole)
    for _ in range(rng.randrange(1, 6)):
        damaged[rng.randrange(len(damaged) if kind == 3 else 16)] = rng.randrange(256)
    if kind == 4:
        return bytes(damaged) + rng.randbytes(rng.randrange(1, 300_000))
    return bytes(damaged)


def test_a_new_keytab_is_used_by_new_connections(
    place: Place, scripted: ScriptedMetastore, new_worker: Callable[..., Worker], tmp_path: Path
) -> None:
    keytab = tmp_path / "keytab"
    keytab.write_bytes(place.realm.other.read_bytes())
    worker = new_worker(scripted.address, **place.realm.settings(keytab=str(keytab), protection=["auth"]))
    place = place._replace(worker=worker)
    with pytest.raises(Refused, match="GSS initiate failed"):
        place.connected()
    with SaslConnection.to(worker.port) as old:
        old.log_in(place.realm.client(service="other"))
        expected = old.call(VERSION)
        (tmp_path / "new").write_bytes(place.realm.proxy.read_bytes())
        (tmp_path / "new").rename(keytab)
        assert worker.counted(1, "hms_proxy_reloads_total", what="keytab", result="loaded")
        with place.connected() as new:
            assert new.call(VERSION) == old.call(VERSION) == expected
        with pytest.raises(AssertionError):  # not offered
            place.connected(layer=AUTH_CONF)
        keytab.write_bytes(b"not a keytab")
        assert worker.counted(1, "hms_proxy_reloads_total", what="keytab", result="failed")


@pytest.mark.parametrize("also_without", [False, True])
def test_within_tls(
    place: Place, scripted: ScriptedMetastore, new_worker: Callable[..., Worker], tmp_path: Path, also_without: bool
) -> None:
    authority = Authority(tmp_path / "tls")
    settings = place.realm.settings()
    settings["security"] = {"transports": ["tls+sasl", "tls"] if also_without else ["tls+sasl"]}
    worker = new_worker(scripted.address, tls=authority.signed("server").settings(), **settings)
    for layer in (AUTH, AUTH_CONF):
        with SaslConnection.opened(over_tls(authority.client(), worker.port).socket) as client:
            client.log_in(place.realm.client(), layer)
            for _ in range(3):
                client.call(VERSION)
    for framed in (False, True):
        with over_tls(authority.client(), worker.port, framed=framed) as without:
            if also_without:
                without.call(VERSION)
                without.call(VERSION)
            else:
                without.send(VERSION)
                assert closed(without)
    with place._replace(worker=worker).worker.raw() as bare:
        bare.send_bytes(message(1, b"GSSAPI") + message(2, place.realm.client().step()))
        assert closed(bare)
    assert len(scripted.named("getVersion")) == (10 if also_without else 6)
