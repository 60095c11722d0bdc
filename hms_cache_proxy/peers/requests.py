"""What a worker asks the peers' process, over a Unix socket.

    request    u32 length of what follows | u8 kind | u64 token | i64 number | targets, each with its u16 length
    answer     u64 token: it need not wait any more

Job: define the requests and their bytes. Must not know: sockets, the protocol between proxies. Both ends are of one
proxy and one version. OVER, CANCELLED and LOCKED have no answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from struct import Struct
from typing import Final

from hms_cache_proxy.cache.targets import Target
from hms_cache_proxy.consistency.fence_rows import pack_targets, unpack_targets

ANSWER: Final = Struct(">Q")
_HEAD: Final = Struct(">IBQq")
_LENGTH: Final = Struct(">I")


class PeerAsk(IntEnum):
    """What is asked. `number` is a fence's id, a note's number or a lock's id."""

    WRITE = 1  # a write is fenced here; may it leave?
    OVER = 2  # its reply is here
    NOTED = 3  # a reply tells of a granted lock or of an event id, which is noted; may it be passed on?
    LOCKED = 4  # a lock waits
    PASS = 5  # may the reply of a write be passed on? (asked only while this proxy is young)
    CANCELLED = 6  # the metastore has not executed the write (it never left, or the method is not known there)


@dataclass(frozen=True, slots=True)
class PeerRequest:
    """One request."""

    kind: PeerAsk
    number: int = 0
    targets: tuple[Target, ...] = ()

    @property
    def answered(self) -> bool:
        return self.kind not in (PeerAsk.OVER, PeerAsk.CANCELLED, PeerAsk.LOCKED)

    @property
    def recorded(self) -> bool:
        """Whether what it is about could be recorded. If not, peers cannot be told of it, and get no leases."""
        return self.kind is PeerAsk.PASS or self.number != 0

    def pack(self, token: int) -> bytes:
        """Its bytes."""
        targets = pack_targets(self.targets)
        return _HEAD.pack(_HEAD.size - _LENGTH.size + len(targets), self.kind, token, self.number) + targets


def take_requests(buffer: bytearray) -> list[tuple[int, PeerRequest]]:
    """The requests that are complete, with their tokens; they are removed from the buffer."""
    found: list[tuple[int, PeerRequest]] = []
    while len(buffer) >= _HEAD.size:
        length, kind, token, number = _HEAD.unpack_from(buffer)
        end = _LENGTH.size + length
        if len(buffer) < end:
            break
        found.append((token, PeerRequest(PeerAsk(kind), number, unpack_targets(bytes(buffer[_HEAD.size : end])))))
        del buffer[:end]
    return found
