"""CacheReader: how a process finds the cache, and what it keeps between snapshots.

The state page says which file to read (slot CACHE_FILE). A rebuilt cache is a new file, and every process changes to it
with its next snapshot. A reader opens no file before there is a cache.

Must not know: what is in a snapshot (cache/snapshot.py), whether an answer may be served. Owner: one thread per reader.
"""

from __future__ import annotations

import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import lmdb
import structlog

from hms_cache_proxy.cache import environment as files
from hms_cache_proxy.cache import layout
from hms_cache_proxy.cache.entries import DatabaseEntry
from hms_cache_proxy.cache.environment import Environment
from hms_cache_proxy.cache.identity import identity_unpack
from hms_cache_proxy.cache.joiner import Joiners
from hms_cache_proxy.cache.last_used import LastUsed
from hms_cache_proxy.cache.layout import Meta
from hms_cache_proxy.cache.snapshot import CacheSnapshot
from hms_cache_proxy.cache.state import Slot, StatePage
from hms_cache_proxy.cache.statistics import StatisticsDecoder
from hms_cache_proxy.cache.streams import Streams
from hms_cache_proxy.errors import CacheError
from hms_cache_proxy.store.protocol import StoreIdentity

_OF_THE_FILE: Final = (lmdb.CorruptedError, lmdb.PageNotFoundError, lmdb.BadTxnError, zlib.error)
_MAX_KEYS_REMEMBERED: Final = 4096
_KEPT_DECODERS: Final = 256  # sets for which a process remembers the columns of their statistics
_TAGS: Final = (b"d", b"n", b"t", b"s", b"c", b"w", b"k", b"f", b"a", b"u", b"x", b"o")

_log = structlog.get_logger()


class CacheReader:
    """Opens snapshots. Keeps between them what is costly to make again (resolved templates, the last meta record)."""

    def __init__(self, path: Path, page: StatePage, uses: Path | None = None) -> None:
        """`uses`: the file that records when tables were last read."""
        self.uses = LastUsed(uses)
        self._path = path
        self._words = page.words
        self._environment: Environment | None = None
        self._inode = self._condemned = 0
        self._meta_row = b""
        self._meta = Meta()
        self.identity: StoreIdentity | None = None
        """The store of the cache, as of the last snapshot; None before the first."""
        self._keys: dict[bytes, tuple[tuple[bytes, bytes], ...]] = {}
        self._decoders: dict[int, StatisticsDecoder] = {}
        self.joiners = Joiners()
        self.streams = Streams()
        self.seen_seq = 0
        self.prefixes: dict[bytes, bytes] = {}  # of the last snapshot's generation
        self.databases: dict[bytes, DatabaseEntry] = {}  # those that were read in the last snapshot's commit

    def current_seq(self) -> int:
        """The sequence number that a kept reply must have to be valid without a look at the cache (100 ns).

        The page may lag behind a commit that this reader has already seen in a snapshot; its clients must not go back.
        """
        published: int = self._words[Slot.CACHE_SEQ]
        return published if published > self.seen_seq else self.seen_seq

    def snapshot(self) -> CacheSnapshot:
        """The cache as of its last commit. Raises CacheError if there is no cache, or if it cannot be read."""
        if self._words[Slot.CACHE_FILE] != self._inode or self._environment is None:
            self._move_over()
        assert self._environment is not None
        txn: Any = None
        try:
            txn = self._environment.env.begin()
            return CacheSnapshot(self, self._environment, txn)
        except lmdb.Error as error:
            if txn is not None:
                txn.abort()
            raise self.failed(error) from error

    def failed(self, error: Exception) -> CacheError:
        """The CacheError for an error that was met while the cache was read. What can only be a damaged file condemns
        it, once: the follower rebuilds it. A single row that cannot be decoded does not."""
        if isinstance(error, _OF_THE_FILE) and self._inode != self._condemned:
            self._condemned = self._inode
            _log.error("the cache is damaged", file=str(self._path), error=str(error))
            with suppress(OSError):  # no room for the mark: these reads are relayed
                if self._words[Slot.CACHE_FILE] == self._inode:
                    files.condemn(self._path, f"it is damaged: {error}")
        return CacheError(f"the cache cannot be read: {error}")

    def close(self) -> None:
        """Closes the file. Snapshots must be closed before. Streams go on with copies, if there is room for these."""
        self.streams.cut_off()
        if self._environment is not None:
            self._environment.detach()
            self._environment = None
            self._inode = 0

    def meta_of(self, environment: Environment, txn: Any) -> Meta:
        """The meta record of a transaction, parsed once for each commit. The rows are compared, not the transactions'
        ids: a reader that begins while the writer commits twice can see the later commit under the earlier id."""
        row = txn.get(layout.META_KEY, db=environment.meta)
        if row != self._meta_row:
            self._meta = Meta.unpack(row)
            self._meta_row = row
            self.databases = {}
            self.prefixes = {tag: layout.objects_prefix(self._meta.generation, tag) for tag in _TAGS}
            if self._meta.seq > self.seen_seq:
                self.seen_seq = self._meta.seq
        return self._meta

    def decoder(self, set_number: int) -> StatisticsDecoder:
        """The decoder of a set's statistics, which remembers their columns."""
        found = self._decoders.get(set_number)
        if found is None:
            if len(self._decoders) >= _KEPT_DECODERS:
                del self._decoders[next(iter(self._decoders))]
            found = self._decoders[set_number] = StatisticsDecoder()
        return found

    def keys_of(self, row: bytes) -> tuple[tuple[bytes, bytes], ...]:
        """Partition keys from their packed form. Results are remembered."""
        keys = self._keys.get(row)
        if keys is None:
            if len(self._keys) >= _MAX_KEYS_REMEMBERED:
                self._keys.clear()
            keys = self._keys[row] = layout.partition_keys_unpack(row)
        return keys

    def _move_over(self) -> None:
        inode = self._words[Slot.CACHE_FILE]
        if inode == 0:
            raise CacheError("there is no cache yet")
        self.close()
        environment = files.attach(self._path)
        if environment.inode != inode:
            environment.detach()
            raise CacheError("the cache is being rebuilt")
        self._environment, self._inode, self._meta_row = environment, inode, b""
        self.joiners.clear()
        self._decoders.clear()
        try:
            with environment.env.begin() as txn:
                row = txn.get(layout.IDENTITY_KEY, db=environment.meta)
            if row is None:
                raise CacheError("the cache has no identity record")
            self.identity = identity_unpack(row)
        except (lmdb.Error, CacheError) as error:
            problem = self.failed(error)
            self.close()  # the next snapshot opens it again
            raise problem from error
        self.joiners.with_catalog = self.identity.hive_line != "2.3"
