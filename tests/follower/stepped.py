"""A follower's steps in the test's own process, one at a time, over the database of a metastore that runs.

Job: `Stepping` (stepping.py) over that database, as a worker's data directory, and what happens while a step is under
way. Must not know: the loop, the pace, what is served.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from hms_cache_proxy.cache.state import MODE_SERVE, Slot
from hms_cache_proxy.config import load
from hms_cache_proxy.follower.step_states import StepOutcome
from hms_cache_proxy.store.protocol import LogEnd, RawStore, Snapshot, StoreIdentity
from hms_cache_proxy.store.sql.store import SqlSnapshot, open_sql_store
from tests.follower.harness import LONG_MS
from tests.follower.stepping import Stepping
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

    def log_end(self) -> LogEnd:
        end = self._store.log_end()
        return replace(end, is_replica=self.is_replica or self.meanwhile is not None)  # then a snapshot is taken

    def close(self) -> None:
        self._store.close()


class Stepped(Stepping):
    """The cache of a running metastore, in a data directory as a worker finds it."""

    store: Overtaken

    def __init__(self, directory: Path, metastore: Metastore) -> None:
        assert metastore.database is not None
        given = {"data_dir": str(directory), "store_url": metastore.database.reader_url, "upstream": metastore.uri}
        self.config = load(cli={**given, "max_unconfirmed_ms": LONG_MS})
        super().__init__(directory, Overtaken(open_sql_store(self.config.store_url)), chunk=CHUNK)
        self.page[Slot.SERVE_MODE] = MODE_SERVE

    def caught_up(self) -> StepOutcome:
        """Steps until nothing is left to load; the first one's outcome."""
        first = outcome = self.step()
        while outcome.more:
            outcome = self.step()
        return first
