"""A login that is passed through: a client negotiates with a metastore, and the proxy watches; without I/O.

Job: take the bytes of each side, return what the other side is sent, unchanged, and find out what the proxy must know:
whose turn it is, the agreed protection, and the user, if the negotiation shows it. Must not know: connections.
Invariant: the client's last message is not passed on if it chooses another protection than auth, because the proxy
could not read what follows. With Kerberos, the choice is in a token of RFC 4121, section 4.2.6.2, which is not
encrypted.
Owner: one connection.
"""

from __future__ import annotations

from struct import unpack_from
from typing import Final

from hms_cache_proxy.errors import WireError
from hms_cache_proxy.security.digest_md5 import MECHANISM as DIGEST
from hms_cache_proxy.security.digest_md5 import layer_of, parse_directives
from hms_cache_proxy.security.mechanism import Admitted, LoginRefused
from hms_cache_proxy.security.tokens import identifier_of, parse_identifier
from hms_cache_proxy.wire.message import NEED_MORE
from hms_cache_proxy.wire.sasl import (
    EVERY_LAYER,
    Layers,
    Message,
    Status,
    check_turn,
    named_layers,
    parse_choice,
    parse_message,
    text_of,
)

KERBEROS: Final = "GSSAPI"
_WRAPPED: Final = b"\5\4"  # the first bytes of a wrapped token
_TOKEN_HEADER_BYTES: Final = 16
_SEALED: Final = 2  # among a token's flags: it is encrypted
_MOST_WAITING_BYTES: Final = 1 << 18  # of a client that does not wait for its turn


class PassedLogin:
    """One negotiation. `mechanism` is known with its first message, `user` at its end; empty: only the metastore knows
    who it is. `done`: the metastore has let the client in."""

    def __init__(self) -> None:
        self.mechanism = ""
        self.user = ""
        self.done = False
        self.clients_turn = True
        self._layer: Layers | None = None
        self._of_client = b""
        self._of_metastore = b""

    def from_client(self, data: bytes) -> bytes:
        """What the metastore is sent. WireError (LoginRefused) if the negotiation must not go on."""
        self._of_client += data
        if len(self._of_client) > _MOST_WAITING_BYTES:
            raise WireError("too many bytes in a SASL negotiation")
        passed = b""
        while self.clients_turn and (found := parse_message(self._of_client)) is not NEED_MORE:
            self._look_at(found)
            passed += self._of_client[: found.end]
            self._of_client = self._of_client[found.end :]
        return passed

    def from_metastore(self, data: bytes) -> bytes:
        """What the client is sent. LoginRefused if it was let in with an unknown protection."""
        self._of_metastore += data
        found = parse_message(self._of_metastore)
        if found is NEED_MORE:
            return b""
        passed, self._of_metastore = self._of_metastore[: found.end], self._of_metastore[found.end :]
        if found.status is Status.COMPLETE:
            if self._layer is None:
                raise LoginRefused(f"{self.mechanism}: it is not known which protection was agreed on")
            self.done = True
        elif found.status is not Status.OK:
            text = text_of(found.payload)
            raise LoginRefused(text, detail=f"the metastore refuses the login: {found.status.name} {text}".rstrip())
        self.clients_turn = True
        return passed

    @property
    def admitted(self) -> Admitted:
        """Who was let in."""
        assert self.done, "the login is not done"
        return Admitted(self.user, self.mechanism)

    def rest(self) -> tuple[bytes, bytes]:
        """What came behind the negotiation, from the client and from the metastore."""
        return self._of_client, self._of_metastore

    def _look_at(self, message: Message) -> None:
        """A message of the client, which may be its last word."""
        check_turn(message, begun=bool(self.mechanism))
        if not self.mechanism:
            self.mechanism = message.payload[:20].decode("ascii", "replace")
            if self.mechanism not in (KERBEROS, DIGEST):
                raise LoginRefused(f"Unsupported mechanism type {self.mechanism}")
            return  # the first response follows in a message of its own
        self.clients_turn = False
        if self.mechanism == KERBEROS and message.payload[:2] == _WRAPPED:
            self._agreed(parse_choice(_content(message.payload), EVERY_LAYER).layer)
        elif self.mechanism == DIGEST and message.payload:
            said = parse_directives(message.payload)
            self._agreed(layer_of(said))
            self.user = parse_identifier(identifier_of(said.get("username", b""))).owner

    def _agreed(self, layer: Layers) -> None:
        if layer is not Layers.AUTH:
            raise LoginRefused(
                f"the client chose the protection {named_layers(layer)}; this proxy passes logins through"
                " (security.upstream_identity = pass_through), so it must be auth (hadoop.rpc.protection ="
                " authentication)"
            )
        self._layer = layer


def _content(token: bytes) -> bytes:
    """What a wrapped token says. WireError if it is encrypted, or no such token."""
    if len(token) <= _TOKEN_HEADER_BYTES or token[2] & _SEALED:
        raise WireError("the protection of a login cannot be read: its last token is encrypted")
    checksum_bytes, rotated = unpack_from("!HH", token, 4)
    body = token[_TOKEN_HEADER_BYTES:]
    rotated %= len(body)
    body = body[rotated:] + body[:rotated]
    return body[: len(body) - checksum_bytes]
