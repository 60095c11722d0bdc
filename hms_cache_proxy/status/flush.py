"""POST /admin/flush: fences the named objects, and has the follower read them again.

A flush is a fence that only waits for the follower: once the flush is answered, calls about the objects go to the
metastore until a step of the follower that began later has read them. It also works for objects that the cache does not
know, so it finds a table that was created without an event. Where the log is followed, a flush is as coarse as targets
are: that of a partition reads its whole table. In TTL mode it invalidates only that partition and the lists that may
contain it. Owner: threads of the supervisor. Locks keep them apart from each other, and from the supervisor's loop,
which opens the fences and TTL mode's cache again after damage.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Sequence

from hms_cache_proxy.cache import targets
from hms_cache_proxy.cache.reader import CacheReader
from hms_cache_proxy.cache.state import Slot, StatePage
from hms_cache_proxy.cache.ttl import TtlCache
from hms_cache_proxy.config import Config, paths
from hms_cache_proxy.consistency.fences import FenceStore
from hms_cache_proxy.consistency.names import write_name
from hms_cache_proxy.errors import CacheError
from hms_cache_proxy.methods.ttl.members import flushed

STUCK_S = 3.0  # a flush of TTL mode's cache takes less than a millisecond
WAIT_S = 5.0  # how long the answer waits for the reload; the fence stays until the reload is done
_POLL_S = 0.005


class Flusher:
    """`fences` is None if no log is followed; `ttl` is None without TTL mode."""

    def __init__(self, config: Config, page: StatePage, fences: FenceStore | None, ttl: TtlCache | None) -> None:
        self._config = config
        self._page = page
        self._fences = fences
        self._ttl = ttl
        self.lock = threading.Lock()
        """Held while the fences are used here."""
        self._ttl_lock = threading.Lock()

    def flush(self, catalog: str, database: str | None, table: str | None, partition: str | None) -> dict[str, object]:
        """Targets, ticket, and whether the reload is done. Raises CacheError if nothing is cached at all."""
        if self._fences is None and self._ttl is None:
            raise CacheError("nothing is cached: store = none")
        owner = write_name(catalog.encode()) or b""
        where = write_name(database.encode()) if database is not None else None
        which = write_name(table.encode()) if table is not None else None
        names = self._targets(owner, where, which)
        if self._ttl is not None:
            gone: Sequence[bytes] = names
            if partition is not None and where is not None and which is not None:
                gone = flushed((owner, where, which), partition.encode())
            with self._ttl_lock:
                self._ttl.invalidate(gone)
        if self._fences is None:
            return {"targets": len(set(names)), "ticket": 0, "done": True}
        with self.lock:
            self._fences.ticket(names)
            ticket = self._fences.fence_now(names)  # its number is later, so it is lifted when the reload is done, too
        self._wake()
        deadline = time.monotonic() + WAIT_S
        while self._page[Slot.DONE_TICKET] < ticket and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        return {"targets": len(set(names)), "ticket": ticket, "done": self._page[Slot.DONE_TICKET] >= ticket}

    def renew(self) -> None:
        """Open TTL mode's cache with a new lock file, when no flush uses it. No other process may have it open. A
        flush that takes longer than STUCK_S waits for ever, for a writer that has died with its lock. Raises CacheError
        or OSError."""
        assert self._ttl is not None, "without TTL mode nothing is to be opened"
        free = self._ttl_lock.acquire(timeout=STUCK_S)
        try:
            self._ttl.renew()
        finally:
            if free:
                self._ttl_lock.release()

    def _targets(self, catalog: bytes, database: bytes | None, table: bytes | None) -> list[bytes]:
        if database is None:
            return [targets.ALL]
        if table is not None:
            return _of_table(catalog, database, table)
        whole = [targets.databases(catalog), targets.database(catalog, database)]
        whole += [targets.tables(catalog, database), targets.FUNCTIONS]
        if self._fences is None:
            return whole  # in TTL mode the entries of a table depend on its database
        for name in self._cached(catalog, database):
            whole += _of_table(catalog, database, name)
        return whole

    def _cached(self, catalog: bytes, database: bytes) -> list[bytes]:
        """The cached tables of the database; other tables are read when they are requested."""
        reader = CacheReader(paths.cache(self._config), self._page)
        try:
            with reader.snapshot() as snapshot:
                return [name for name, *_ in snapshot.table_list(catalog, database) or []]
        finally:
            reader.close()

    def _wake(self) -> None:
        """Wake the follower. A lost byte costs at most one poll interval."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as wake, contextlib.suppress(OSError):
            wake.setblocking(False)
            wake.sendto(b"\n", str(paths.follower_socket(self._config)))


def _of_table(catalog: bytes, database: bytes, table: bytes) -> list[bytes]:
    """The targets of the table, of all its partitions, and of the list of tables."""
    return [
        targets.table(catalog, database, table),
        targets.partitions(catalog, database, table),
        targets.tables(catalog, database),
    ]
