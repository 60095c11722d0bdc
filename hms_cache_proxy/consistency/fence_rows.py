"""Rows of the fences environment: fences, tickets and counters in LMDB, and how tickets are numbered.

    b"m"                 META: last ticket, taken, lifted, next fence id
    b"c"                 u64 number of the last commit that changed a fence
    b"b"                 boot id
    b"f" u64 fence id    FENCE: state, ticket, until_ns, owner's pid and start; then the targets
    b"t" u64 ticket      targets to reload
    b"w" target          u64 the last ticket for this target (absent: done)
    b"l" i64 lock id     u64 monotonic ns when it was granted; then the targets
    b"j" u64 pid         u64 fence id: over everything until this process has joined (consistency/replacement.py)
    b"s" u64 ticket      targets of a write that logs no event (only where there are peers)
    b"S"                 u64 the last ticket whose b"s" row was dropped
    b"p", b"P"           consistency/peer_fences.py
    b"n", b"N"           consistency/notes.py

All numbers are big-endian. The functions work in a transaction that the caller has begun. Must not know the state page.
Owner: any process (consistency/fences.py says which may do what).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from struct import Struct
from typing import Any, Final

import lmdb

from hms_cache_proxy.cache.environment import (
    DAMAGE,
    DamagedFile,
    boot_id,
    check_length,
    condemned,
    lengthen,
    reserve_readers,
    take_clean_marker,
    translated,
)
from hms_cache_proxy.cache.layout import version_key
from hms_cache_proxy.cache.lock_file import MAX_READERS
from hms_cache_proxy.cache.targets import ALL, Target, whole
from hms_cache_proxy.cache.targets import UNKNOWN as ANYTHING
from hms_cache_proxy.errors import CacheError

MAP_BYTES: Final = 1 << 30
INFINITE: Final = (1 << 64) - 1

UNBOUND, FINITE, UNKNOWN = range(3)
_META: Final = Struct(">QQQQ")
_FENCE: Final = Struct(">BQQIQ")
NUMBER: Final = Struct(">Q")
LOCK_ID: Final = Struct(">q")
_LENGTH: Final = Struct(">H")
LONGEST_BYTES: Final = 0xFFFF
"""Of a target."""


@dataclass(frozen=True, slots=True)
class Counters:
    """`taken`: the last ticket that the follower has taken. `lifted`: the largest ticket of a deleted fence."""

    last_ticket: int
    taken: int
    lifted: int
    next_fence: int


@dataclass(frozen=True, slots=True)
class Fence:
    """`ticket` is used if the state is FINITE; `pid` and `start`, the owner, if it is UNBOUND (infinite); `until_ns`,
    when `expire` ends it, if it is not FINITE."""

    state: int
    ticket: int
    until_ns: int
    pid: int
    start: int
    targets: tuple[Target, ...]

    def pack(self) -> bytes:
        return _FENCE.pack(self.state, self.ticket, self.until_ns, self.pid, self.start) + pack_targets(self.targets)

    @classmethod
    def unpack(cls, row: bytes) -> Fence:
        state, ticket, until_ns, pid, start = _FENCE.unpack_from(row)
        return cls(state, ticket, until_ns, pid, start, unpack_targets(row[_FENCE.size :]))

    @property
    def lifted_by(self) -> int:
        """The `done_ticket` that lifts the fence."""
        return self.ticket if self.state == FINITE else INFINITE


def open_environment(path: Path, *, create: bool = True) -> Any:
    """Open it, or create it. Raises CacheError, DamagedFile where the file is to blame."""
    if create:
        path.mkdir(mode=0o700, exist_ok=True)
    with translated(path):
        env = lmdb.open(
            str(path),
            map_size=MAP_BYTES,
            mode=0o600,
            sync=False,
            create=create,
            max_readers=MAX_READERS,
            max_spare_txns=4,
        )
        try:
            reserve_readers(path)
            check_length(env, path)
            with env.begin(write=True):  # one process at a time: a late one would cut off what another has written
                lengthen(env, path)
        except (CacheError, lmdb.Error):
            env.close()
            raise
    return env


def trusted(path: Path) -> bool:
    """Whether the records are those that were last written: same run of the machine, or an orderly stop; and nobody
    has found them damaged."""
    vouched = take_clean_marker(path)
    if condemned(path) is not None:
        return False
    try:
        env = open_environment(path)
    except DamagedFile:
        return False
    try:
        with env.begin() as txn:
            boot = (txn.get(b"b") or b"").decode()
            return txn.get(b"m") is not None and (vouched == txn.id() or (boot != "" and boot == boot_id()))
    except DAMAGE:
        return False
    finally:
        env.close()


def initialise(txn: Any, *, last_ticket: int = 0, last_change: int = 0) -> None:
    """Numbers begin at the clock: above any that an earlier environment gave; and above these."""
    now = time.time_ns() // 1000
    txn.put(b"m", _META.pack(max(now, last_ticket), 0, 0, now))
    txn.put(b"b", boot_id().encode())
    if last_change:
        txn.put(b"c", NUMBER.pack(last_change))


def counters(txn: Any) -> Counters:
    """The counters."""
    row = txn.get(b"m")
    if row is None:
        raise DamagedFile("the fences have no meta record")
    return Counters(*_META.unpack(row))


def put_counters(txn: Any, meta: Counters) -> None:
    """Writes the counters."""
    txn.put(b"m", _META.pack(meta.last_ticket, meta.taken, meta.lifted, meta.next_fence))


def next_change(txn: Any) -> int:
    """A unique number for a commit that changes fences. It is written in the commit itself."""
    row = txn.get(b"c")
    number: int = 1 if row is None else NUMBER.unpack(row)[0] + 1
    txn.put(b"c", NUMBER.pack(number))
    return number


def rows(txn: Any, tag: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Rows of one kind, in order of their keys."""
    with txn.cursor() as cursor:
        if cursor.set_range(tag):
            for key, row in cursor.iternext():
                if not key.startswith(tag):
                    return
                yield key, row


def fences_in(txn: Any) -> list[tuple[bytes, Fence]]:
    """Every fence with its key."""
    return [(key, Fence.unpack(row)) for key, row in rows(txn, b"f")]


def wanted(txn: Any) -> set[Target]:
    """The targets of all tickets that are not done."""
    return {target for _, row in rows(txn, b"t") for target in unpack_targets(row)}


def _wish(target: Target) -> bytes:
    return version_key(b"w" + target)


def shared_ticket(txn: Any, meta: Counters, targets: Sequence[Target]) -> int | None:
    """The last ticket, if all `targets` have tickets that the follower has not taken yet; only such a ticket may be
    shared."""
    last = 0
    for target in targets:
        row = txn.get(_wish(target))
        if row is None or (number := NUMBER.unpack(row)[0]) <= meta.taken:
            return None
        last = max(last, number)
    return last or None


def take_ticket(txn: Any, targets: Sequence[Target]) -> int:
    """A ticket for these targets. Its number is assigned in the caller's write transaction."""
    targets = storable(targets)
    meta = counters(txn)
    shared = shared_ticket(txn, meta, targets)
    if shared is not None:
        return shared
    number = meta.last_ticket + 1
    put_counters(txn, replace(meta, last_ticket=number))
    row = NUMBER.pack(number)
    txn.put(b"t" + row, pack_targets(targets))
    for target in targets:
        txn.put(_wish(target), row)
    return number


def add_fence(txn: Any, fence: Fence) -> int:
    """A new record; gives the fence's id."""
    meta = counters(txn)
    txn.put(b"f" + NUMBER.pack(meta.next_fence), fence.pack())
    put_counters(txn, replace(meta, next_fence=meta.next_fence + 1))
    return meta.next_fence


def finite(txn: Any, fence: Fence) -> Fence:
    """The fence with a ticket: it stands until its targets have been reloaded."""
    return replace(fence, state=FINITE, ticket=take_ticket(txn, fence.targets))


def note_unlogged(txn: Any, ticket: int, targets: Sequence[Target]) -> None:
    """A write of this proxy logs no event: peers that were cut off are told of it later."""
    txn.put(b"s" + NUMBER.pack(ticket), pack_targets(targets))


def drop_unlogged(txn: Any, kept: int) -> None:
    """Forget such writes but for the last ones."""
    old = [key for key, _ in rows(txn, b"s")][:-kept]
    for key in old:
        txn.delete(key)
    if old:
        txn.put(b"S", old[-1][1:])


def drop_locks(txn: Any, kept: int) -> None:
    """Forget locks that waited but for the last ones."""
    asked = sorted((row[: NUMBER.size], key) for key, row in rows(txn, b"l"))
    for _, key in asked[:-kept]:
        txn.delete(key)


def merge_finite(txn: Any, most: int) -> None:
    """One fence takes the place of all finite ones, and one ticket that of all tickets. With more targets than `most`,
    they are for all partitions of the tables of those that are named, or for everything. No step may be under way, as
    it has taken the old ones."""
    asked, fenced = wanted(txn), set[Target]()
    for key, fence in fences_in(txn):
        if fence.state == FINITE:
            fenced.update(fence.targets)
            txn.delete(key)
    for key, _ in list(rows(txn, b"t")):
        forget_ticket(txn, key)
    if len(asked) > most or len(fenced) > most:
        asked, fenced = set(map(whole, asked)), set(map(whole, fenced))
    if len(asked) > most or len(fenced) > most:
        asked, fenced = {ALL}, {ALL}
    ticket = take_ticket(txn, sorted(asked))
    if fenced:
        add_fence(txn, Fence(FINITE, ticket, 0, 0, 0, tuple(sorted(fenced))))


def forget_ticket(txn: Any, key: bytes) -> None:
    """Deletes a ticket that is done."""
    row = txn.get(key)
    if row is None:
        return
    for target in unpack_targets(row):
        if txn.get(_wish(target)) == key[1:]:
            txn.delete(_wish(target))
    txn.delete(key)


def storable(targets: Sequence[Target]) -> Sequence[Target]:
    """The targets as a row can have them. No metastore has anything with so long a name, but a client may ask for it:
    what that does is unknown."""
    return [target if len(target) <= LONGEST_BYTES else ANYTHING for target in targets]


def pack_targets(targets: Sequence[Target]) -> bytes:
    """Packs targets, each with its length."""
    return b"".join(_LENGTH.pack(len(target)) + target for target in storable(targets))


def unpack_targets(row: bytes) -> tuple[Target, ...]:
    """The inverse of `pack_targets`."""
    targets, at = [], 0
    while at < len(row):
        end = at + 2 + _LENGTH.unpack_from(row, at)[0]
        targets.append(row[at + 2 : end])
        at = end
    return tuple(targets)
