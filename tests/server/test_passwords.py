"""Clients that log in with a password (SASL PLAIN), at one worker: with a file, and with a real directory."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import bcrypt
import pytest

from tests.server.conftest import Worker
from tests.server.logged_in import COMPLETE, OK, START, Refused, SaslConnection, message
from tests.server.scripted import STOP, Call, ScriptedMetastore, string_field
from tests.server.secured import over_tls
from tests.testbed.certificates import Authority
from tests.testbed.processes import SOON_S, wait_until
from tests.testbed.raw import RawConnection, decode_reply, encode_call

VERSION = encode_call("getVersion", seqid=4)
WRONG = "Error validating the login"


def log_in(connection: RawConnection, user: str, password: str, authzid: str = "") -> SaslConnection:
    """The connection after a login. Raises Refused with the server's words."""
    client = SaslConnection.opened(connection.socket)
    client.framed = True
    client.send_bytes(message(START, b"PLAIN") + message(OK, f"{authzid}\0{user}\0{password}".encode()))
    assert client.answer(COMPLETE) == b""
    return client


def written(file: Path, **users: str) -> Path:
    """As `htpasswd -B` writes it."""
    lines = (f"{name}:{bcrypt.hashpw(text.encode(), bcrypt.gensalt(5)).decode()}\n" for name, text in users.items())
    replaced = file.with_suffix(".new")
    replaced.write_text("".join(lines))
    replaced.rename(file)
    return file


def set_ugis(metastore: ScriptedMetastore) -> list[bytes]:
    return [call.arguments for _, call in metastore.calls if call.name == "set_ugi"]


def test_passwords_of_a_file(scripted: ScriptedMetastore, new_worker: Callable[..., Worker], tmp_path: Path) -> None:
    """Within TLS only; the metastore is told the user; a new file counts at once, for what was remembered, too."""
    authority = Authority(tmp_path / "tls")
    file = written(tmp_path / "passwords", alice="secret", bob="other")
    security = {"transports": ["sasl", "tls+sasl"], "password_file": str(file)}
    worker = new_worker(scripted.address, security=security, tls=authority.signed("server").settings())

    def attempt(user: str, password: str, authzid: str = "") -> str:
        """The server's words; empty: let in."""
        connection = over_tls(authority.client(), worker.port)
        try:
            with log_in(connection, user, password, authzid) as client:
                assert b"ok" in client.call(VERSION)
                reply = client.call(encode_call("set_ugi", "root", ["wheel"], seqid=3))
                assert decode_reply(reply)[2].success == ["wheel", "root"]
                client.call(VERSION)
        except Refused as refused:
            return str(refused)
        finally:
            connection.close()
        return ""

    assert attempt("alice", "secret") == attempt("bob", "other", "bob") == ""
    assert set_ugis(scripted) == [Call(encode_call("set_ugi", name, [])).arguments for name in ("alice", "bob")]
    assert attempt("alice", "other") == attempt("alice", "") == attempt("eve", "secret") == WRONG
    assert attempt("alice", "secret", "bob") == "Problem with callback handler"
    assert worker.counted(4, "hms_proxy_handshakes_total", transport="sasl", result="failed")
    assert worker.logged("eve is not in security.password_file")
    with worker.raw() as plain, pytest.raises(Refused, match="Unsupported mechanism type PLAIN"):
        log_in(plain, "alice", "secret")
    assert worker.logged("it is accepted within TLS only")
    with worker.raw() as plain, pytest.raises(Refused, match="Unsupported mechanism type GSSAPI"):
        client = SaslConnection.opened(plain.socket)
        client.send_bytes(message(START, b"GSSAPI") + message(OK, b"ticket"))
        client.answer(OK)
    written(file, alice="new")
    assert worker.counted(1, "hms_proxy_reloads_total", what="passwords", result="loaded")
    assert attempt("alice", "new") == ""
    assert attempt("alice", "secret") == attempt("bob", "other") == WRONG
    file.write_text("alice:secret\n")
    assert worker.counted(1, "hms_proxy_reloads_total", what="passwords", result="failed")
    assert attempt("alice", "new") == ""
    assert not any(secret in worker.log() for secret in ("secret\\", "other", '"new"'))


def test_without_tls_if_that_is_asked_for(
    scripted: ScriptedMetastore, new_worker: Callable[..., Worker], tmp_path: Path
) -> None:
    file = written(tmp_path / "passwords", alice="secret")
    security = {"transports": ["sasl"], "password_file": str(file), "passwords_without_tls": True}
    worker = new_worker(scripted.address, security=security)
    with log_in(worker.raw(), "alice", "secret") as client:
        assert b"ok" in client.call(VERSION)
    for response in (b"", b"\0\0\0", b"alice", b"\0alice\0secret\0" * 1000):
        with worker.raw() as connection:
            client = SaslConnection.opened(connection.socket)
            client.send_bytes(message(START, b"PLAIN") + message(OK, response))
            with pytest.raises(Refused, match=WRONG):
                client.answer(COMPLETE)
    assert worker.metric("hms_proxy_internal_errors_total") == 0


@pytest.mark.parametrize("within_tls", [False, True])
def test_a_client_that_leaves_before_its_login_is_done(
    scripted: ScriptedMetastore, new_worker: Callable[..., Worker], tmp_path: Path, within_tls: bool
) -> None:
    """Passwords take a while to check. Such a client is none: it is counted as no connection, and it is no error."""
    authority = Authority(tmp_path / "tls")
    file = tmp_path / "passwords"
    file.write_text(f"alice:{bcrypt.hashpw(b'secret', bcrypt.gensalt(11)).decode()}\n")
    security = {"transports": ["sasl", "tls+sasl"], "password_file": str(file), "passwords_without_tls": True}
    worker = new_worker(scripted.address, security=security, tls=authority.signed("server").settings())
    connection = over_tls(authority.client(), worker.port) if within_tls else worker.raw()
    connection.send_bytes(message(START, b"PLAIN") + message(OK, b"\0alice\0secret"))
    connection.close()
    assert worker.counted(1, "hms_proxy_handshakes_total", transport="sasl", result="failed")
    assert worker.logged("the client closed the connection during the login")
    with log_in(worker.raw(), "alice", "secret") as client:
        assert b"ok" in client.call(VERSION)
        assert worker.counted(1, "hms_proxy_connections")
    assert wait_until(lambda: worker.metric("hms_proxy_connections") == 0)
    assert worker.metric("hms_proxy_internal_errors_total") == 0


def test_a_metastore_that_ignores_users(
    scripted: ScriptedMetastore, new_worker: Callable[..., Worker], tmp_path: Path
) -> None:
    """Nobody is let in, as every call would be the metastore's own."""
    no = string_field(0, b"false") + STOP
    scripted.answers["get_config_value"] = lambda message, call: iter([call.reply(no)])
    file = written(tmp_path / "passwords", alice="secret")
    security = {"transports": ["plain", "sasl"], "password_file": str(file), "passwords_without_tls": True}
    worker = new_worker(scripted.address, security=security)
    assert worker.logged("ignores users (metastore.execute.setugi = false)")
    with worker.raw() as connection, pytest.raises(Refused, match="ignores users"):
        log_in(connection, "alice", "secret")
    assert not set_ugis(scripted)
    with worker.raw() as neighbour:
        assert b"ok" in neighbour.call(VERSION)


def test_a_metastore_that_begins_to_ignore_users(
    scripted: ScriptedMetastore, new_worker: Callable[..., Worker], tmp_path: Path
) -> None:
    """As it is first asked after a login. Whoever has logged in is not served any more."""
    asked, go_on = threading.Event(), threading.Event()

    def answer(message: bytes, call: Call) -> Iterator[bytes]:
        asked.set()
        assert go_on.wait(SOON_S)
        yield call.reply(string_field(0, b"false") + STOP)

    scripted.answers["get_config_value"] = answer
    file = written(tmp_path / "passwords", alice="secret")
    security = {"transports": ["sasl"], "password_file": str(file), "passwords_without_tls": True}
    worker = new_worker(scripted.address, security=security, upstream_options={"connect_timeout_s": SOON_S})
    assert asked.wait(SOON_S)
    with log_in(worker.raw(), "alice", "secret") as alice:
        assert b"ok" in alice.call(VERSION)
        go_on.set()
        assert alice.at_end()


def test_passwords_of_a_directory(
    scripted: ScriptedMetastore, new_worker: Callable[..., Worker], tmp_path: Path
) -> None:
    """While it does not answer, those go on who have logged in, and those whose password is remembered."""
    from tests.testbed.slapd import BASE, Slapd

    with Slapd(tmp_path / "slapd", {"alice": "secret", "bob": "other"}) as slapd:
        security = {"transports": ["sasl"], "passwords_without_tls": True}
        ldap = {"url": slapd.url, "user_dn": f"uid={{user}},{BASE}", "timeout_s": 30}
        worker = new_worker(scripted.address, security=security, ldap=ldap)
        with log_in(worker.raw(), "alice", "secret") as alice:
            for _ in range(3):
                with worker.raw() as connection, pytest.raises(Refused, match=WRONG):
                    log_in(connection, "bob", "guess")
            assert slapd.binds("bob") == 1
            slapd.stop()
            alice.call(VERSION)
            log_in(worker.raw(), "alice", "secret").close()
            with worker.raw() as connection, pytest.raises(Refused, match="Passwords cannot be checked at the moment"):
                log_in(connection, "bob", "other")
            assert worker.logged("Can't contact LDAP server")
            slapd.start()
            with log_in(worker.raw(), "bob", "other") as bob:
                bob.call(VERSION)


def test_a_directory_that_hangs_harms_nobody_else(
    scripted: ScriptedMetastore, new_worker: Callable[..., Worker], tmp_path: Path
) -> None:
    from tests.testbed.slapd import BASE, Slapd

    with Slapd(tmp_path / "slapd", {"alice": "secret"}) as slapd:
        security = {"transports": ["plain", "sasl"], "passwords_without_tls": True, "handshake_timeout_s": SOON_S}
        ldap = {"url": slapd.url, "user_dn": f"uid={{user}},{BASE}", "timeout_s": 3}
        worker = new_worker(scripted.address, security=security, ldap=ldap)
        said: list[str] = []

        def attempt() -> None:
            with worker.raw() as connection, pytest.raises(Refused) as refused:
                log_in(connection, "alice", "secret")
            said.append(str(refused.value))

        threads = [threading.Thread(target=attempt) for _ in range(4)]
        calls = 0
        with slapd.hanging(), worker.raw() as neighbour:
            for thread in threads:
                thread.start()
            while any(thread.is_alive() for thread in threads):
                neighbour.call(VERSION)
                calls += 1
                time.sleep(0.01)
        assert said == ["Passwords cannot be checked at the moment"] * 4
        assert calls > 20, "more than there would be if each had waited for a login"
        log_in(worker.raw(), "alice", "secret").close()
