"""Guards: how a worker records writes and locks, without ever making one fail.

Job: keep reads of a write's targets away from the cache, by a barrier in a file (fences, or the holds of TTL mode). If
the file cannot be written, the write is recorded later, and until then nothing is answered from the cache
(suspension.py): what only makes reads faster must never make a write fail. Must not know how a barrier works, or
methods.

Invariants: before `begin` returns, the barrier stands or all hits are stopped; before `end` returns, the barrier has
noted the end or all hits are stopped; hits are possible again only when everything is recorded. If the file is
replaced, what is in progress is recorded in the new one (`again`).
Owner: the worker's loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Protocol

import structlog

from hms_cache_proxy.cache.targets import ALL, Target
from hms_cache_proxy.consistency.suspension import Suspension
from hms_cache_proxy.errors import CacheError

MOST_TARGETS: Final = 1000
"""Targets to be recorded later; more than these become everything."""

log = structlog.get_logger()


class WriteEnding(Enum):
    """How a write ended."""

    FINISHED = "finished"  # its targets must be reloaded
    UNLOGGED = "unlogged"  # the same, and no event tells other proxies of it
    UNKNOWN = "unknown"  # it may or may not happen
    CANCELLED = "cancelled"  # it never happens
    MISSED = "missed"  # it was over before it could be recorded, or before peers were told of it


class Barrier(Protocol):
    """Keeps reads away from the cache. Raises CacheError if it cannot be written."""

    def begin(self, targets: Sequence[Target]) -> Any:
        """Keeps reads of the targets away from the cache. Returns the id of its record, for `end`."""

    def end(self, record_id: Any, targets: Sequence[Target], ending: WriteEnding) -> None:
        """The write has ended."""


@dataclass(slots=True, eq=False)
class Guard:
    """A write in progress. `record_id`: of the barrier's record; None: it has not recorded the write yet."""

    targets: tuple[Target, ...]
    record_id: Any = None
    ending: WriteEnding | None = None


class Guards:
    """The guards of one worker."""

    def __init__(self, barrier: Barrier, suspension: Suspension, name: str) -> None:
        """`name`: the name of the barrier's file, for the log."""
        self._barrier = barrier
        self._suspension = suspension
        self._name = name
        self._unrecorded: dict[Guard, None] = {}
        self._recorded: dict[Guard, None] = {}
        """Of those that have not ended."""
        self._missed: set[Target] = set()
        if suspension.left:
            self._unrecorded[Guard((ALL,), ending=WriteEnding.UNKNOWN)] = None
        self._said = len(self._unrecorded)
        suspension.report(name, self._said)

    def begin(self, targets: Sequence[Target]) -> Guard:
        """A write is about to be sent."""
        guard = Guard(tuple(targets))
        self._record(guard)
        return guard

    def end(self, guard: Guard, ending: WriteEnding) -> None:
        """The write has ended, and no byte of its reply was passed on."""
        guard.ending = ending
        if guard.record_id is None and ending in (WriteEnding.FINISHED, WriteEnding.UNLOGGED):
            self._unrecorded.pop(guard, None)
            self.missed(guard.targets)
        else:
            self._record(guard)

    def missed(self, targets: Sequence[Target]) -> None:
        """The current state of these targets must be reloaded, and this could not be recorded."""
        self._missed.update(targets)
        if len(self._missed) > MOST_TARGETS:
            self._missed = {ALL}
        self._tell()

    def again(self) -> None:
        """The barrier's file is a new one: nothing is recorded there yet."""
        self._unrecorded = {**self._recorded, **self._unrecorded}
        self._recorded.clear()
        for guard in self._unrecorded:
            guard.record_id = None
        self._tell()

    def settle(self) -> bool:
        """Record what could not be recorded, if there is room now; True if everything is recorded. Called from time to
        time."""
        if self._missed:
            self._unrecorded[Guard(tuple(self._missed), ending=WriteEnding.MISSED)] = None
            self._missed.clear()
        for guard in list(self._unrecorded):
            if not self._record(guard):
                return False
        return True

    def _record(self, guard: Guard) -> bool:
        try:
            self._write(guard)
        except CacheError as error:
            if not self._said:
                log.error(
                    "a write cannot be fenced: nothing is answered from the cache until it can be",
                    file=self._name,
                    error=str(error),
                )
            self._unrecorded[guard] = None
            self._recorded.pop(guard, None)
        else:
            self._unrecorded.pop(guard, None)
            if guard.ending is None:
                self._recorded[guard] = None
            else:
                self._recorded.pop(guard, None)
        self._tell()
        return guard not in self._unrecorded

    def _write(self, guard: Guard) -> None:
        if guard.record_id is None:
            if guard.ending is WriteEnding.CANCELLED:
                return
            guard.record_id = self._barrier.begin(guard.targets)
        if guard.ending is not None:
            self._barrier.end(guard.record_id, guard.targets, guard.ending)

    def _tell(self) -> None:
        unrecorded = len(self._unrecorded) + bool(self._missed)
        if unrecorded == self._said:
            return
        self._suspension.report(self._name, unrecorded)
        if not unrecorded:
            log.info("fences can be written again: the cache answers again", file=self._name)
        self._said = unrecorded
