"""Plants the bug named by PLANTED_BUG into every process of a proxy that is started with this folder on PYTHONPATH.

Several names are joined by "+". Python imports this module at start. Each bug breaks one rule that readers depend on,
in one place; tests/history and tests/write_ids/test_history.py check that their checkers catch each, but for what only
faults show (tests/torture). An unknown name, or a rule that has moved away, fails at start.
"""

from __future__ import annotations

import inspect
import os
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

BUGS: dict[str, Callable[[], None]] = {}
swapped: list[str] = []
"""What has been put into the place of something else."""


def swap(owner: Any, name: str, other: Any) -> None:
    """Put another thing into the place of one that is there. AttributeError if it is not, TypeError if it is called
    otherwise: the rule has moved away."""
    there = getattr(owner, name)
    if inspect.isroutine(there):
        _check_called_alike(there, other)
    setattr(owner, name, other)
    swapped.append(name)


def _check_called_alike(there: Callable[..., Any], other: Callable[..., Any]) -> None:
    parameters = inspect.signature(there).parameters.values()
    in_order = [one.name for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    inspect.signature(other).bind(*in_order, **{one.name: None for one in parameters if one.kind is one.KEYWORD_ONLY})


def bug(plant: Callable[[], None]) -> Callable[[], None]:
    BUGS[plant.__name__] = plant
    return plant


@bug
def fence_dropped() -> None:
    """A write leaves without a fence."""
    from hms_cache_proxy.consistency.fences import FenceStore

    begin = FenceStore.begin
    swap(FenceStore, "begin", lambda self, targets, owner: begin(self, [], owner))


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

    def finished(self: FenceStore, number: int, **how: bool) -> int:
        threading.Timer(0.1, self.fence_now, [targets_of.pop(number)]).start()
        return finish(self, number, **how)

    swap(FenceStore, "begin", begun)
    swap(FenceStore, "finish", finished)


@bug
def ticket_after_snapshot() -> None:
    """The step vouches for tickets that were taken after its snapshot had begun."""
    from hms_cache_proxy.follower.cycle import Cycle

    commit = Cycle._commit

    def late(self: Cycle, decided: Any) -> None:
        decided.read.reading.changes.done_ticket = self._fences.pending_tickets()[0]
        commit(self, decided)

    swap(Cycle, "_commit", late)


@bug
def floor_ignored() -> None:
    """What a connection was shown by the metastore is forgotten."""
    from hms_cache_proxy.consistency.floors import Floors

    swap(Floors, "lift", lambda self, targets, now_ns: None)


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

    swap(CacheWriter, "commit", split)


@bug
def lock_not_fenced() -> None:
    """A granted lock does not hold back cached answers about what it locks."""
    from hms_cache_proxy.consistency.fences import FenceStore

    swap(FenceStore, "fence_now", lambda self, targets: 0)


@bug
def learned_early() -> None:
    """A reply of the metastore is kept as if it were of the cache's present state, which may be older."""
    from hms_cache_proxy.cache.replies import ReplyCache, ReplyEntry, versions_of

    put = ReplyCache.put

    def early(self: ReplyCache, key: bytes, entry: ReplyEntry) -> bool:
        if entry.learned_ns:
            entry.learned_ns = 0
            with self._reader.snapshot() as snapshot:
                entry.versions = versions_of(snapshot, entry.depends)
        return put(self, key, entry)

    swap(ReplyCache, "put", early)


@bug
def write_ids_newer() -> None:
    """A list proves the cache fresh if it shows all that the cache shows, or more."""
    from hms_cache_proxy.methods import proof
    from hms_cache_proxy.store.write_ids import ValidWriteIdList

    def newer(request: bytes, cached: bytes) -> bool:
        theirs, mine = ValidWriteIdList.parse(request), ValidWriteIdList.parse(cached)
        return all(theirs.is_valid(id_) for id_ in range(1, mine.high_watermark + 1) if mine.is_valid(id_))

    swap(proof, "equivalent", newer)


@bug
def own_writes_hidden() -> None:
    """Writes that the cache knows as open make no difference, though they may be the reader's own."""
    from hms_cache_proxy.methods import proof
    from hms_cache_proxy.store.write_ids import ValidWriteIdList

    equivalent = proof.equivalent  # type: ignore[attr-defined]  # the name that it uses

    def as_open(request: bytes, cached: bytes) -> bool:
        mine, theirs = ValidWriteIdList.parse(cached), ValidWriteIdList.parse(request)
        unknown = set(mine.invalid) - mine.aborted - set(theirs.invalid)
        seen = ValidWriteIdList.of(theirs.table or b"", mine.high_watermark, set(mine.invalid) - unknown, mine.aborted)
        return equivalent(request, cached) or equivalent(request, seen.text())

    swap(proof, "equivalent", as_open)


@bug
def look_not_waited_for() -> None:
    """A read without a proof is answered without a look."""
    from hms_cache_proxy.methods.proof import Proof

    swap(Proof, "_unless_looked", lambda self, otherwise: None)


@bug
def table_id_ignored() -> None:
    """Any table of the name will do."""
    from hms_cache_proxy.cache.entries import Absent, TableEntry
    from hms_cache_proxy.methods.proof import Proof

    names_another = Proof.names_another

    def of_none(self: Proof, entry: TableEntry | Absent) -> bool:
        if isinstance(entry, Absent):
            return names_another(self, entry)
        if self.table_id is not None:
            self.table_id = entry.table_id
        return False

    swap(Proof, "names_another", of_none)


@bug
def tag_before_objects() -> None:
    """Lists of valid writes are advanced in a commit of their own, before the objects."""
    from hms_cache_proxy.cache.changes import Changes
    from hms_cache_proxy.cache.writer import CacheWriter

    commit = CacheWriter.commit

    def split(self: CacheWriter, changes: Changes) -> int:
        if changes.reset is None and changes.write_ids:
            meta = self.meta
            lists = Changes(cursor=meta.cursor, fingerprint=meta.fingerprint, done_ticket=meta.done_ticket)
            lists.held, lists.touched, lists.write_ids = meta.held, changes.touched, changes.write_ids
            commit(self, lists)
            time.sleep(0.8)
        return commit(self, changes)

    swap(CacheWriter, "commit", split)


@bug
def commit_not_reloaded() -> None:
    """The end of a transaction advances its tables' lists, and their objects are not read again."""
    from dataclasses import replace

    from hms_cache_proxy.follower.affected import Affected
    from hms_cache_proxy.follower.step import LookUp, Transactions

    resolve = Transactions.resolve

    def lists_only(self: Transactions, affected: Affected, look_up: LookUp) -> Affected:
        resolved = resolve(self, affected, look_up)
        ended = frozenset((0, key) for key in resolved.tables - affected.tables)
        return replace(resolved, tables=affected.tables, write_ids=resolved.write_ids | ended)

    swap(Transactions, "resolve", lists_only)


@bug
def full_disk_forgotten() -> None:
    """A write that cannot be fenced, as the disk is full, stops no hits."""
    from hms_cache_proxy.consistency.suspension import Suspension

    swap(Suspension, "report", lambda self, file, number: None)


@bug
def peer_stores_no_fence() -> None:
    """A proxy acknowledges what a peer fences, and does not fence it."""
    from hms_cache_proxy.consistency.peer_fences import PeerFences

    swap(PeerFences, "hold", lambda self, via, origin, targets: None)


@bug
def write_waits_for_no_peer() -> None:
    """A write leaves before any peer has acknowledged it. Leases are so long that none runs out meanwhile."""
    from hms_cache_proxy.peers import driver
    from hms_cache_proxy.peers.following import LONGEST_LEASE_NS
    from hms_cache_proxy.peers.outbox import PeerOutbox
    from hms_cache_proxy.peers.protocol import FleetTimes

    swap(PeerOutbox, "awaited", lambda self, one, now_ns: False)
    swap(driver, "fleet_times", lambda peers: FleetTimes(lease_ns=LONGEST_LEASE_NS, list_lag_ns=0))


@bug
def leases_for_ever() -> None:
    """A lease does not run out."""
    from hms_cache_proxy.peers.following import Following

    swap(Following, "lasts_until", lambda self, message, now_ns: now_ns + 10**15)


@bug
def lease_not_looked_at() -> None:
    """A read is answered from the cache without a lease."""
    from hms_cache_proxy.consistency.gate import Gate

    swap(Gate, "lapsed", staticmethod(lambda until_ns: False))


if "FLEET_TRACE" in os.environ:
    import fleet_trace

    fleet_trace.start(os.environ["FLEET_TRACE"])

if "FLEET_PLAY" in os.environ:
    import fleet_points

    fleet_points.start(os.environ["FLEET_PLAY"])


def plant(names: str) -> None:
    """End the process if that fails: after an exception from this module Python would go on, without the bug."""
    try:
        import planted_fences  # noqa: F401  # more bugs, in the same table
        import planted_fleet  # noqa: F401
        import planted_reliability  # noqa: F401
        import planted_visibility  # noqa: F401

        for name in names.split("+"):
            BUGS[name]()
    except BaseException:
        traceback.print_exc()
        os._exit(os.EX_CONFIG)


if "PLANTED_BUG" in os.environ:
    plant(os.environ["PLANTED_BUG"])

__all__ = ["BUGS", "swapped"]
