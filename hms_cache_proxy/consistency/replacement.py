"""Replaces damaged fences while the proxy runs.

Job: `Keeper.check` looks at the file of the fences, and replaces it if it is damaged. If a child process has died, LMDB
may have aborted it, so the file's pages are examined, too. What was in the old file is not read; the new one begins
with fences over everything:

- one with a ticket that asks for everything to be reloaded, because tickets were lost with the old file;
- one for each worker, until it has recorded its writes that are under way, and has said so (`FenceStore.join`). If it
  dies before that, its fence becomes one of unknown outcome, as the fences of all dead workers do;
- if a write of unknown outcome may still be carried out, one until then. The state page has that time for all fences
  of unknown outcome (HELD_UNTIL_NS). A worker that has died since the follower last ended the fences of the dead
  (EXPIRED_NS) may have had writes under way, too.

**Order.** First the file is marked as damaged; a call that ends after that does not count (`FenceFile._still_used`).
Then the workers are counted. So each write either was recorded in the old file, by a worker that is counted or has
died, or is recorded in the new one. Until then, its worker says on the state page that it cannot record it, which stops
all hits (suspension.py). The number of the last commit (FENCE_SEQ) continues far above those that the old file can
still give, so it stays unique.

Owner: the supervisor, whose other threads use the same FenceStore under `lock`.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any, Final

import lmdb
import structlog

from hms_cache_proxy.cache.environment import condemn, move_aside
from hms_cache_proxy.cache.state import Slot, StatePage
from hms_cache_proxy.cache.targets import ALL
from hms_cache_proxy.consistency import lmdb_check
from hms_cache_proxy.consistency.fence_rows import (
    FINITE,
    NUMBER,
    UNBOUND,
    UNKNOWN,
    Fence,
    add_fence,
    initialise,
    next_change,
    open_environment,
    take_ticket,
)
from hms_cache_proxy.consistency.fences import OVERDUE, FenceStore
from hms_cache_proxy.consistency.processes import started
from hms_cache_proxy.errors import CacheError

EXAMINATIONS: Final = 3
NUMBERS_LEFT: Final = 1 << 32
"""Of commits and tickets, which whoever still has the old file open may give."""

log = structlog.get_logger()


class Keeper:
    """Keeps the fences of a proxy usable. `workers`: the process ids of those that run."""

    def __init__(
        self,
        store: FenceStore,
        path: Path,
        *,
        request_timeout_ns: int,
        lock: Lock,
        workers: Callable[[], Iterable[int]],
    ) -> None:
        self._store, self._page, self._path = store, store.page, path
        self._request_timeout_ns = request_timeout_ns
        self._lock = lock
        self._workers = workers
        self._died_ns = 0
        self._told: str | None = None
        self._obstacle: str | None = None
        self._doubted = False

    def died(self, *, worker: bool) -> None:
        """A child has died."""
        self._doubted = True
        if worker:
            self._died_ns = time.monotonic_ns()

    def check(self) -> None:
        """Replace the fences if they are damaged; to be called about every second."""
        reason = self._store.damage()
        if reason is None and self._doubted:
            self._doubted = False
            reason = self._examined()
        if reason is None:
            return
        if reason != self._told:
            log.error("the fences are damaged: all reads are relayed", file=str(self._path), reason=reason)
            self._told = reason
        self._page[Slot.FENCES_DAMAGED] = self._page[Slot.FENCES_FILE]
        try:
            if self._path.exists():
                condemn(self._path, reason)
            replace(
                self._path,
                self._page,
                workers=self._workers(),
                request_timeout_ns=self._request_timeout_ns,
                until_ns=self._held_until(),
            )
            with self._lock:
                self._store.renew()
        except (OSError, CacheError, lmdb.Error) as error:  # a full disk: the next check tries again
            if str(error) != self._obstacle:
                log.error("the fences cannot be replaced yet", error=str(error))
                self._obstacle = str(error)
            return
        self._told = self._obstacle = None
        log.warning("the fences have been replaced: everything is reloaded", file=str(self._path))

    def _examined(self) -> str | None:
        """What is wrong with its pages each time that they are looked at: others write meanwhile."""
        reasons = [lmdb_check.damage(self._path) for _ in range(EXAMINATIONS)]
        return None if None in reasons else reasons[-1]

    def _held_until(self) -> int:
        """Until when a write may be carried out of which no living worker knows."""
        unseen = self._died_ns > self._page[Slot.EXPIRED_NS]
        return max(self._page[Slot.HELD_UNTIL_NS], self._died_ns + self._request_timeout_ns if unseen else 0)


def replace(path: Path, page: StatePage, *, workers: Iterable[int], request_timeout_ns: int, until_ns: int) -> None:
    """Have all processes use a new file. `until_ns`: when the last write of unknown outcome has ended."""
    fresh = path.with_name(path.name + ".new")
    with suppress(FileNotFoundError):
        shutil.rmtree(fresh)
    env = open_environment(fresh)
    try:
        inode = os.stat(fresh / "data.mdb").st_ino
        with env.begin(write=True) as txn:
            initialise(
                txn,
                last_ticket=page[Slot.DONE_TICKET] + NUMBERS_LEFT,
                last_change=page[Slot.FENCE_SEQ] + NUMBERS_LEFT,
            )
            _fence_everything(txn, workers, request_timeout_ns, until_ns)
            number = next_change(txn)
    finally:
        env.close()
    if path.exists():
        move_aside(path)
    os.rename(fresh, path)
    page[Slot.FENCE_SEQ] = number
    page[Slot.FENCES_FILE] = inode
    page[Slot.FENCES_REPLACED] += 1


def _fence_everything(txn: Any, workers: Iterable[int], request_timeout_ns: int, until_ns: int) -> None:
    add_fence(txn, Fence(FINITE, take_ticket(txn, (ALL,)), 0, 0, 0, (ALL,)))
    now_ns = time.monotonic_ns()
    if until_ns > now_ns:
        add_fence(txn, Fence(UNKNOWN, 0, until_ns, 0, 0, (ALL,)))
    for pid in workers:
        number = add_fence(
            txn, Fence(UNBOUND, 0, now_ns + OVERDUE * request_timeout_ns, pid, started(pid) or 0, (ALL,))
        )
        txn.put(b"j" + NUMBER.pack(pid), NUMBER.pack(number))
