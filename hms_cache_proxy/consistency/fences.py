"""Fences and tickets: what has been written through this proxy and is not yet known to be in the cache.

A **fence** is a record of one write: its targets, its owner, and until when reads of them must go to the metastore.

    infinite   from before the write leaves until the first byte of its reply                      begin
    finite     holds a ticket; lifted once a step of the follower has done the ticket              finish, fence_now
    unknown    the write may or may not happen, at the latest at `until_ns`; then a ticket is taken   unknown, expire

No fence stays forever: an infinite one that nobody has ended in twice the longest request time becomes finite (its
owner has forgotten it; the metastore has long done, or given up, what it was for). If its owner ends it after all,
everything is reloaded.

A **ticket** is a numbered request to refetch targets. The follower takes all tickets *before* the first statement of
its snapshot (`pending_tickets`), and publishes the last number as `done_ticket` in the commit that holds what it
refetched; so whatever a reply showed that arrived before `finish` is in the cache once `done_ticket >= ticket`.
Numbers are given inside LMDB write transactions, which exclude one another in all processes, so a larger number is a
later request. A request may share the number of an earlier one only if the follower has not taken that one yet
(`taken`).

**FENCE_SEQ.** After each commit that changes a fence, and before the call returns, the writer stores on the state
page that commit's number: from a counter raised inside the transaction, so no other commit has it and it is stored
exactly once. (Not LMDB's transaction id: a transaction that turns out to change nothing gives its id back.)
A mirror reads the slot *first*, then a snapshot of the records, and keeps the slot's value as `seen`. Claim: while
the slot equals `seen`, the mirror has every change whose call has returned. Proof: let a call return before the
mirror looks. It stored its number either before the mirror read the slot, then its commit precedes the mirror's
snapshot and is in it; or after, then the slot held another value than `seen` at that moment (its own, unique one),
and can hold `seen` again only if that is stored a second time, which never happens. It does not matter that two
writers' stores may come in another order than their commits: the slot may go back to a smaller number, never to one
that was there before. (Keeping the snapshot's own counter instead of the slot's value would be wrong for that
reason, and comparing by `>=` too.) A process that dies between commit and store has not let its write leave, nor
passed its reply on.

**Lifting.** A record is deleted only by `done`, after the follower's commit. A reader may hold a cache snapshot from
before that commit together with a mirror from after the deletion; so the records carry `lifted`, the largest ticket
of a deleted fence, and a snapshot whose `done_ticket` is below it counts as fenced for everything.

**A predecessor that crashed.** Its writes in flight may still be committed by the metastore, later than anything
that this proxy reads at its start, and some of them write no event. So the first process of a start (`recover`)
keeps the records: infinite ones become unknown with the longest request time from now, finite ones keep their
tickets, which the follower finds pending. If the records cannot be trusted (the machine went down, as commits are
not synced; the file is damaged), any write may be in flight: one unknown fence over everything for the longest
request time, then one reload of all.

Owner: every process of the proxy writes (a commit costs about 20 us); `pending_tickets`, `done`, `expire` are the
follower's. Must not know: methods, events, what a target means beyond `ALL`.
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

HOLD_NS: Final = 600_000_000_000  # the longest time that a metastore may work on a request (Hive's socket time-out)
OVERDUE: Final = 2  # times that: a request leaves and is answered within it, or its fence is nobody's
LOCK_KEEP_NS: Final = 24 * 3600 * 1_000_000_000  # a lock without heartbeat lives 5 minutes; asked about no longer


class FenceStore:
    """The records; one object per process."""

    def __init__(self, path: Path, page: StatePage, *, hold_ns: int = HOLD_NS) -> None:
        """Open them. `hold_ns`: how long a write of unknown outcome may still be carried out."""
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
        """Open them in the first process of a start, while no other runs: see "A predecessor that crashed".
        `unfenced`: the predecessor could not record all of its fences."""
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
        """A write is about to be sent: fence its targets until further notice. Returns the fence's id."""
        pid, start = self._own if owner_pid == self._own[0] else (owner_pid, started(owner_pid) or 0)
        overdue_ns = time.monotonic_ns() + OVERDUE * self._hold_ns
        with self._change() as txn:
            return self._add(txn, Fence(UNBOUND, 0, overdue_ns, pid, start, tuple(targets)))

    def finish(self, fence_id: int) -> int:
        """The reply of a write begins to arrive: its fence gets a ticket. Call before any byte is passed on."""
        key = b"f" + NUMBER.pack(fence_id)
        with self._change() as txn:
            row = txn.get(key)
            # A missing record was ended for this process (it was taken for dead): then it is unknown what to refetch.
            fence = Fence(UNBOUND, 0, 0, 0, 0, (ALL,)) if row is None else Fence.unpack(row)
            ticket = take_ticket(txn, fence.targets)
            txn.put(key, replace(fence, state=FINITE, ticket=ticket).pack())
            return ticket

    def unknown(self, fence_id: int, until_ns: int) -> None:
        """It is unknown whether the write happened, or will: keep its fence until then."""
        key = b"f" + NUMBER.pack(fence_id)
        with self._change() as txn:
            row = txn.get(key)
            fence = Fence(UNBOUND, 0, 0, 0, 0, (ALL,)) if row is None else Fence.unpack(row)
            txn.put(key, replace(fence, state=UNKNOWN, until_ns=until_ns, pid=0, start=0).pack())

    def cancel(self, fence_id: int) -> None:
        """The write was not carried out (it never left, or the metastore does not know the method): no fence."""
        with self._change() as txn:
            txn.delete(b"f" + NUMBER.pack(fence_id))

    def fence_now(self, targets: Sequence[Target]) -> int:
        """A fence that is born finite (a granted lock): reads must show what was true before now. Gives its ticket.

        The ticket asks for nothing to be refetched: it waits for a step that begins after now.
        """
        with self._change() as txn:
            ticket = take_ticket(txn, ())
            self._add(txn, Fence(FINITE, ticket, 0, 0, 0, tuple(targets)))
            return ticket

    # Reload requests

    def ticket(self, targets: Sequence[Target]) -> int:
        """Ask for a refetch without a fence; shares the number of an equal request that has not been taken yet."""
        with self._env.begin() as txn:
            shared = shared_ticket(txn, counters(txn), targets)
        if shared is not None:
            return shared
        with self._change(fences=False) as txn:
            return take_ticket(txn, targets)

    def pending_tickets(self) -> tuple[int, set[Target]]:
        """All tickets that are not done, as (the last number given, targets to refetch).

        The follower calls this before the first statement of its snapshot, and hands the number to its commit.
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
        """The commit with this `done_ticket` is out: delete the fences that it lifts, and its tickets."""
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
        """End what nobody else will end; gives how many fences changed.

        A fence in flight whose owner is dead becomes unknown for the longest request time (`alive` may know of deaths
        before the kernel tells); an unknown one past its time, and one that its living owner has left in flight for
        twice that time, gets a ticket. Locks of long ago are forgotten. So are the readers that a killed process was:
        what they read would never be freed.
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
        """See to it that tickets given from now on are larger: the cache may remember an older environment's."""
        with self._env.begin() as txn:
            if counters(txn).last_ticket >= done_ticket:
                return
        with self._change() as txn:
            meta = counters(txn)
            put_counters(txn, replace(meta, last_ticket=max(meta.last_ticket, done_ticket)))

    # What clients have locked

    def remember_lock(self, lock_id: int, targets: Sequence[Target]) -> None:
        """A lock was asked for on these targets; `check_lock` and `unlock` name only its id."""
        row = NUMBER.pack(time.monotonic_ns()) + pack_targets(targets)
        with self._change(fences=False) as txn:
            txn.put(b"l" + LOCK_ID.pack(lock_id), row)

    def lock_targets(self, lock_id: int) -> tuple[Target, ...] | None:
        """What a lock locks; None if this proxy does not know it."""
        with self._env.begin() as txn:
            row = txn.get(b"l" + LOCK_ID.pack(lock_id))
        return None if row is None else unpack_targets(row[NUMBER.size :])

    def forget_lock(self, lock_id: int) -> None:
        """The lock is released."""
        with self._change(fences=False) as txn:
            txn.delete(b"l" + LOCK_ID.pack(lock_id))

    def read(self) -> tuple[int, dict[Target, int]]:
        """For mirrors: `lifted`, and for each fenced target the `done_ticket` that lifts it."""
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
        """The page whose FENCE_SEQ speaks of these records."""
        return self._page

    def close(self, *, clean: bool = False) -> None:
        """Close; `clean` (the last process of an orderly stop) syncs and vouches for the records."""
        if clean:
            mark_clean(self._env, self._path)
        self._env.close()

    # Inside

    @contextmanager
    def _change(self, *, fences: bool = True) -> Iterator[Any]:
        """A write transaction; after its commit FENCE_SEQ gets its number, unless mirrors need not know."""
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
        """The state that a fence goes to by itself; None if it stays."""
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
    """The fences as one process last read them; a question costs 0.2 us while nothing changes."""

    __slots__ = ("_lifted", "_seen", "_store", "_tickets", "_words")

    def __init__(self, store: FenceStore) -> None:
        self._store = store
        self._words = store.page.words
        self._seen = -1
        self._lifted = 0
        self._tickets: dict[Target, int] = {}

    def active(self, targets: Iterable[Target], done_ticket: int) -> bool:
        """Whether a fence covers one of these targets for a cache snapshot (or page) with this `done_ticket`."""
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
        """Whether the fences on these targets wait for tickets only: no write of them is under way."""
        if self._words[Slot.FENCE_SEQ] != self._seen:
            self._refresh()
        tickets = self._tickets
        named = tickets.values() if ALL in targets else [tickets.get(target, 0) for target in (ALL, *targets)]
        return INFINITE not in named

    def _refresh(self) -> None:
        """Rule: the slot before the records (see FENCE_SEQ in the module's docstring)."""
        seen = self._words[Slot.FENCE_SEQ]
        self._lifted, tickets = self._store.read()
        if UNKNOWN_TARGETS in tickets:
            tickets[ALL] = max(tickets.get(ALL, 0), tickets.pop(UNKNOWN_TARGETS))
        self._tickets = tickets
        self._seen = seen
