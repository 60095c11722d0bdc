"""The fences of a simulated proxy: what workers, the follower and the protocol (PeerRecords) do with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hms_cache_proxy.cache.state import Slot
from hms_cache_proxy.cache.targets import ALL, UNKNOWN, Target
from hms_cache_proxy.consistency.notes import Note
from hms_cache_proxy.consistency.peer_fences import Origin

if TYPE_CHECKING:
    from tests.peers.world import SimProxy

MS = 1_000_000
REQUEST_TIMEOUT_NS = 3_000 * MS
LOGGED, SILENT = b"tlogged", b"tsilent"


@dataclass
class SimFence:
    """`until_ns` of CLOCK_MONOTONIC; None: infinite. `ticket`: finite."""

    targets: tuple[Target, ...]
    ticket: int | None = None
    until_ns: int | None = None


class SimRecords:
    """The fences of one proxy; they survive its crashes."""

    def __init__(self, proxy: SimProxy) -> None:
        self._proxy = proxy
        self.fences: dict[tuple[bytes, Origin], SimFence] = {}
        self.wanted: dict[int, set[Target]] = {}
        self.last_ticket = 0
        self.number = 0
        self.silent: list[tuple[int, tuple[Target, ...]]] = []
        self.positions: dict[bytes, int] = {}
        self.notes: dict[int, Note] = {}
        self.noted = 0

    # as the workers and the follower use them

    def ticket(self, targets: Sequence[Target]) -> int:
        self.last_ticket += 1
        self.wanted[self.last_ticket] = set(targets)
        return self.last_ticket

    def begin(self, targets: tuple[Target, ...]) -> int:
        self.number += 1
        self.fences[b"", Origin(self._proxy.incarnation, self.number)] = SimFence(targets)
        return self.number

    def finish(self, number: int, *, silent: bool) -> None:
        fence = self.fences[b"", Origin(self._proxy.incarnation, number)]
        fence.ticket = self.ticket(fence.targets)
        if silent:
            self.silent.append((fence.ticket, fence.targets))

    def fenced(self, target: Target) -> bool:
        return any({target, ALL, UNKNOWN} & set(fence.targets) for fence in self.fences.values())

    def expire(self, now_ns: int) -> None:
        for fence in self.fences.values():
            if fence.ticket is None and fence.until_ns is not None and fence.until_ns <= now_ns:
                fence.ticket = self.ticket(fence.targets)
                self.silent.append((fence.ticket, fence.targets))

    def done(self, last_ticket: int) -> None:
        self.wanted = {number: targets for number, targets in self.wanted.items() if number > last_ticket}
        self.fences = {
            key: fence for key, fence in self.fences.items() if fence.ticket is None or fence.ticket > last_ticket
        }

    def crashed(self, now_ns: int, *, forgets: bool) -> None:
        """The first process of the next start: infinite ones have an end, and a new incarnation tells of them."""
        mine = [key for key, fence in self.fences.items() if key[0] == b"" and fence.ticket is None]
        for key in mine:
            fence = self.fences.pop(key)
            if not forgets:
                fence.until_ns = now_ns + REQUEST_TIMEOUT_NS
                self.fences[b"", Origin(self._proxy.incarnation, key[1].number)] = fence
        for fence in self.fences.values():
            if fence.ticket is None and fence.until_ns is None:
                fence.until_ns = now_ns + REQUEST_TIMEOUT_NS

    # as the protocol uses them (PeerRecords)

    def under_way(self) -> list[tuple[Origin, tuple[Target, ...]]]:
        return [
            (origin, fence.targets)
            for (via, origin), fence in self.fences.items()
            if fence.ticket is None and via in (b"", origin.incarnation)
        ]

    def position(self) -> int:
        return self.last_ticket

    def unlogged_since(self, position: int) -> tuple[Target, ...]:
        return tuple({target for ticket, targets in self.silent if ticket > position for target in targets})

    def hold(self, via: bytes, origin: Origin, targets: Sequence[Target]) -> None:
        self.fences[via, origin] = SimFence(tuple(targets), until_ns=self._proxy.local_ns() + 2 * REQUEST_TIMEOUT_NS)

    def keep(self, vias: frozenset[bytes]) -> None:
        now_ns = self._proxy.local_ns()
        for (via, _), fence in self.fences.items():
            if via in vias and fence.until_ns is not None and fence.until_ns - now_ns < REQUEST_TIMEOUT_NS:
                fence.until_ns = now_ns + 2 * REQUEST_TIMEOUT_NS

    def release(self, via: bytes, origin: Origin, *, executed: bool = True) -> None:
        fence = self.fences.get((via, origin))
        if fence is not None and fence.ticket is None:
            fence.ticket = self.ticket(fence.targets)

    def release_others(self, via: bytes, origins: frozenset[Origin]) -> list[Origin]:
        others = [
            key
            for key, fence in self.fences.items()
            if key[0] == via and key[1] not in origins and fence.ticket is None
        ]
        for key in others:
            self.release(*key)
        return [origin for _, origin in others]

    def missed(self, via: bytes) -> None:
        for key, fence in self.fences.items():
            if key[0] == via and fence.ticket is None:
                fence.until_ns = self._proxy.local_ns() + REQUEST_TIMEOUT_NS
                if "no_hold" in self._proxy.world.faults:
                    fence.ticket = self.ticket(fence.targets)

    def owe(self, targets: Sequence[Target]) -> None:
        ticket = self.ticket(())
        self.fences[b"owed", Origin(b"", ticket)] = SimFence(tuple(targets), ticket)

    def reload(self, targets: Sequence[Target]) -> None:
        ticket = self.ticket(targets)
        self.fences[b"owed", Origin(b"", ticket)] = SimFence(tuple(targets), ticket)

    def reached(self, event: int) -> None:
        if event > self._proxy.cached[LOGGED]:
            self.owe((ALL,))

    def remember_lock(self, lock_id: int, targets: Sequence[Target]) -> None:
        raise AssertionError("no lock waits here")

    def give_until(self, until_ns: int) -> None:
        page = self._proxy.page
        page[Slot.GIVEN_UNTIL_NS] = max(page[Slot.GIVEN_UNTIL_NS], until_ns)

    def recordable(self) -> bool:
        return not self._proxy.page[Slot.UNFENCED] & 1

    def note(self, note: Note) -> int:
        told = [number for number, one in self.notes.items() if one.event >= note.event > 0]
        if told:
            return told[0]
        self.noted += 1
        self.notes[self.noted] = note
        return self.noted

    def last_note(self) -> int:
        return self.noted

    def notes_after(self, number: int) -> list[tuple[int, Note]]:
        return [(own, note) for own, note in sorted(self.notes.items()) if own > number]

    def drop_notes(self, number: int) -> None:
        self.notes = {own: note for own, note in self.notes.items() if own > number}

    def covered(self, via: bytes) -> int:
        return self.positions.get(via, 0)

    def cover(self, via: bytes, position: int) -> None:
        self.positions[via] = position
