"""Fences and tickets: writes through this proxy that are not yet known to be in the cache.

A **fence** is a record of one write: its targets, its owner, and how long reads of the targets must go to the
metastore.

    infinite   from before the write is sent until the first byte of its reply                     begin
    finite     has a ticket; lifted when a step of the follower has done the ticket                finish, fence_now
    unknown    the write may happen until `until_ns`; then the fence gets a ticket                 unknown, expire

No fence stays forever. An infinite one that was not ended within twice the request timeout becomes finite: its owner
has forgotten it, and the metastore has executed or given up the write long ago. If the owner ends it after all,
everything is reloaded.

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
records: infinite ones become unknown, for the request timeout from now on; finite ones keep their tickets, which the
follower finds pending. If the records cannot be trusted (commits are not synced, and the machine went down; or the
file is damaged), any write may be in progress. Then one unknown fence covers everything for the request timeout, and
after that everything is reloaded.

fence_file.py says what a process does when the file is damaged.

Owner: every process of the proxy writes (a commit costs about 20 us); `pending_tickets`, `done`, `expire` are the
follower's. Must not know: methods, events, what a target means beyond `ALL`.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from hms_cache_proxy.cache.environment import DamagedFile, boot_id, lengthen
from hms_cache_proxy.cache.state import Slot, StatePage
from hms_cache_proxy.cache.targets import ALL, Target
from hms_cache_proxy.consistency import lmdb_check
from hms_cache_proxy.consistency.fence_file import FenceFile
from hms_cache_proxy.consistency.fence_rows import (
    FINITE,
    LOCK_ID,
    NUMBER,
    UNBOUND,
    UNKNOWN,
    Fence,
    add_fence,
    counters,
    drop_locks,
    drop_unlogged,
    fences_in,
    finite,
    forget_ticket,
    merge_finite,
    note_unlogged,
    pack_targets,
    put_counters,
    rows,
    shared_ticket,
    take_ticket,
    trusted,
    unpack_targets,
    wanted,
)
from hms_cache_proxy.consistency.notes import Note, NoteKind, add_note, forget_events, merge_notes, told_event
from hms_cache_proxy.consistency.processes import started
from hms_cache_proxy.errors import CacheError
from hms_cache_proxy.metrics import FENCE_STATES

REQUEST_TIMEOUT_NS: Final = 600_000_000_000  # the default, as of Hive's clients
OVERDUE: Final = 2  # times the request timeout: after that, the owner of an infinite fence has forgotten it
LOCK_KEEP_NS: Final = 24 * 3600 * 1_000_000_000  # a lock is remembered so long; without heartbeats it ends in 5 min


MOST_FINITE: Final = 10_000
MOST_NOTES: Final = 10_000
MOST_UNLOGGED: Final = 10_000
"""The most records: of finite fences and of tickets, which the follower ends; of notes and of writes without an event,
which the peers' process deletes. Both may do nothing for days, as while the database is down, and every reader of the
fences reads all of them. So beyond these numbers, one record takes the place of all, or of the oldest."""
MOST_FINITE_BYTES: Final = 64 << 20
"""The same of all finite fences, and of all tickets: one write may name thousands of partitions."""
MOST_LOCKS: Final = 10_000
"""The same of locks that had to wait. The end of a transaction releases its locks without naming them, so most are
never forgotten otherwise for LOCK_KEEP_NS. One that is not known any more counts as a lock on everything."""


class FenceStore(FenceFile):
    """The records. One object per process."""

    def __init__(
        self, path: Path, page: StatePage, *, request_timeout_ns: int = REQUEST_TIMEOUT_NS, fleet: bool = False
    ) -> None:
        """Opens the records. `request_timeout_ns`: how long a write of unknown outcome may still be executed. `fleet`:
        this proxy has peers."""
        self._fleet = fleet
        self._request_timeout_ns = request_timeout_ns
        super().__init__(path, page)

    @classmethod
    def recover(
        cls, path: Path, page: StatePage, *, request_timeout_ns: int = REQUEST_TIMEOUT_NS, unfenced: bool = False
    ) -> FenceStore:
        """Opens the records in the first process of a start, while no other process runs (see "A predecessor that
        crashed"). `unfenced`: the predecessor could not record all of its fences."""
        known = path.exists()
        if known and (lmdb_check.damage(path) is not None or not trusted(path)):
            shutil.rmtree(path)
        lost = unfenced or (known and not path.exists())
        try:
            return cls._recovered(path, page, request_timeout_ns, lost=lost)
        except DamagedFile:
            shutil.rmtree(path)
            page[Slot.FENCES_FILE] = page[Slot.FENCES_DAMAGED] = 0
            return cls._recovered(path, page, request_timeout_ns, lost=True)

    @classmethod
    def _recovered(cls, path: Path, page: StatePage, request_timeout_ns: int, *, lost: bool) -> FenceStore:
        store = cls(path, page, request_timeout_ns=request_timeout_ns)
        until_ns = time.monotonic_ns() + request_timeout_ns
        try:
            with store._change() as txn:
                if lost:
                    add_fence(txn, store._unknown(Fence(UNKNOWN, 0, 0, 0, 0, (ALL,)), until_ns))
                for key, fence in fences_in(txn):
                    if fence.state != FINITE:
                        held_ns = min(fence.until_ns, until_ns) if fence.state == UNKNOWN else until_ns
                        txn.put(key, store._unknown(fence, held_ns).pack())
                for key, _ in list(rows(txn, b"j")):
                    txn.delete(key)
                txn.put(b"b", boot_id().encode())
        except CacheError:
            store.close()
            raise
        return store

    # Writes of clients

    def begin(self, targets: Sequence[Target], owner_pid: int) -> int:
        """A write is about to be sent: fences its targets until the write is ended. Returns the fence's id."""
        pid, start = self._own if owner_pid == self._own[0] else (owner_pid, started(owner_pid) or 0)
        overdue_ns = time.monotonic_ns() + OVERDUE * self._request_timeout_ns
        with self._change() as txn:
            return add_fence(txn, Fence(UNBOUND, 0, overdue_ns, pid, start, tuple(targets)))

    def finish(self, fence_id: int, *, unlogged: bool = False, missed: bool = False) -> int:
        """The reply of a write begins to arrive: its fence gets a ticket, which is returned. Must be called before any
        byte is passed on. `unlogged`: peers have no other way to learn of it; `missed`: and have not been told."""
        key = b"f" + NUMBER.pack(fence_id)
        with self._change() as txn:
            row = txn.get(key)
            # The record is missing if this process was taken for dead: then it is unknown what to reload.
            fence = Fence(UNBOUND, 0, 0, 0, 0, (ALL,)) if row is None else Fence.unpack(row)
            fence = finite(txn, fence)
            txn.put(key, fence.pack())
            if unlogged or (missed and self._fleet):
                note_unlogged(txn, fence.ticket, fence.targets)
            if missed and self._fleet:
                add_note(txn, Note(NoteKind.MISSED, fence.targets))
            return fence.ticket

    def unknown(self, fence_id: int, until_ns: int) -> None:
        """The outcome of the write is unknown: its fence stays until `until_ns`."""
        key = b"f" + NUMBER.pack(fence_id)
        with self._change() as txn:
            row = txn.get(key)
            fence = Fence(UNBOUND, 0, 0, 0, 0, (ALL,)) if row is None else Fence.unpack(row)
            txn.put(key, self._unknown(fence, until_ns).pack())

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
            add_fence(txn, Fence(FINITE, ticket, 0, 0, 0, tuple(targets)))
            return ticket

    def forget_events(self) -> None:
        """The log that is followed from now on may be another one, or have gone back: an id that peers were told of
        says nothing about a lower one."""
        with self._change(fences=False) as txn:
            forget_events(txn)

    def note(self, note: Note) -> int:
        """Tell peers of this before they get another lease. Returns the note's number."""
        if note.kind is NoteKind.EVENT:
            with self._reading() as txn:
                told = told_event(txn, note.event)
            if told is not None:
                return told
        with self._change(fences=False) as txn:
            return add_note(txn, note)

    # Reload requests

    def ticket(self, targets: Sequence[Target]) -> int:
        """Ask for a refetch without a fence; shares the number of an equal request that has not been taken yet."""
        with self._reading() as txn:
            shared = shared_ticket(txn, counters(txn), targets)
        if shared is not None:
            return shared
        with self._change(fences=False) as txn:
            return take_ticket(txn, targets)

    def pending_tickets(self) -> tuple[int, set[Target]]:
        """All tickets that are not done, as (the last assigned number, targets to reload).

        The follower calls this before the first statement of its snapshot, and passes the number to its commit.
        """
        with self._reading() as txn:
            meta = counters(txn)
            if meta.taken == meta.last_ticket:
                return meta.last_ticket, wanted(txn)
        with self._change(fences=False) as txn:
            meta = counters(txn)
            put_counters(txn, replace(meta, taken=meta.last_ticket))
            return meta.last_ticket, wanted(txn)

    def done(self, last_ticket: int) -> None:
        """The commit with this `done_ticket` is out: delete the fences that it lifts, and its tickets."""
        with self._reading() as txn:
            lifted = [(key, fence.ticket) for key, fence in fences_in(txn) if fence.lifted_by <= last_ticket]
            tickets = [key for key, _ in rows(txn, b"t") if NUMBER.unpack(key[1:])[0] <= last_ticket]
        if not lifted and not tickets:
            return
        with self._change(fences=bool(lifted)) as txn:
            lengthen(self._env, self._path)
            for key, _ in lifted:
                txn.delete(key)
            for key in tickets:
                forget_ticket(txn, key)
            if lifted:
                meta = counters(txn)
                put_counters(txn, replace(meta, lifted=max(meta.lifted, *(ticket for _, ticket in lifted))))

    def expire(self, now_ns: int, alive: Callable[[int], bool] | None = None) -> int:
        """Ends fences that nobody else will end; returns how many fences changed.

        An infinite fence whose owner is dead becomes unknown for the request timeout (`alive` may know of deaths
        earlier than the kernel). An unknown fence gets a ticket when its time is over; so does an infinite fence that
        its living owner did not end within twice that time. Old locks are forgotten. Slots of killed readers are
        cleared, which would otherwise keep pages from being reused. Of too many records, one is made.
        """
        self._check()
        self._env.reader_check()
        self._merge()
        with self._reading() as txn:
            due = [key for key, fence in fences_in(txn) if self._next(fence, now_ns, alive) is not None]
            locks = [key for key, row in rows(txn, b"l") if NUMBER.unpack_from(row)[0] + LOCK_KEEP_NS < now_ns]
        changed = 0
        if due or locks:
            with self._change(fences=bool(due)) as txn:
                for key in locks:
                    txn.delete(key)
                changed = sum(self._expire(txn, key, now_ns, alive) for key in due)
        self.page[Slot.EXPIRED_NS] = now_ns
        return changed

    def _merge(self) -> None:
        with self._reading() as txn:
            finite = [len(row) for _, row in rows(txn, b"f") if row[0] == FINITE]
            tickets = [len(row) for _, row in rows(txn, b"t")]
            many = any(len(sizes) > MOST_FINITE or sum(sizes) > MOST_FINITE_BYTES for sizes in (finite, tickets))
            notes, unlogged, locks = (
                sum(1 for _ in rows(txn, tag)) > most
                for tag, most in ((b"n", MOST_NOTES), (b"s", MOST_UNLOGGED), (b"l", MOST_LOCKS))
            )
        if many or notes or unlogged or locks:
            with self._change(fences=many) as txn:
                if many:
                    merge_finite(txn, MOST_FINITE)
                if notes:
                    merge_notes(txn)
                if unlogged:
                    drop_unlogged(txn, MOST_UNLOGGED)
                if locks:
                    drop_locks(txn, MOST_LOCKS)

    def number_after(self, done_ticket: int) -> None:
        """See to it that tickets given from now on are larger: the cache may remember an older environment's."""
        with self._reading() as txn:
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
        """What a lock locks; None if this proxy does not know it."""
        try:
            with self._reading() as txn:
                row = txn.get(b"l" + LOCK_ID.pack(lock_id))
        except CacheError:
            return None
        return None if row is None else unpack_targets(row[NUMBER.size :])

    def forget_lock(self, lock_id: int) -> None:
        """The lock is released."""
        with self._change(fences=False) as txn:
            txn.delete(b"l" + LOCK_ID.pack(lock_id))

    def read(self) -> tuple[int, dict[Target, int]]:
        """For mirrors: `lifted`, and the `done_ticket` that lifts each fenced target."""
        tickets: dict[Target, int] = {}
        with self._reading() as txn:
            lifted = counters(txn).lifted
            for _, fence in fences_in(txn):
                by = fence.lifted_by
                for target in fence.targets:
                    if by > tickets.get(target, 0):
                        tickets[target] = by
        return lifted, tickets

    def standing(self) -> dict[int, str]:
        """The state of every fence, by its id."""
        with self._reading() as txn:
            return {NUMBER.unpack(key[1:])[0]: FENCE_STATES[fence.state] for key, fence in fences_in(txn)}

    # Inside

    def _unknown(self, fence: Fence, until_ns: int) -> Fence:
        """The same of unknown outcome; inside a transaction, which keeps the page's word from going back."""
        self.page[Slot.HELD_UNTIL_NS] = max(self.page[Slot.HELD_UNTIL_NS], until_ns)
        return replace(fence, state=UNKNOWN, until_ns=until_ns, pid=0, start=0)

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
            fence = self._unknown(fence, now_ns + self._request_timeout_ns)
        else:
            fence = finite(txn, fence)
            if self._fleet:  # whether the write has logged an event is not known
                note_unlogged(txn, fence.ticket, fence.targets)
        txn.put(key, fence.pack())
        return True
