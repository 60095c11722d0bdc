"""The fences as the protocol between proxies uses them (`peers.protocol.PeerRecords`): also those held for peers.

A fence that a peer has told of is a row like that of a write of unknown outcome. While the peer is connected, the
fence's end is put off (`keep`); when the connection ends, the fence lasts for the request timeout, and then the
follower gives it a ticket, as it does for all such fences. So workers and the follower need not know of peers, and the
fence survives a restart.

    b"p" via (16) incarnation (16) u64 number   u64 fence id: a fence of this write, of which `via` has told
    b"P" via (16)                               i64 position that was reached with this peer, u64 time

`under_way` leaves out fences that others have only passed on. Owner: the peers' process.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from struct import Struct
from typing import Any, Final

from hms_cache_proxy.cache.state import Slot, StatePage
from hms_cache_proxy.cache.targets import ALL, Target
from hms_cache_proxy.consistency.fence_rows import (
    FINITE,
    NUMBER,
    UNKNOWN,
    Fence,
    add_fence,
    counters,
    drop_unlogged,
    fences_in,
    finite,
    rows,
    take_ticket,
    unpack_targets,
)
from hms_cache_proxy.consistency.fences import OVERDUE, FenceStore
from hms_cache_proxy.consistency.notes import Note, drop_notes, last_note, notes_after

UNLOGGED_KEPT: Final = 1000
"""Writes without an event that are remembered for peers that were cut off. After more, everything is reloaded there."""

PEERS_KEPT: Final = 64
INCARNATION_BYTES: Final = 16
_HELD: Final = Struct(f">{INCARNATION_BYTES}s{INCARNATION_BYTES}sQ")
_POSITION: Final = Struct(">qQ")


@dataclass(frozen=True, slots=True, order=True)
class Origin:
    """Names one write of the fleet: the incarnation of the proxy that sends it, and its fence's id there."""

    incarnation: bytes
    number: int

    @property
    def possible(self) -> bool:
        """Can it name a write at all?"""
        return len(self.incarnation) == INCARNATION_BYTES and self.number >= 0


class PeerFences(FenceStore):
    """The records, with those of peers."""

    def __init__(self, path: Path, page: StatePage, incarnation: bytes, *, request_timeout_ns: int) -> None:
        self._incarnation = incarnation
        super().__init__(path, page, request_timeout_ns=request_timeout_ns, fleet=True)

    def under_way(self) -> list[tuple[Origin, tuple[Target, ...]]]:
        """Every write that is not over: of this proxy, and those of which their own proxies have told it."""
        with self._reading() as txn:
            held = {row: _HELD.unpack(key[1:]) for key, row in rows(txn, b"p")}
            found: list[tuple[Origin, tuple[Target, ...]]] = []
            for key, fence in fences_in(txn):
                if fence.state == FINITE:
                    continue
                via, incarnation, number = held.get(key[1:], (b"", self._incarnation, NUMBER.unpack(key[1:])[0]))
                if via in (b"", incarnation):
                    found.append((Origin(incarnation, number), fence.targets))
            return found

    def position(self) -> int:
        """The last ticket."""
        with self._reading() as txn:
            return counters(txn).last_ticket

    def unlogged_since(self, position: int) -> tuple[Target, ...]:
        """What writes that log no event have changed, whose tickets are larger; at position 0, as far as is known."""
        with self._reading() as txn:
            dropped = NUMBER.unpack(txn.get(b"S", NUMBER.pack(0)))[0]
            if 0 < position < dropped:
                return (ALL,)
            later = [row for key, row in rows(txn, b"s") if NUMBER.unpack(key[1:])[0] > position]
            return tuple(dict.fromkeys(target for row in later for target in unpack_targets(row)))

    def hold(self, via: bytes, origin: Origin, targets: Sequence[Target]) -> None:
        """A write of a peer is about to leave."""
        key, until_ns = _held_key(via, origin), time.monotonic_ns() + OVERDUE * self._request_timeout_ns
        fence = Fence(UNKNOWN, 0, until_ns, 0, 0, tuple(targets))
        with self._change() as txn:
            number = txn.get(key)
            if number is not None and self._open_fence(txn, number) is not None:
                txn.put(b"f" + number, fence.pack())
            else:
                txn.put(key, NUMBER.pack(add_fence(txn, fence)))

    def keep(self, vias: frozenset[bytes], now_ns: int | None = None) -> None:
        """What these peers have told of does not end by itself. `now_ns`: CLOCK_MONOTONIC."""
        now_ns = time.monotonic_ns() if now_ns is None else now_ns
        soon_ns, until_ns = now_ns + self._request_timeout_ns, now_ns + OVERDUE * self._request_timeout_ns
        with self._reading() as txn:
            told = [number for key, number in rows(txn, b"p") if _HELD.unpack(key[1:])[0] in vias]
            ending = [number for number in told if self._ends_before(txn, number, soon_ns) is not None]
        if ending:
            with self._change(fences=False) as txn:
                for number in ending:
                    fence = self._ends_before(txn, number, soon_ns)
                    if fence is not None:
                        txn.put(b"f" + number, replace(fence, until_ns=until_ns).pack())

    def _ends_before(self, txn: Any, number: bytes, soon_ns: int) -> Fence | None:
        fence = self._open_fence(txn, number)
        return fence if fence is not None and fence.until_ns < soon_ns else None

    def release(self, via: bytes, origin: Origin, *, executed: bool = True) -> None:
        """The write is over: its targets are reloaded, unless it was not executed."""
        with self._change() as txn:
            self._release(txn, _held_key(via, origin), executed=executed)

    def release_others(self, via: bytes, origins: frozenset[Origin]) -> list[Origin]:
        """Releases all that this peer has told of but these. Returns what was released."""
        with self._change() as txn:
            told = {key: Origin(*_HELD.unpack(key[1:])[1:]) for key, _ in rows(txn, b"p" + via)}
            over = {key: origin for key, origin in told.items() if origin not in origins}
            for key in over:
                self._release(txn, key)
        return list(over.values())

    def missed(self, via: bytes) -> None:
        """The connection to the peer has ended: what it has told of is of unknown outcome. Release it when its time is
        over."""
        until_ns = time.monotonic_ns() + self._request_timeout_ns
        with self._change() as txn:
            for key, number in list(rows(txn, b"p")):
                fence = self._open_fence(txn, number)
                if fence is None:
                    txn.delete(key)
                elif key[1:].startswith(via) and fence.until_ns > until_ns:
                    txn.put(b"f" + number, self._unknown(fence, until_ns).pack())

    def owe(self, targets: Sequence[Target]) -> None:
        """Reads of these must show what is true now; nothing is reloaded for it."""
        self.fence_now(targets)

    def reload(self, targets: Sequence[Target]) -> None:
        """The same, and they are reloaded."""
        with self._change() as txn:
            add_fence(txn, Fence(FINITE, take_ticket(txn, targets), 0, 0, 0, tuple(targets)))

    def reached(self, event: int) -> None:
        """A client is about to receive the id of this event."""
        if event > self.page[Slot.CURSOR]:
            self.fence_now((ALL,))

    def give_until(self, until_ns: int) -> None:
        """Some peer may have a lease of this proxy until this time (CLOCK_BOOTTIME)."""
        self.page[Slot.GIVEN_UNTIL_NS] = max(self.page[Slot.GIVEN_UNTIL_NS], until_ns)

    def recordable(self) -> bool:
        """Whether everything of this proxy is recorded that peers must be told of."""
        return not self.page[Slot.UNFENCED] & 1

    def last_note(self) -> int:
        """The last note's number."""
        with self._reading() as txn:
            return last_note(txn)

    def notes_after(self, number: int) -> list[tuple[int, Note]]:
        """The notes with larger numbers."""
        with self._reading() as txn:
            return notes_after(txn, number)

    def drop_notes(self, number: int) -> None:
        """Everybody has been told of the notes up to this number."""
        with self._reading() as txn:
            if not any(rows(txn, b"n")):
                return
        with self._change(fences=False) as txn:
            drop_notes(txn, number)

    def covered(self, via: bytes) -> int:
        """The position that was reached with this peer; 0 if it is unknown."""
        with self._reading() as txn:
            row = txn.get(b"P" + via)
            return 0 if row is None else int(_POSITION.unpack(row)[0])

    def cover(self, via: bytes, position: int) -> None:
        """Everything of this peer up to this position is here."""
        if self.covered(via) == position:
            return
        with self._change(fences=False) as txn:
            txn.put(b"P" + via, _POSITION.pack(position, time.time_ns()))
            peers = sorted(rows(txn, b"P"), key=lambda pair: _POSITION.unpack(pair[1])[1])
            for key, _ in peers[:-PEERS_KEPT]:
                txn.delete(key)

    def drop_old(self) -> None:
        """Forget writes without an event beyond the last ones; called from time to time."""
        with self._reading() as txn:
            if len(list(rows(txn, b"s"))) <= UNLOGGED_KEPT:
                return
        with self._change(fences=False) as txn:
            drop_unlogged(txn, UNLOGGED_KEPT)

    def _release(self, txn: Any, key: bytes, *, executed: bool = True) -> None:
        number = txn.pop(key)
        fence = None if number is None else self._open_fence(txn, number)
        if number is not None and fence is not None:
            if not executed:
                txn.delete(b"f" + number)
                return
            txn.put(b"f" + number, finite(txn, fence).pack())

    @staticmethod
    def _open_fence(txn: Any, number: bytes) -> Fence | None:
        """A fence that is not finite yet."""
        row = txn.get(b"f" + number)
        fence = None if row is None else Fence.unpack(row)
        return None if fence is None or fence.state == FINITE else fence


def _held_key(via: bytes, origin: Origin) -> bytes:
    return b"p" + _HELD.pack(via, origin.incarnation, origin.number)
