"""Logins with GSSAPI against a real KDC: protections, whom a client may act as, and what is refused."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hms_cache_proxy.errors import ConfigError, WireError
from hms_cache_proxy.security.kerberos import Keytab, Login
from hms_cache_proxy.security.mechanism import LoginRefused
from hms_cache_proxy.wire.sasl import Layers
from tests.server.logged_in import Realm, realm_in
from tests.testbed.kdc import REALM

EVERY = Layers(7)


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Realm]:
    """A realm for this module."""
    with realm_in(tmp_path_factory.mktemp("kdc")) as realm:
        yield realm


def logged_in(login: Login, client: Any, chosen: bytes, change: Callable[[bytes], bytes] = bytes) -> None:
    """The whole negotiation; `change` is what happens to the ticket."""
    step = login.step(change(client.step()))
    while not client.complete:
        answer = client.step(step.payload)
        step = login.step(answer or b"")
    offered = client.unwrap(step.payload).message
    assert offered[0] == int(EVERY) and offered[1:4] == b"\1\0\0"
    assert login.step(client.wrap(chosen, False).message) == (b"", True)


@pytest.mark.parametrize("authzid", ["", f"alice@{REALM}"])
def test_without_protection(realm: Realm, authzid: str) -> None:
    login = Keytab(str(realm.proxy), EVERY).login()
    logged_in(login, realm.client(), b"\1\0\0\0" + authzid.encode())
    assert (login.principal, login.protection.layer) == (f"alice@{REALM}", Layers.AUTH)
    assert login.protection.wrap(b"message") == login.protection.unwrap(b"message") == b"message"


@pytest.mark.parametrize("layer", [Layers.AUTH_INT, Layers.AUTH_CONF])
def test_protections(realm: Realm, layer: Layers) -> None:
    login, client = Keytab(str(realm.proxy), EVERY).login(), realm.client()
    logged_in(login, client, bytes([layer]) + b"\1\0\0")
    assert (login.principal, login.protection.layer) == (f"alice@{REALM}", layer)
    private = layer is Layers.AUTH_CONF
    assert login.protection.unwrap(client.wrap(b"call", private).message) == b"call"
    reply = client.unwrap(login.protection.wrap(b"x" * 100_000))
    assert reply.message == b"x" * 100_000 and reply.encrypted is private
    changed = bytearray(client.wrap(b"call", private).message)
    changed[-1] ^= 1
    for wrong in (bytes(changed), b"call", b"", *([client.wrap(b"call", False).message] if private else [])):
        with pytest.raises(WireError, match="not"):
            login.protection.unwrap(wrong)


def test_refused(realm: Realm) -> None:
    keytab = Keytab(str(realm.proxy), EVERY)
    seen: list[bytes] = []
    logged_in(keytab.login(), realm.client(), b"\1\0\0\0", lambda ticket: seen.append(ticket) or ticket)  # type: ignore[func-returns-value]
    for what, change, detail in (
        ("replayed", lambda ticket: seen[0], "replay"),
        ("garbage", lambda ticket: b"\x60" + os.urandom(300), "Invalid token"),
        ("changed", lambda ticket: ticket[:-5] + bytes([ticket[-5] ^ 1]) + ticket[-4:], "integrity check failed"),
        ("cut", lambda ticket: ticket[:100], ""),
        ("empty", lambda ticket: b"", ""),
    ):
        with pytest.raises(LoginRefused, match="GSS initiate failed") as raised:
            logged_in(keytab.login(), realm.client(), b"\1\0\0\0", change)
        assert detail in raised.value.detail, (what, raised.value.detail)
    with pytest.raises(LoginRefused) as raised:
        logged_in(keytab.login(), realm.client(service="other"), b"\1\0\0\0")
    assert "not found in keytab" in raised.value.detail
    for chosen in (b"\0\0\0\0", b"\3\0\0\0", b"\1\0", b""):
        with pytest.raises(WireError):
            logged_in(keytab.login(), realm.client(), chosen)
    with pytest.raises(LoginRefused, match="Problem with callback handler"):
        logged_in(keytab.login(), realm.client(), b"\1\0\0\0bob")


def test_a_keytab_that_cannot_be_used(realm: Realm, tmp_path: Path) -> None:
    for content in (None, b"", base64.b64encode(os.urandom(60))):
        file = tmp_path / "keytab"
        if content is not None:
            file.write_bytes(content)
        with pytest.raises(ConfigError, match="kerberos.keytab: "):
            Keytab(str(file), EVERY)
