"""The messages between two proxies, and their bytes.

Job: define one frozen dataclass for each message, `encode` and `decode`. A message is one byte for its kind, then its
fields in order: `i` a signed 64-bit number, `b` a u32 length and bytes, `t` a u32 count and as many `b`. All numbers
are big-endian. Must not know: sockets, the order of messages. Every length is checked against what is left of the
message, whose own length frames.py limits.

The proxy that dials follows the other one. "To the followed" and "to the follower" say which way a message goes.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from struct import Struct
from typing import Any, Final

from hms_cache_proxy.cache.targets import ALL, Target
from hms_cache_proxy.consistency.peer_fences import Origin
from hms_cache_proxy.errors import WireError

MOST_TARGET_BYTES: Final = 1 << 20
"""Targets that are longer together are sent as "everything"."""

KNOWN_TARGETS: Final = frozenset(b"*?DdltFCBKRGgpqQ")
"""The first bytes of the targets of this version (cache/targets.py)."""


@dataclass(frozen=True, slots=True)
class Hello:
    """To the followed, first. `known`: the incarnation that the follower last followed there; `position`: that
    incarnation's last ticket that it has covered."""

    metastore: bytes
    """Identifies the metastore's database, and what of it is cached."""

    address: bytes
    """Where the follower itself can be dialled."""

    known: bytes
    position: int


@dataclass(frozen=True, slots=True)
class Welcome:
    """To the follower: from now on the followed needs the follower's lease, too. Its open fences follow."""


@dataclass(frozen=True, slots=True)
class RefusedPeer:
    """To the follower, instead: they do not belong together."""

    reason: bytes


@dataclass(frozen=True, slots=True)
class FenceRaised:
    """To the follower: a write is about to leave. Also for each open fence before `Replayed`."""

    incarnation: bytes
    number: int
    targets: tuple[Target, ...]

    @property
    def origin(self) -> Origin:
        return Origin(self.incarnation, self.number)


@dataclass(frozen=True, slots=True)
class FenceLifted:
    """To the follower: the write's reply has arrived, or it cannot be carried out any more. `executed` 0: the metastore
    has not executed it, so nothing need be reloaded."""

    incarnation: bytes
    number: int
    executed: int

    @property
    def origin(self) -> Origin:
        return Origin(self.incarnation, self.number)


@dataclass(frozen=True, slots=True)
class Replayed:
    """To the follower: these were all open fences, as of this ticket."""

    position: int


@dataclass(frozen=True, slots=True)
class MissedTargets:
    """To the follower: writes that log no event have changed these since its position."""

    targets: tuple[Target, ...]


@dataclass(frozen=True, slots=True)
class FenceOwed:
    """To the follower: reads of these must show what is true now (a lock was granted)."""

    targets: tuple[Target, ...]


@dataclass(frozen=True, slots=True)
class EventReached:
    """To the follower: a client is about to receive the id of this event."""

    event: int


@dataclass(frozen=True, slots=True)
class LockWaits:
    """To the follower: what a waiting lock locks."""

    lock_id: int
    targets: tuple[Target, ...]


@dataclass(frozen=True, slots=True)
class LeaseGiven:
    """To the follower: no write leaves without its acknowledgement until `duration_ns` after it asked at `asked_ns` (of
    its own clock). 0: there is no lease now. `position`: as in Replayed."""

    asked_ns: int
    duration_ns: int
    position: int


@dataclass(frozen=True, slots=True)
class LeaseAsked:
    """To the followed; `asked_ns`: the follower's clock."""

    asked_ns: int


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """To the followed: the first `records` records of this connection are committed in the follower's fences."""

    records: int


@dataclass(frozen=True, slots=True)
class AnswersNothing:
    """To the followed: the follower stops, and answers nothing from its cache any more."""


@dataclass(frozen=True, slots=True)
class CallsCounted:
    """To the followed: how many reads the follower has been asked since its start, and how many were hits. It is shown,
    and decides nothing."""

    hits: int
    reads: int


@dataclass(frozen=True, slots=True)
class TokensCancelled:
    """To the follower: these delegation tokens are cancelled; records as in the file (security/cancelled_tokens.py).
    All that are known after `Replayed`, later those that are new. It is no record of the stream: nothing waits for it,
    and it is not acknowledged."""

    records: tuple[bytes, ...]


PeerMessage = (
    Hello
    | Welcome
    | RefusedPeer
    | FenceRaised
    | FenceLifted
    | Replayed
    | MissedTargets
    | FenceOwed
    | EventReached
    | LockWaits
    | LeaseGiven
    | LeaseAsked
    | Acknowledged
    | AnswersNothing
    | CallsCounted
    | TokensCancelled
)

FORMS: Final[tuple[tuple[int, type[Any], str], ...]] = (
    (1, Hello, "bbbi"),
    (2, Welcome, ""),
    (3, RefusedPeer, "b"),
    (4, FenceRaised, "bit"),
    (5, FenceLifted, "bii"),
    (6, Replayed, "i"),
    (7, MissedTargets, "t"),
    (8, FenceOwed, "t"),
    (9, EventReached, "i"),
    (10, LockWaits, "it"),
    (11, LeaseGiven, "iii"),
    (12, LeaseAsked, "i"),
    (13, Acknowledged, "i"),
    (14, AnswersNothing, ""),
    (15, CallsCounted, "ii"),
    (16, TokensCancelled, "t"),
)
_SINCE: Final[dict[type[Any], int]] = {TokensCancelled: 2}
"""The first versions of the protocol that have these; 1 has the others."""

_BY_KIND: Final = {kind: (form, layout) for kind, form, layout in FORMS}
_KINDS: Final = {form: (kind, layout, tuple(field.name for field in fields(form))) for kind, form, layout in FORMS}
_NUMBER: Final = Struct(">q")
_LENGTH: Final = Struct(">I")


def understood(targets: tuple[Target, ...]) -> tuple[Target, ...]:
    """The targets; everything if one is of a kind that this version does not know."""
    known = all(target[:1] and target[0] in KNOWN_TARGETS for target in targets)
    return targets if known else (ALL,)


def short(targets: tuple[Target, ...]) -> tuple[Target, ...]:
    """The targets; everything if they are too long for one message."""
    return targets if sum(map(len, targets)) + 4 * len(targets) <= MOST_TARGET_BYTES else (ALL,)


def since(message: PeerMessage) -> int:
    """The first version of the protocol that has this message."""
    return _SINCE.get(type(message), 1)


def encode(message: PeerMessage) -> bytes:
    """A message's bytes."""
    kind, layout, names = _KINDS[type(message)]
    parts = [bytes((kind,))]
    for form, name in zip(layout, names, strict=True):
        value = getattr(message, name)
        if form == "i":
            parts.append(_NUMBER.pack(value))
        elif form == "b":
            parts += (_LENGTH.pack(len(value)), value)
        else:
            parts.append(_LENGTH.pack(len(value)))
            for one in value:
                parts += (_LENGTH.pack(len(one)), one)
    return b"".join(parts)


def decode(data: bytes) -> PeerMessage:
    """The message; WireError if it is not one of this version."""
    form, layout = _BY_KIND.get(data[0] if data else 0, (None, ""))
    if form is None:
        raise WireError("a peer sent a message of an unknown kind")
    reading = _Reading(data)
    values = [reading.value(one) for one in layout]
    if reading.at != len(data):
        raise WireError("a peer's message is longer than its kind allows")
    message: PeerMessage = form(*values)
    if isinstance(message, FenceRaised | FenceLifted) and not message.origin.possible:
        raise WireError("a peer tells of a write that no proxy can have")
    return message


class _Reading:
    """A position in a message."""

    __slots__ = ("_data", "at")

    def __init__(self, data: bytes) -> None:
        self._data, self.at = data, 1

    def value(self, form: str) -> Any:
        if form == "i":
            return _NUMBER.unpack(self._take(8))[0]
        if form == "b":
            return self._bytes()
        number = self._length()
        if number > (len(self._data) - self.at) // _LENGTH.size:
            raise WireError("a peer's message is cut off")
        return tuple(self._bytes() for _ in range(number))

    def _bytes(self) -> bytes:
        return self._take(self._length())

    def _length(self) -> int:
        number: int = _LENGTH.unpack(self._take(4))[0]
        return number

    def _take(self, size: int) -> bytes:
        part = self._data[self.at : self.at + size]
        if len(part) != size:
            raise WireError("a peer's message is cut off")
        self.at += size
        return part
