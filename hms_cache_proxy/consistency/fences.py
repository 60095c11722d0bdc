"""Fences and tickets: writes through this proxy that are not yet known to be in the cache.

A **fence** is a record of one write: its targets, its owner, and how long reads of the targets must go to the
metastore.

    infinite   from before the write is sent until the first byte of its reply                     begin
    finite     has a ticket; lifted when a step of the follower has done the ticket                finish, fence_now
    unknown    the write may happen until `until_ns`; then the fence gets a ticket                 unknown, expire

No fence stays forever. An infinite one that was not ended within twice the longest request time becomes finite: its
owner has lost it, and the metastore has long executed or given up the write. If the owner ends it after all, everything
is reloaded.

A **ticket** is a numbered request to reload targets. The follower takes all tickets *before* the first statement of its
snapshot (`pending_tickets`), and publishes the last number as `done_ticket` in the commit of what it has reloaded. So
when `done_ticket >= ticket`, everything is in the cache that a reply which arrived before `finish` has shown. Numbers
are assigned in LMDB write transactions, which exclude each other across processes, so a larger number is a later
request. A request may share the number of an earlier one only if the follower has not taken that one yet (`taken`).

**FENCE_SEQ.** After each commit that changes a fence, and before the call returns, the writer stores the number of that
commit on the state page. The number comes from a counter that is raised in the transaction, so no other commit has it,
and it is stored exactly once. (It is not LMDB's transaction id, because a transaction that changes nothing gives its id
back.) A mirror *first* reads the slot, then a snapshot of the records, and keeps the slot's value as `seen`. Claim:
while the slot equals `seen`, the mirror has every change whose call has returned. Proof: let a call return before the
mirror looks. If it stored its number before the mirror read the slot, its commit is in the mirror's snapshot. If it
stored it later, the slot had a value other than `seen` at that moment (its own, unique one), and can have `seen` again
only if `seen` is stored a second time, which never happens. Two writers may store in another order than they commit:
the slot may then go back to a smaller number, but never to one that it had before. (For this reason it would be wrong
to keep the snapshot's own counter instead of the slot's value, or to compare by `>=`.) A process that dies between
commit and store has not sent its write, or not passed on its reply.

**Lifting.** A finite record is deleted only by `done`, after the follower's commit. A reader may have a snapshot of the
cache from before that commit, and a mirror from after the deletion. So the records have `lifted`, the largest ticket of
a deleted fence; a snapshot whose `done_ticket` is smaller counts as fenced for everything.

**A predecessor that crashed.** The metastore may still commit its writes in progress, later than anything that this
proxy reads at its start, and some of them write no event. So the first process of a start (`recover`) keeps the
records: infinite ones become unknown, for the longest request time from now on; finite ones keep their tickets, which
the follower finds pending. If the records cannot be trusted (commits are not synced, and the machine went down; or the
file is damaged), any write may be in progress. Then one unknown fence covers everything for the longest request time,
and after that everything is reloaded.

Owner: every process of the proxy writes (a commit costs about 20 us); only the follower calls `pending_tickets`, `done`
and `expire`. Must not know: methods, events, the meaning of targets other than `ALL` and `UNKNOWN`.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import lmdb

from hms_cache_proxy.cache.environment import boot_id, lengthen, mark_clean
from hms_cache_proxy.cache.state import Slot, StatePage
from hms_cache_proxy.cache.targets import ALL, Target
from hms_cache_proxy.cache.targets import UNKNOWN as UNKNOWN_TARGETS
from hms_cache_proxy.consistency.fence_rows import (
    FINITE,
    INFINITE,
    LOCK_ID,
    NUMBER,
    UNBOUND,
    UNKNOWN,
    Fence,
    counters,
    fences_in,
    forget_ticket,
    initialise,
    next_change,
    open_environment,
    pack_targets,
    put_counters,
    rows,
    shared_ticket,
    take_ticket,
    trusted,
    unpack_targets,
    wanted,
)
from hms_cache_proxy.consistency.processes import started
from hms_cache_proxy.errors import CacheError
from hms_cache_proxy.metrics import FENCE_STATES

HOLD_NS: Final = 600_000_000_000  # the longest time that a metastore may work on a request (Hive's socket timeout)
OVERDUE: Final = 2  # times HOLD_NS: an infinite fence that is older has been lost by its owner
LOCK_KEEP_NS: Final = 24 * 3600 * 1_000_000_000  # how long locks are remembered; without heartbeats one lives 5 minutes


class FenceStore:
    """The records. One object per process."""

    def __init__(self, path: Path, page: StatePage, *, hold_ns: int = HOLD_NS) -> None:
        """Opens the records. `hold_ns`: how long a write of unknown outcome may still be executed."""
        self._page = page
        self._hold_ns = hold_ns
        self._path = path
        self._env = open_environment(path)
        self._own = (os.getpid(), started(os.getpid()) or 0)
        with self._change() as txn:
            if txn.get(b"m") is None:
                initialise(txn)

    @classmethod
    def recover(cls, path: Path, page: StatePage, *, hold_ns: int = HOLD_NS, unfenced: bool = False) -> FenceStore:
        """Opens the records in the first process of a start, while no other process runs (see "A predecessor that
        crashed"). `unfenced`: the predecessor could not record all of its fences."""
        known = path.exists()
        if known and not trusted(path):
            shutil.rmtree(path)
        lost = unfenced or (known and not path.exists())
        store = cls(path, page, hold_ns=hold_ns)
        until_ns = time.monotonic_ns() + hold_ns
        with store._change() as txn:
            if lost:
                store._add(txn, Fence(UNKNOWN, 0, until_ns, 0, 0, (ALL,)))
            for key, fence in fences_in(txn):
                if fence.state != FINITE:
                    held = min(fence.until_ns, until_ns) if fence.state == UNKNOWN else until_ns
                    txn.put(key, replace(fence, state=UNKNOWN, until_ns=held, pid=0, start=0).pack())
            txn.put(b"b", boot_id().encode())
        return store

    # Writes of clients

    def begin(self, targets: Sequence[Target], owner_pid: int) -> int:
        """A write is about to be sent: fences its targets until the write is ended. Returns the fence's id."""
        pid, start = self._own if owner_pid == self._own[0] else (owner_pid, started(owner_pid) or 0)
        overdue_ns = time.monotonic_ns() + OVERDUE * self._hold_ns
        with self._change() as txn:
            return self._add(txn, Fence(UNBOUND, 0, overdue_ns, pid, start, tuple(targets)))

    def finish(self, fence_id: int) -> int:
        """The reply of a write begins to arrive: its fence gets a ticket, which is returned. Must be called before any
        byte is passed on."""
        key = b"f" + NUMBER.pack(fence_id)
        with self._change() as txn:
            row = txn.get(key)
            # The record is missing if this process was taken for dead: then it is unknown what to reload.
            fence = Fence(UNBOUND, 0, 0, 0, 0, (ALL,)) if row is None else Fence.unpack(row)
            ticket = take_ticket(txn, fence.targets)
            txn.put(key, replace(fence, state=FINITE, ticket=ticket).pack())
            return ticket

    def unknown(self, fence_id: int, until_ns: int) -> None:
        """The outcome of the write is unknown: its fence stays until `until_ns`."""
        key = b"f" + NUMBER.pack(fence_id)
        with self._change() as txn:
            row = txn.get(key)
            fence = Fence(UNBOUND, 0, 0, 0, 0, (ALL,)) if row is None else Fence.unpack(row)
            txn.put(key, replace(fence, state=UNKNOWN, until_ns=until_ns, pid=0, start=0).pack())

    def cancel(self, fence_id: int) -> None:
        """The write was not executed (it was never sent, or the metastore does not have the method): deletes its
        fence."""
        with self._change() as txn:
            txn.delete(b"f" + NUMBER.pack(fence_id))

    def fence_now(self, targets: Sequence[Target]) -> int:
        """Adds a fence that is finite at once (for a granted lock): reads must show everything up to now. Returns its
        ticket.

        The ticket asks for no reload, only for a step that begins after now.
        """
        with self._change() as txn:
            ticket = take_ticket(txn, ())
            self._add(txn, Fence(FINITE, ticket, 0, 0, 0, tuple(targets)))
            return ticket

    # Reload requests

    def ticket(self, targets: Sequence[Target]) -> int:
        """Requests a reload without a fence. Shares the number of an equal request that is not taken yet."""
        with self._env.begin() as txn:
            shared = shared_ticket(txn, counters(txn), targets)
        if shared is not None:
            return shared
        with self._change(fences=False) as txn:
            return take_ticket(txn, targets)

    def pending_tickets(self) -> tuple[int, set[Target]]:
        """All tickets that are not done, as (the last assigned number, targets to reload).

        The follower calls this before the first statement of its snapshot, and passes the number to its commit.
        """
        with self._env.begin() as txn:
            meta = counters(txn)
            if meta.taken == meta.last_ticket:
                return meta.last_ticket, wanted(txn)
        with self._change(fences=False) as txn:
            meta = counters(txn)
            put_counters(txn, replace(meta, taken=meta.last_ticket))
            return meta.last_ticket, wanted(txn)

    def done(self, last_ticket: int) -> None:
        """The commit with this `done_ticket` is published: deletes the fences that it lifts, and its tickets."""
        with self._env.begin() as txn:
            lifted = [(key, fence.ticket) for key, fence in fences_in(txn) if fence.lifted_by <= last_ticket]
            tickets = [key for key, _ in rows(txn, b"t") if NUMBER.unpack(key[1:])[0] <= last_ticket]
        if not lifted and not tickets:
            return
        lengthen(self._env, self._path)
        with self._change(fences=bool(lifted)) as txn:
            for key, _ in lifted:
                txn.delete(key)
            for key in tickets:
                forget_ticket(txn, key)
            if lifted:
                meta = counters(txn)
                put_counters(txn, replace(meta, lifted=max(meta.lifted, *(ticket for _, ticket in lifted))))

    def expire(self, now_ns: int, alive: Callable[[int], bool] | None = None) -> int:
        """Ends fences that nobody else will end; returns how many fences changed.

        An infinite fence whose owner is dead becomes unknown for the longest request time (`alive` may know of deaths
        earlier than the kernel). An unknown fence gets a ticket when its time is over; so does an infinite fence that
        its living owner did not end within twice that time. Old locks are forgotten. Slots of killed readers are
        cleared, which would otherwise keep pages from being reused.
        """
        self._env.reader_check()
        with self._env.begin() as txn:
            due = [key for key, fence in fences_in(txn) if self._next(fence, now_ns, alive) is not None]
            locks = [key for key, row in rows(txn, b"l") if NUMBER.unpack_from(row)[0] + LOCK_KEEP_NS < now_ns]
        if not due and not locks:
            return 0
        with self._change(fences=bool(due)) as txn:
            for key in locks:
                txn.delete(key)
            return sum(self._expire(txn, key, now_ns, alive) for key in due)

    def number_after(self, done_ticket: int) -> None:
        """Makes all later tickets larger than this: the cache may have a ticket of an earlier environment."""
        with self._env.begin() as txn:
            if counters(txn).last_ticket >= done_ticket:
                return
        with self._change() as txn:
            meta = counters(txn)
            put_counters(txn, replace(meta, last_ticket=max(meta.last_ticket, done_ticket)))

    # What clients have locked

    def remember_lock(self, lock_id: int, targets: Sequence[Target]) -> None:
        """A lock on these targets was requested. Remembered because `check_lock` and `unlock` only name its id."""
        row = NUMBER.pack(time.monotonic_ns()) + pack_targets(targets)
        with self._change(fences=False) as txn:
            txn.put(b"l" + LOCK_ID.pack(lock_id), row)

    def lock_targets(self, lock_id: int) -> tuple[Target, ...] | None:
        """The targets of a lock; None if this proxy does not know the lock."""
        with self._env.begin() as txn:
            row = txn.get(b"l" + LOCK_ID.pack(lock_id))
        return None if row is None else unpack_targets(row[NUMBER.size :])

    def forget_lock(self, lock_id: int) -> None:
        """The lock is released."""
        with self._change(fences=False) as txn:
            txn.delete(b"l" + LOCK_ID.pack(lock_id))

    def read(self) -> tuple[int, dict[Target, int]]:
        """For mirrors: `lifted`, and the `done_ticket` that lifts each fenced target."""
        tickets: dict[Target, int] = {}
        try:
            with self._env.begin() as txn:
                lifted = counters(txn).lifted
                for _, fence in fences_in(txn):
                    by = fence.lifted_by
                    for target in fence.targets:
                        if by > tickets.get(target, 0):
                            tickets[target] = by
        except lmdb.Error as error:
            raise CacheError(f"the fences cannot be read: {error}") from error
        return lifted, tickets

    def standing(self) -> dict[int, str]:
        """The state of every fence, by its id."""
        with self._env.begin() as txn:
            return {NUMBER.unpack(key[1:])[0]: FENCE_STATES[fence.state] for key, fence in fences_in(txn)}

    @property
    def page(self) -> StatePage:
        """The page with the FENCE_SEQ of these records."""
        return self._page

    def close(self, *, clean: bool = False) -> None:
        """Closes the records. `clean` (the last process of an orderly stop) syncs them and marks them as clean."""
        if clean:
            mark_clean(self._env, self._path)
        self._env.close()

    # Inside

    @contextmanager
    def _change(self, *, fences: bool = True) -> Iterator[Any]:
        """A write transaction. After its commit FENCE_SEQ gets its number, unless no fence has changed."""
        try:
            with self._env.begin(write=True) as txn:
                yield txn
                number = next_change(txn) if fences else 0
        except lmdb.Error as error:
            raise CacheError(f"the fences cannot be written: {error}") from error
        if fences:
            self._page[Slot.FENCE_SEQ] = number

    def _add(self, txn: Any, fence: Fence) -> int:
        meta = counters(txn)
        txn.put(b"f" + NUMBER.pack(meta.next_fence), fence.pack())
        put_counters(txn, replace(meta, next_fence=meta.next_fence + 1))
        return meta.next_fence

    def _next(self, fence: Fence, now_ns: int, alive: Callable[[int], bool] | None) -> int | None:
        """The state that `expire` must give a fence; None if it stays."""
        if fence.state != FINITE and fence.until_ns <= now_ns:
            return FINITE
        if fence.state == UNBOUND:
            dead = started(fence.pid) != fence.start or (alive is not None and not alive(fence.pid))
            return UNKNOWN if dead else None
        return None

    def _expire(self, txn: Any, key: bytes, now_ns: int, alive: Callable[[int], bool] | None) -> bool:
        row = txn.get(key)
        if row is None:
            return False
        fence = Fence.unpack(row)
        state = self._next(fence, now_ns, alive)
        if state is None:
            return False
        if state == UNKNOWN:
            fence = replace(fence, state=UNKNOWN, until_ns=now_ns + self._hold_ns, pid=0, start=0)
        else:
            fence = replace(fence, state=FINITE, ticket=take_ticket(txn, fence.targets))
        txn.put(key, fence.pack())
        return True


class FenceMirror:
    """The fences as one process last read them. A question costs 0.2 us while nothing changes."""

    __slots__ = ("_lifted", "_seen", "_store", "_tickets", "_words")

    def __init__(self, store: FenceStore) -> None:
        self._store = store
        self._words = store.page.words
        self._seen = -1
        self._lifted = 0
        self._tickets: dict[Target, int] = {}

    def active(self, targets: Iterable[Target], done_ticket: int) -> bool:
        """Whether a fence covers one of these targets, for a cache snapshot (or page) with this `done_ticket`."""
        if self._words[Slot.FENCE_SEQ] != self._seen:
            self._refresh()
        if done_ticket < self._lifted:
            return True
        tickets = self._tickets
        if not tickets:
            return False
        if tickets.get(ALL, 0) > done_ticket:
            return True
        for target in targets:
            if tickets.get(target, 0) > done_ticket or (target == ALL and max(tickets.values()) > done_ticket):
                return True
        return False

    def liftable(self, targets: Iterable[Target]) -> bool:
        """Whether the fences on these targets only wait for tickets, and no write to them is in progress."""
        if self._words[Slot.FENCE_SEQ] != self._seen:
            self._refresh()
        tickets = self._tickets
        named = tickets.values() if ALL in targets else [tickets.get(target, 0) for target in (ALL, *targets)]
        return INFINITE not in named

    def _refresh(self) -> None:
        """Reads the slot before the records (see FENCE_SEQ in the module's docstring)."""
        seen = self._words[Slot.FENCE_SEQ]
        self._lifted, tickets = self._store.read()
        if UNKNOWN_TARGETS in tickets:
            tickets[ALL] = max(tickets.get(ALL, 0), tickets.pop(UNKNOWN_TARGETS))
        self._tickets = tickets
        self._seen = seen
