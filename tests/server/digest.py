"""Delegation tokens and DIGEST-MD5 as Hadoop's clients have them. It uses nothing of the program.

Job: take a token apart, and be the client's side of a login with it, of which `wrap` and `unwrap` protect what follows.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import io
import re
from typing import Any, NamedTuple

QOPS = {1: b"auth", 2: b"auth-int", 4: b"auth-conf"}


class Message(NamedTuple):
    """What gssapi's contexts return."""

    message: bytes


class Said(NamedTuple):
    """What a token says of itself."""

    owner: str
    renewer: str
    real_user: str
    issued_ms: int
    latest_ms: int
    number: int
    key: int


def number(data: io.BytesIO) -> int:
    """A vint."""
    first = int.from_bytes(data.read(1), "big", signed=True)
    if first >= -112:
        return first
    size = -(first + 120) if first < -120 else -(first + 112)
    value = int.from_bytes(data.read(size), "big")
    return ~value if first < -120 else value


def parts_of(token: str) -> tuple[bytes, bytes, bytes, bytes]:
    """Identifier, password, kind, service."""
    data = io.BytesIO(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    found = [data.read(number(data)) for _ in range(4)]
    assert not data.read()
    return found[0], found[1], found[2], found[3]


def said(token: str) -> Said:
    """Its identifier, read."""
    data = io.BytesIO(parts_of(token)[0])
    assert data.read(1) == b"\0"
    names = [data.read(number(data)).decode() for _ in range(3)]
    return Said(*names, *(number(data) for _ in range(4)))  # type: ignore[arg-type]


def changed(token: str, **parts: bytes) -> str:
    """The token with another identifier or password."""
    identifier, password, kind, service = parts_of(token)
    new = (parts.get("identifier", identifier), parts.get("password", password), kind, service)
    assert all(len(part) < 128 for part in new)
    return base64.urlsafe_b64encode(b"".join(bytes([len(part)]) + part for part in new)).rstrip(b"=").decode()


def md5(data: bytes) -> bytes:
    return hashlib.md5(data).digest()


class Digest:
    """One login."""

    def __init__(self, token: str, layer: int) -> None:
        identifier, password, kind, _ = parts_of(token)
        assert kind == b"HIVE_DELEGATION_TOKEN"
        self._user, self._password = base64.b64encode(identifier), base64.b64encode(password)
        self._layer, self._sent, self._received = layer, 0, 0

    def response(self, challenge: bytes) -> bytes:
        """To the server's challenge."""
        given = {name: value.strip(b'"') for name, value in re.findall(rb'([a-z]+)=("[^"]*"|[^,]*)', challenge)}
        qop, cnonce = QOPS[self._layer], b"abcdefgh"
        assert qop in given[b"qop"].split(b",") and given[b"algorithm"] == b"md5-sess", challenge
        nonce, realm = given[b"nonce"], given[b"realm"]
        secret = md5(b":".join((self._user, realm, self._password)))
        self._key = md5(b":".join((secret, nonce, cnonce)))
        ending = b"" if qop == b"auth" else b":" + b"0" * 32

        def answer(method: bytes) -> bytes:
            second = md5(method + b":null/default" + ending).hex().encode()
            first = self._key.hex().encode()
            return md5(b":".join((first, nonce, b"00000001", cnonce, qop, second))).hex().encode()

        self._expected = b"rspauth=" + answer(b"")
        said = b'charset=utf-8,username="%s",realm="%s",nonce="%s",nc=00000001,cnonce="%s",digest-uri="null/default",'
        said %= self._user, realm, nonce, cnonce
        cipher = b',cipher="rc4"' if self._layer == 4 else b""
        self._make_keys()
        return said + b"maxbuf=65536,response=%s,qop=%s" % (answer(b"AUTHENTICATE"), qop) + cipher

    def check(self, payload: bytes) -> None:
        """The server's last word."""
        assert payload == self._expected

    def wrap(self, message: bytes, encrypted: bool) -> Message:
        """As a frame's payload."""
        content = message + self._mac(self._out, self._sent, message)
        if encrypted:
            content = self._seal.update(content)
        self._sent += 1
        return Message(content + b"\0\1" + (self._sent - 1).to_bytes(4, "big"))

    def unwrap(self, payload: bytes) -> Message:
        """What a frame holds."""
        content, ending = payload[:-6], payload[-6:]
        if self._layer == 4:
            content = self._unseal.update(content)
        assert ending == b"\0\1" + self._received.to_bytes(4, "big")
        assert content[-10:] == self._mac(self._in, self._received, content[:-10])
        self._received += 1
        return Message(content[:-10])

    def _make_keys(self) -> None:
        signing = b"Digest session key to %s signing key magic constant"
        self._out, self._in = (
            md5(self._key + signing % b"client-to-server"),
            md5(self._key + signing % b"server-to-client"),
        )
        if self._layer == 4:
            sealing = b"Digest H(A1) to %s sealing key magic constant"
            self._seal, self._unseal = (
                rc4(md5(self._key + sealing % b"client-to-server")),
                rc4(md5(self._key + sealing % b"server-to-client")),
            )

    def _mac(self, key: bytes, count: int, message: bytes) -> bytes:
        return hmac.digest(key, count.to_bytes(4, "big") + message, "md5")[:10]


def rc4(key: bytes) -> Any:
    """A stream of it."""
    from cryptography.hazmat.decrepit.ciphers.algorithms import ARC4
    from cryptography.hazmat.primitives.ciphers import Cipher

    return Cipher(ARC4(key), None).encryptor()
