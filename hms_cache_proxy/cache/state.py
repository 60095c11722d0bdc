"""The state page: one 8 KiB file of u64 counters that every process maps and reads without a lock (60 ns).

Layout: 1,024 native-endian u64; slot N is at byte 8 * N. A slot has one kind of writer (named at each slot), and is
stored and loaded as one aligned 8-byte word, so a reader sees the old or the new value, never a mixture. Several slots
are not atomic together. Where two depend on each other, they are written in one order and read in the opposite order.

**Order.** A commit writes CACHE_SEQ first, then GENERATION, CURSOR, DONE_TICKET; the follower then writes BEGAN_NS, and
last BEGAN_BOOT_NS. A reader that decides by the page alone reads in the opposite order: BEGAN_BOOT_NS, BEGAN_NS,
DONE_TICKET and CURSOR before CACHE_SEQ. So if it sees a confirmation or a lifted fence, it also sees the sequence
number of the commit that came with it, and does not take a reply from before that commit for valid.

If a writer dies between its commit and its stores, readers see the older state as a whole: nothing newer is confirmed,
and no fence is lifted. The supervisor creates the page at each start, before any other process. Owner: see each slot.
Must not know: what the numbers decide.
"""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from time import CLOCK_BOOTTIME, clock_gettime_ns
from types import TracebackType
from typing import Final

from hms_cache_proxy.cache.mode import ModeReason
from hms_cache_proxy.errors import CacheError

PAGE_BYTES: Final = 8192
MODE_RELAY_ONLY: Final = 0
MODE_SERVE: Final = 1


class Slot:
    """The index of each counter. The follower writes all of them, except where noted. (They are plain numbers, because
    an index by a member of an enum costs four times as much.)

    17 and 19 are free; INCARNATION takes 40 and 41. No slot gets another number without need: a new version reads the
    page that the one before has left (suspension.left_on), and cannot if the format differs."""

    MAGIC = 0  # the format; set at creation
    CACHE_SEQ = 1  # sequence number of the last commit of the cache
    GENERATION = 2
    CURSOR = 3  # event id that the cache has reached
    DONE_TICKET = 4  # every ticket up to this one is done
    BEGAN_NS = 5  # when the last committed step began: time.monotonic_ns() before its snapshot's first statement
    CACHE_FILE = 6  # inode of the cache's data file; 0: there is none yet
    FENCE_SEQ = 7  # any process: the number of its last commit to the fences (consistency/fences.py)
    LEASE_UNTIL_NS = 8  # peers (0 at their death: supervisor): reads before it (CLOCK_BOOTTIME) may need no look
    UPSTREAM_EVENT = 9  # the last event id that was seen in the metastore's log
    SERVE_MODE = 10  # MODE_RELAY_ONLY or MODE_SERVE
    UNFENCED = 11  # workers (Suspension.report): odd while nothing may be answered from a cache; it only grows
    PREWARM_TABLES_DONE = 12
    PREWARM_TABLES_TOTAL = 13
    PREWARM_PARTITIONS_DONE = 14
    PREWARM_DONE = 15  # 1 once the prewarm of this generation is complete
    CACHE_BYTES = 16
    START_EVENT = 18  # the log's last event id at this start; nothing is served before CURSOR reaches it
    HEARTBEAT_NS = 20  # the follower's last sign of life, also in a long load or while the database is down
    DATABASES = 21  # objects in the cache
    TABLES = 22
    PARTITIONS = 23
    EXPECTED_EVENT = 24  # workers: the log must have reached this id, because a write that logs has succeeded
    DIFFERS = 25  # upstream.answer_differences: what differs from the rows, by the metastore's settings
    TRANSACTIONAL_TABLES = 26  # of TABLES, with write ids
    TABLES_BEING_WRITTEN = 27  # of those: an open transaction has changed them
    MODE_REASON = 28  # why SERVE_MODE is what it is
    READ_NS = 29  # workers: when reads that a cache can answer were last counted; while there are any, once a second
    FENCES_FILE = 30  # supervisor: inode of the data file of the fences that are used; 0: there are none yet
    FENCES_DAMAGED = 31  # any process: inode of one that it has found damaged
    FENCES_REPLACED = 32  # supervisor: how often it has replaced them
    HELD_UNTIL_NS = 33  # inside transactions of the fences: until then a write of unknown outcome may be carried out
    EXPIRED_NS = 34  # fences of workers that had died by then are among those of unknown outcome
    LOOKING_NS = 35  # when the last step began, done or not (consistency/looks.py)
    RELOADS = 36  # supervisor: how often it was told to reload files (SIGHUP)
    SETTINGS_REFUSED = 46  # supervisor: how often it could not read or keep the settings then
    GIVEN_UNTIL_NS = 37  # peers: until then (CLOCK_BOOTTIME) some other proxy may have a lease of this one
    PEERS_SETTLED = 38  # peers: 1 if writes may leave once the other proxies have acknowledged them
    PEERS_STARTED_NS = 39  # supervisor: when it started (CLOCK_BOOTTIME); 0: this proxy has no peers
    INCARNATION = 40  # supervisor: two words, random at each start
    PEERS_BEAT_NS = 42  # peers: its last sign of life; 0: it does not take part yet
    HITS = 43  # supervisor: of all workers since the start, as it last counted
    CACHEABLE_READS = 44  # the same: hits and misses
    BEGAN_BOOT_NS = 45  # the moment of BEGAN_NS on CLOCK_BOOTTIME, which goes on while the machine sleeps


MAX_WORKERS: Final = 256  # the most that the setting `workers` allows
FIRST_UNRECORDED: Final = 256  # first of one slot per worker: writes that it cannot record (consistency/suspension.py)
FIRST_BEAT: Final = 512  # the same: its last sign of life; 0: it accepts no connections yet (server/worker_states.py)
FIRST_CONNECTIONS: Final = 768  # the same: its client connections (server/worker_states.py)

_MAGIC: Final = int.from_bytes(b"hmsstat3", "little")  # changes with the layout


def boottime_ns() -> int:
    """The clock of ages and leases. It goes on while the machine sleeps; CLOCK_MONOTONIC, that of claims, fences and
    waits, stands still."""
    return clock_gettime_ns(CLOCK_BOOTTIME)


class StatePage:
    """The counters: `page[Slot.CURSOR]` reads, `page[Slot.CURSOR] = 5` writes."""

    __slots__ = ("_map", "_words", "path")

    def __init__(self, path: Path | str, *, create: bool = False) -> None:
        """Maps the page at `path`. `create` first creates it, with zeros (only while no other process has it)."""
        self.path = Path(path)
        if create:
            self._create()
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            raise CacheError(f"state page {self.path}: {error.strerror}") from error
        try:
            if os.fstat(descriptor).st_size != PAGE_BYTES:
                raise CacheError(f"state page {self.path} is not {PAGE_BYTES} bytes long")
            self._map = mmap.mmap(descriptor, PAGE_BYTES)
        finally:
            os.close(descriptor)
        self._words = memoryview(self._map).cast("Q")
        if self._words[Slot.MAGIC] != _MAGIC:
            raise CacheError(f"{self.path} is not a state page of this version")

    def _create(self) -> None:
        fresh = self.path.with_name(self.path.name + ".new")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, _MAGIC.to_bytes(8, "little").ljust(PAGE_BYTES, b"\0"))
        finally:
            os.close(descriptor)
        os.replace(fresh, self.path)

    def __getitem__(self, slot: int) -> int:
        return self._words[slot]

    def __setitem__(self, slot: int, value: int) -> None:
        self._words[slot] = value

    @property
    def words(self) -> memoryview:
        """The raw words, for hot paths: `page.words[slot]` without the method call."""
        return self._words

    @property
    def prewarmed(self) -> bool:
        """Whether everything is loaded, and whether it may be served is decided."""
        return self[Slot.PREWARM_DONE] == 1 and self[Slot.MODE_REASON] != ModeReason.STARTING

    def close(self) -> None:
        """Unmap the page."""
        self._words.release()
        self._map.close()

    def __enter__(self) -> StatePage:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
