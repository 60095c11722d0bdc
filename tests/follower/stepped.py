"""A follower's steps in the test's own process, one at a time, over the database of a metastore.

Job: what a worker and a follower hold open, the cycle between them, and what happens while a step is under way. Must
not know: the loop, the pace, what is served.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from hms_cache_proxy.cache.reader import CacheReader
from hms_cache_proxy.cache.state import MODE_SERVE, Slot, StatePage
from hms_cache_proxy.cache.writer import CacheWriter
from hms_cache_proxy.config import load, paths
from hms_cache_proxy.consistency.fences import FenceStore
from hms_cache_proxy.follower.cycle import Cycle, StepSettings
from hms_cache_proxy.follower.step_states import StepOutcome
from hms_cache_proxy.store.protocol import RawStore, Snapshot, StoreIdentity
from hms_cache_proxy.store.sql.store import SqlSnapshot, open_sql_store
from tests.testbed.closing import Closing
from tests.testbed.metastore import Metastore

CHUNK = 1000


class Overtaken(RawStore):
    """A store; `meanwhile` happens between the next snapshot's last statement and the commit of its step. `is_replica`:
    what the server says of itself from now on."""

    def __init__(self, store: RawStore) -> None:
        self._store = store
        self.meanwhile: Callable[[], object] | None = None
        self.is_replica = False

    @property
    def identity(self) -> StoreIdentity:
        return self._store.identity

    @contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        with self._store.snapshot() as snapshot:
            assert isinstance(snapshot, SqlSnapshot)
            snapshot._is_replica = self.is_replica
            yield snapshot
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            meanwhile()

    def close(self) -> None:
        self._store.close()


class Stepped(Closing):
    """The data directory, its files as a worker has them, and the cycle."""

    def __init__(self, directory: Path, metastore: Metastore) -> None:
        assert metastore.database is not None
        self.config = load(
            cli={"data_dir": str(directory), "store_url": metastore.database.reader_url, "upstream": metastore.uri}
        )
        directory.mkdir(mode=0o700, exist_ok=True)
        self.page = StatePage(paths.state(self.config), create=True)
        self.fences = FenceStore(paths.fences(self.config), self.page)
        self.store = Overtaken(open_sql_store(self.config.store_url))
        self.writer = CacheWriter.open(paths.cache(self.config), self.page, self.store.identity)
        self.reader = CacheReader(paths.cache(self.config), self.page)
        settings = StepSettings(self.config.selection, 1 << 30, CHUNK)
        self.cycle = Cycle(self.store, self.writer, self.reader, self.fences, self.page, settings)
        self.page[Slot.SERVE_MODE] = MODE_SERVE

    def step(self) -> StepOutcome:
        """One step."""
        return self.cycle.step(CHUNK)

    def caught_up(self) -> StepOutcome:
        """Steps until nothing is left to load; the first one's outcome."""
        first = outcome = self.step()
        while outcome.more:
            outcome = self.step()
        return first

    def close(self) -> None:
        """Close the files."""
        self.reader.close()
        self.writer.close()
        self.store.close()
        self.fences.close()
        self.page.close()
