"""Plants the bug named by PLANTED_BUG into every process of a proxy that is started with this folder on PYTHONPATH.

Python imports this module at start. Each bug breaks one rule that readers depend on, in one place; tests/history checks
that the checker catches each. An unknown name, or a rule that has moved away, fails at start.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any

BUGS: dict[str, Callable[[], None]] = {}


def bug(plant: Callable[[], None]) -> Callable[[], None]:
    BUGS[plant.__name__] = plant
    return plant


@bug
def fence_dropped() -> None:
    """A write leaves without a fence."""
    from hms_cache_proxy.consistency.fences import FenceStore

    begin = FenceStore.begin
    FenceStore.begin = lambda self, targets, owner: begin(self, [], owner)  # type: ignore[method-assign]


@bug
def fence_finite_after_reply() -> None:
    """The fence is born only after the reply has been passed on."""
    from hms_cache_proxy.consistency.fences import FenceStore

    begin = FenceStore.begin
    finish = FenceStore.finish
    targets_of: dict[int, Any] = {}

    def begun(self: FenceStore, targets: Any, owner: int) -> int:
        number = begin(self, [], owner)
        targets_of[number] = targets
        return number

    def finished(self: FenceStore, number: int) -> int:
        threading.Timer(0.1, self.fence_now, [targets_of.pop(number)]).start()
        return finish(self, number)

    FenceStore.begin, FenceStore.finish = begun, finished  # type: ignore[method-assign]


@bug
def ticket_after_snapshot() -> None:
    """The step vouches for tickets that were taken after its snapshot had begun."""
    from hms_cache_proxy.follower.cycle import Cycle

    commit = Cycle._commit

    def late(self: Cycle, reading: Any) -> None:
        reading.changes.done_ticket = self._fences.pending_tickets()[0]
        commit(self, reading)

    Cycle._commit = late  # type: ignore[method-assign]


@bug
def floor_ignored() -> None:
    """What a connection was shown by the metastore is forgotten."""
    from hms_cache_proxy.consistency.floors import Floors

    Floors.lift = lambda self, targets, now_ns: None  # type: ignore[method-assign]


@bug
def cursor_before_objects() -> None:
    """The cursor moves in a commit of its own, before the objects."""
    from hms_cache_proxy.cache.changes import Changes
    from hms_cache_proxy.cache.writer import CacheWriter

    commit = CacheWriter.commit

    def split(self: CacheWriter, changes: Changes) -> int:
        if changes.reset is None:
            commit(
                self, Changes(cursor=changes.cursor, done_ticket=changes.done_ticket, fingerprint=changes.fingerprint)
            )
            time.sleep(0.1)
        return commit(self, changes)

    CacheWriter.commit = split  # type: ignore[method-assign]


@bug
def lock_not_fenced() -> None:
    """A granted lock does not hold back cached answers about what it locks."""
    from hms_cache_proxy.consistency.fences import FenceStore

    FenceStore.fence_now = lambda self, targets: 0  # type: ignore[method-assign]


if "PLANTED_BUG" in os.environ:
    BUGS[os.environ["PLANTED_BUG"]]()

__all__ = ["BUGS"]
