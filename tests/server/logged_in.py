"""Connections of clients that log in with Kerberos: GSSAPI and SASL's frames as Thrift's clients speak them. It uses
nothing of the program.

Job: a Realm with a KDC, the keytabs of the tests' principals, and `SaslConnection`, a RawConnection after a login.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.server.digest import Digest
from tests.testbed.kdc import REALM, Kdc
from tests.testbed.processes import SOON_S
from tests.testbed.raw import EndOfStream, RawConnection

START, OK, BAD, ERROR, COMPLETE = range(1, 6)
AUTH, AUTH_INT, AUTH_CONF = 1, 2, 4


class Refused(Exception):
    """The server's words."""


class Realm:
    """The KDC and its principals: the proxy and a metastore at localhost, another service, users."""

    def __init__(self, kdc: Kdc) -> None:
        self.kdc = kdc
        self.proxy = kdc.keytab("hive/localhost", "proxy/localhost")
        self.other = kdc.keytab("other/localhost")
        self.users = {name: kdc.keytab(name) for name in ("alice", "bob", "svc/localhost")}

    def settings(self, **more: object) -> dict[str, Any]:
        """Of a proxy whose clients log in. On a busy machine, that takes a while."""
        security = {"transports": ["sasl"], "handshake_timeout_s": 20}
        return {"security": security, "kerberos": {"keytab": str(self.proxy), **more}}

    def environment(self, *transports: str, **more: str) -> dict[str, str]:
        """The same, as Proxy wants it."""
        return {"SECURITY_TRANSPORTS": ",".join(transports), "KERBEROS_KEYTAB": str(self.proxy), **more}

    def service(self, **more: str) -> dict[str, str]:
        """Of a proxy that logs in to the metastore at localhost."""
        return {
            "KERBEROS_KEYTAB": str(self.proxy),
            "KERBEROS_UPSTREAM": "true",
            "KERBEROS_UPSTREAM_PRINCIPAL": f"hive/_HOST@{REALM}",
            "KERBEROS_PRINCIPAL": f"proxy/localhost@{REALM}",
            "SECURITY_UPSTREAM_IDENTITY": "service",
            **more,
        }

    def client(self, user: str = "alice", service: str = "hive") -> Any:
        """A user's context for a service at localhost."""
        return client_context(self.users[user], f"{user}@{REALM}", f"{service}/localhost@{REALM}")


def client_context(keytab: Path, principal: str, service: str) -> Any:
    """The context of a client for a service, both with their realms."""
    import gssapi

    def name(text: str) -> Any:
        return gssapi.Name(text, gssapi.NameType.kerberos_principal)

    flag, tickets = gssapi.RequirementFlag, f"MEMORY:{principal.replace('/', '-')}-{keytab.parent.stat().st_ino}"
    return gssapi.SecurityContext(
        name=name(service),
        creds=gssapi.Credentials(
            usage="initiate", store={"client_keytab": str(keytab), "ccache": tickets}, name=name(principal)
        ),
        flags=flag.mutual_authentication | flag.replay_detection | flag.integrity | flag.confidentiality,
        usage="initiate",
        mech=gssapi.MechType.kerberos,
    )


@contextmanager
def realm_in(directory: Path) -> Iterator[Realm]:
    """A realm, whose configuration is in the environment meanwhile."""
    with Kdc(directory / "realm") as kdc, pytest.MonkeyPatch.context() as patch:
        for name, value in kdc.environment.items():
            patch.setenv(name, value)
        yield Realm(kdc)


def message(status: int, payload: bytes = b"") -> bytes:
    """A message of a negotiation."""
    return struct.pack(">BI", status, len(payload)) + payload


class SaslConnection(RawConnection):
    """A connection after its login: `send` and `receive` are in frames, protected as agreed."""

    _context: Any = None
    _layer = AUTH

    @classmethod
    def opened(cls, plain: socket.socket) -> SaslConnection:
        """Before the login."""
        plain.settimeout(SOON_S)
        return cls.accepted(plain)

    @classmethod
    def to(cls, port: int, source: str = "") -> SaslConnection:
        """A connection to a port of this machine, before the login."""
        return cls.opened(socket.create_connection(("127.0.0.1", port), SOON_S, (source, 0) if source else None))

    def log_in(self, context: Any, layer: int = AUTH, authzid: str = "") -> None:
        """Raises Refused with the server's words."""
        self.ask_in(context, layer, authzid)
        assert self.answer(COMPLETE) == b""
        self._context, self._layer = context, layer

    def ask_in(self, context: Any, layer: int = AUTH, authzid: str = "") -> None:
        """Everything up to the server's last word. Raises Refused with the server's words."""
        self.framed = True
        self.send_bytes(message(START, b"GSSAPI") + message(OK, context.step()))
        while not context.complete:
            self.send_bytes(message(OK, context.step(self.answer(OK)) or b""))
        offered = context.unwrap(self.answer(OK)).message
        assert offered[0] & layer, offered
        chosen = bytes([layer]) + (b"\0\0\0" if layer == AUTH else b"\1\0\0")
        self.send_bytes(message(COMPLETE, context.wrap(chosen + authzid.encode(), False).message))

    def log_in_with(self, token: str, layer: int = AUTH) -> None:
        """By a delegation token. Raises Refused with the server's words."""
        self.framed = True
        digest = Digest(token, layer)
        self.send_bytes(message(START, b"DIGEST-MD5") + message(OK))
        self.send_bytes(message(COMPLETE, digest.response(self.answer(OK))))
        digest.check(self.answer(COMPLETE))
        self._context, self._layer = digest, layer

    def answer(self, expected: int) -> bytes:
        """The payload of the server's next message."""
        status, size = struct.unpack(">BI", self._take_new(5))
        payload = self._take_new(size)
        if status in (BAD, ERROR):
            raise Refused(payload.decode())
        assert status == expected, status
        return payload

    def framed_bytes(self, data: bytes) -> bytes:
        """As one frame."""
        if self._layer != AUTH:
            data = self._context.wrap(data, self._layer == AUTH_CONF).message
        return struct.pack(">I", len(data)) + data

    def send(self, data: bytes) -> None:
        """One message, as one frame."""
        self.send_bytes(self.framed_bytes(data))

    def receive(self) -> bytes:
        """The next whole message, of as many frames as it takes."""
        content = b""
        while True:
            part = super().receive()
            content += part if self._layer == AUTH else self._context.unwrap(part).message
            reader = _Whole(content)
            try:
                found = reader.receive()
            except EndOfStream:
                continue
            assert found == content, "more than one message"
            return found


class _Whole(RawConnection):
    """Bytes that have been received."""

    def __init__(self, data: bytes) -> None:
        self.framed, self._buffer, self._at = False, bytearray(data), 0
        ours, theirs = socket.socketpair()
        theirs.close()
        self.socket = ours

    def receive(self) -> bytes:
        """A whole message, or EndOfStream."""
        with self.socket:
            return super().receive()
