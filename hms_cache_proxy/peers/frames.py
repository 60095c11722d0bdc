"""Frames on a peer connection, and the handshake before them.

Job: turn bytes into payloads and back; decide who may speak at all. Must not know: sockets, what a payload means.

    frame      u32 length of what follows | payload | MAC (16 bytes)
    MAC        HMAC-SHA256(key of the direction, u64 number of the frame | payload), its first half

    1  dialler     "hmsfleet" | u16 lowest, u16 highest version | nonce (32) | incarnation (16)
    2  acceptor    u16 version | nonce (32) | incarnation (16) | proof (32)
    3  dialler     proof (32)

A proof is HMAC-SHA256(secret, role | 1 | 2 without its proof). With it, each side shows that it knows the secret, for
these nonces, roles and incarnations; nothing that one side has sent can be used in the role of the other. Keys are
derived from the same bytes, one for each direction. If a frame was changed, repeated, left out or moved, a MAC is
wrong, which ends the connection. The version is the highest that both speak, or 0 if there is none. A message that it
does not have yet (messages.py) is not sent.

Before the proof is checked, a connection can make this side keep 64 bytes (HANDSHAKE_BYTES is the longest message).
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from enum import Enum
from struct import Struct
from typing import Final

from hms_cache_proxy.consistency.peer_fences import INCARNATION_BYTES
from hms_cache_proxy.errors import LimitError, WireError

VERSION: Final = 2
LOWEST_VERSION: Final = 1
FRAME_BYTES: Final = 4 << 20
"""The largest frame."""

MAGIC: Final = b"hmsfleet"
NONCE_BYTES: Final = 32
PROOF_BYTES: Final = 32
MAC_BYTES: Final = 16

_FIRST: Final = Struct(f">8sHH{NONCE_BYTES}s{INCARNATION_BYTES}s")
_SECOND: Final = Struct(f">H{NONCE_BYTES}s{INCARNATION_BYTES}s")
_LENGTH: Final = Struct(">I")
_NUMBER: Final = Struct(">Q")
HANDSHAKE_BYTES: Final = _SECOND.size + PROOF_BYTES


class PeerRole(Enum):
    """Who a side of a connection is."""

    DIALLER = b"dialler"
    ACCEPTOR = b"acceptor"

    @property
    def other(self) -> PeerRole:
        return PeerRole.ACCEPTOR if self is PeerRole.DIALLER else PeerRole.DIALLER


class SealedFrames:
    """The frames of one connection, after its handshake."""

    def __init__(self, key: bytes, role: PeerRole) -> None:
        self._own, self._others = _mac(key, role.value), _mac(key, role.other.value)
        self._sent = self._received = 0
        self._buffer = bytearray()

    def seal(self, payload: bytes) -> bytes:
        """The next frame."""
        if len(payload) + MAC_BYTES > FRAME_BYTES:
            raise LimitError(f"a frame to a peer is too long: {len(payload)} bytes", limit="FRAME_BYTES")
        mac = _mac(self._own, _NUMBER.pack(self._sent) + payload)[:MAC_BYTES]
        self._sent += 1
        return _LENGTH.pack(len(payload) + MAC_BYTES) + payload + mac

    def received(self, data: bytes) -> list[bytes]:
        """The payloads that are complete now; WireError if a frame is not what the peer has sent next."""
        self._buffer += data
        payloads: list[bytes] = []
        while len(self._buffer) >= _LENGTH.size:
            size: int = _LENGTH.unpack_from(self._buffer)[0]
            if not MAC_BYTES <= size <= FRAME_BYTES:
                raise LimitError(f"a peer's frame has {size} bytes", limit="FRAME_BYTES")
            end = _LENGTH.size + size
            if len(self._buffer) < end:
                break
            frame = bytes(self._buffer[_LENGTH.size : end])
            del self._buffer[:end]
            payloads.append(self._opened(frame))
        return payloads

    def _opened(self, frame: bytes) -> bytes:
        payload, mac = frame[:-MAC_BYTES], frame[-MAC_BYTES:]
        expected = _mac(self._others, _NUMBER.pack(self._received) + payload)[:MAC_BYTES]
        if not hmac.compare_digest(mac, expected):
            raise WireError("a peer's frame has a wrong MAC")
        self._received += 1
        return payload


@dataclass(frozen=True, slots=True)
class Greeted:
    """The handshake is over. `rest`: bytes that have arrived behind it."""

    incarnation: bytes
    frames: SealedFrames
    rest: bytes
    version: int


class Handshake:
    """One side of the handshake. Send what `out` has after each call."""

    def __init__(self, role: PeerRole, secret: bytes, incarnation: bytes, nonce: bytes) -> None:
        """`nonce`: random bytes, never used before."""
        assert len(nonce) == NONCE_BYTES and len(incarnation) == INCARNATION_BYTES
        self._role, self._secret, self._incarnation, self._nonce = role, secret, incarnation, nonce
        self._buffer = b""
        self._transcript = b""
        self._peer = b""
        self._version = 0
        self.out = b""
        if role is PeerRole.DIALLER:
            self.out = self._transcript = _FIRST.pack(MAGIC, LOWEST_VERSION, VERSION, nonce, incarnation)

    @property
    def begun(self) -> bool:
        """Has the first message been sent or received?"""
        return self._transcript != b""

    def received(self, data: bytes) -> Greeted | None:
        """None: more is to come. WireError: the peer may not speak here."""
        self.out = b""
        self._buffer += data
        if self._role is PeerRole.DIALLER:
            return self._second()
        return self._third() if self._transcript else self._first()

    def _take(self, size: int) -> bytes | None:
        if len(self._buffer) < size:
            return None
        part, self._buffer = self._buffer[:size], self._buffer[size:]
        return part

    def _first(self) -> Greeted | None:
        if not MAGIC.startswith(self._buffer[: len(MAGIC)]):
            raise WireError("it is no peer")
        message = self._take(_FIRST.size)
        if message is None:
            return None
        _, lowest, highest, _, self._peer = _FIRST.unpack(message)
        version = min(highest, VERSION)
        common = version >= max(lowest, LOWEST_VERSION)
        self._version = version if common else 0
        answer = _SECOND.pack(self._version, self._nonce, self._incarnation)
        self._transcript = message + answer
        self.out = answer + self._proof(self._role)
        if not common:
            raise WireError(
                f"it speaks versions {lowest} to {highest} of the peer protocol, not {LOWEST_VERSION} to {VERSION}"
            )
        return self._third()

    def _second(self) -> Greeted | None:
        message = self._take(HANDSHAKE_BYTES)
        if message is None:
            return None
        answer, proof = message[: _SECOND.size], message[_SECOND.size :]
        self._version, _, self._peer = _SECOND.unpack(answer)
        self._transcript += answer
        self._check(proof)
        if not LOWEST_VERSION <= self._version <= VERSION:
            raise WireError("it has no version of the peer protocol in common with this one")
        self.out = self._proof(self._role)
        return self._greeted()

    def _third(self) -> Greeted | None:
        proof = self._take(PROOF_BYTES)
        if proof is None:
            return None
        self._check(proof)
        return self._greeted()

    def _check(self, proof: bytes) -> None:
        if not hmac.compare_digest(proof, self._proof(self._role.other)):
            raise WireError("it has another peer_secret")

    def _proof(self, role: PeerRole) -> bytes:
        return _mac(self._secret, role.value + self._transcript)

    def _greeted(self) -> Greeted:
        rest, self._buffer = self._buffer, b""
        frames = SealedFrames(_mac(self._secret, b"frames" + self._transcript), self._role)
        return Greeted(self._peer, frames, rest, self._version)


def _mac(key: bytes, data: bytes) -> bytes:
    return hmac.digest(key, data, "sha256")
