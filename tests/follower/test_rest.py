"""A follower that finds nothing: what a look costs, what ends the rest, and how often it looks."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from hms_cache_proxy.cache import targets
from hms_cache_proxy.cache.state import Slot
from hms_cache_proxy.follower.cycle import SWEEP_INTERVAL_S
from hms_cache_proxy.follower.limits import BUSY_STEPS
from hms_cache_proxy.follower.pace import LOOK_INTERVAL_S, RECENT_S, Pace, may_look_s
from hms_cache_proxy.follower.sweep import TABLES_PER_STEP, Sweep
from hms_cache_proxy.store.protocol import LogEnd, RawStore, Snapshot, StoreIdentity
from hms_cache_proxy.store.sql.store import open_sql_store
from tests.follower.conftest import Follow
from tests.follower.stepping import CATALOG, DATABASE, Catalog, Stepping
from tests.store.statements import StatementProxy
from tests.testbed.metastore import Metastore

LOOKS = 12


class Counted(RawStore):
    """A store; how often it was looked at, and how often read. `is_replica`: what the server says of itself."""

    def __init__(self, store: RawStore) -> None:
        self._store = store
        self.looks = self.snapshots = 0
        self.is_replica = False

    @property
    def identity(self) -> StoreIdentity:
        return self._store.identity

    @contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        self.snapshots += 1
        with self._store.snapshot() as snapshot:
            yield snapshot

    def log_end(self) -> LogEnd:
        self.looks += 1
        return replace(self._store.log_end(), is_replica=self.is_replica)

    def close(self) -> None:
        self._store.close()


class Resting(Stepping):
    """A cache that has followed everything."""

    store: Counted

    def __init__(self, directory: Path, catalog: Catalog) -> None:
        super().__init__(directory, Counted(open_sql_store(catalog.url)))
        self.settle()
        self.rested()

    def rested(self) -> bool:
        """A step, which confirms the cache; had it nothing to read?"""
        before, looks, began_ns = self.store.snapshots, self.store.looks, time.monotonic_ns()
        self.step()
        assert self.page[Slot.BEGAN_NS] >= began_ns and self.store.looks <= looks + 1
        return self.store.snapshots == before


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    with Catalog(tmp_path) as made:
        made.table(b"t", partitioned=False)
        yield made


@pytest.fixture
def resting(tmp_path: Path, catalog: Catalog) -> Iterator[Resting]:
    with Resting(tmp_path / "data", catalog) as made:
        yield made


def test_nothing_is_read_while_nothing_changes(resting: Resting) -> None:
    looks = resting.store.looks
    assert all(resting.rested() for _ in range(LOOKS))
    assert resting.store.looks == looks + LOOKS


def test_an_event_is_followed_at_once(catalog: Catalog, resting: Resting) -> None:
    table = catalog.call("get_table", dbname=DATABASE, tbl_name=b"t")
    table.parameters[b"k"] = b"v"
    catalog.call("alter_table", dbname=DATABASE, tbl_name=b"t", new_tbl=table)
    assert not resting.rested()
    body = resting.table(b"t").body
    assert body is not None and b"v" in body
    assert resting.rested()


def test_a_log_that_always_has_something_new_is_read_without_a_look(catalog: Catalog, resting: Resting) -> None:
    looks = resting.store.looks
    for number in range(BUSY_STEPS + 3):
        catalog.table(b"n%d" % number, partitioned=False)
        assert not resting.rested()
    assert resting.store.looks == looks + BUSY_STEPS
    assert not resting.rested() and resting.rested()


def _described(catalog: Catalog, resting: Resting) -> None:
    """As Hive 4 does it, without an event."""
    _by_sql(catalog, 'UPDATE "DBS" SET "DESC" = \'other\'')


def _ticket(catalog: Catalog, resting: Resting) -> None:
    resting.fences.ticket([targets.table(CATALOG, DATABASE, b"t")])


def _replica(catalog: Catalog, resting: Resting) -> None:
    resting.store.is_replica = True


def _distrust(catalog: Catalog, resting: Resting) -> None:
    resting.cycle.distrust()


def _other_history(catalog: Catalog, resting: Resting) -> None:
    _by_sql(catalog, 'UPDATE "NOTIFICATION_LOG" SET "EVENT_TIME" = "EVENT_TIME" + 1')


def _purged(catalog: Catalog, resting: Resting) -> None:
    _by_sql(catalog, 'DELETE FROM "NOTIFICATION_LOG"')


def _by_sql(catalog: Catalog, statement: str) -> None:
    with closing(sqlite3.connect(catalog.file, timeout=60)) as connection, connection:
        connection.execute(statement)


@pytest.mark.parametrize("happens", [_described, _ticket, _replica, _distrust, _other_history, _purged])
def test_what_ends_the_rest(catalog: Catalog, resting: Resting, happens: Callable[[Catalog, Resting], None]) -> None:
    assert resting.rested()
    happens(catalog, resting)
    assert not resting.rested()


def test_the_sweep_is_no_faster_for_more_looks(catalog: Catalog, resting: Resting) -> None:
    for number in range(2 * TABLES_PER_STEP):
        catalog.table(b"s%d" % number, partitioned=False)
    resting.settle()
    resting.cycle._sweep = Sweep(3600.0, time.monotonic() - 3600)
    began_s, read = time.monotonic(), 0
    while read == 0 or resting.cycle._sweep.under_way:
        read += not resting.rested()
    assert read == 3 and time.monotonic() - began_s >= 2 * SWEEP_INTERVAL_S


def test_how_often_an_idle_follower_looks() -> None:
    """With the default settings: 20 times a second at most within a minute of an event or a read, 8 times beyond."""
    pace = Pace.of(20, 125, freshness_ms=10_000)
    now_s, event_s, looks = 0.0, 0.0, []
    pause_s = pace.after(changed=True, more=False)
    while now_s < 3 * RECENT_S:
        now_s += pause_s
        looks.append(now_s)
        pause_s = pace.after(changed=False, more=False, quiet_s=now_s - event_s)
    pauses = [after - before for before, after in zip(looks, looks[1:], strict=False)]
    recent = [pause for pause, at_s in zip(pauses, looks, strict=False) if 1 < at_s < RECENT_S - 1]
    beyond = [pause for pause, at_s in zip(pauses, looks, strict=False) if at_s > RECENT_S + 1]
    assert {round(pause, 6) for pause in recent} == {0.05}
    assert {round(pause, 6) for pause in beyond} == {0.125}
    assert pace.after(changed=False, more=False, quiet_s=0.5) == 0.05  # somebody reads
    assert pace.after(changed=True, more=False) == 0.02


def test_the_longest_pause_bounds_both() -> None:
    """Whoever has set it for the load of many proxies has it kept; nothing is shorter than the shortest."""
    rare = Pace.of(20, 5000, freshness_ms=60_000)
    assert [rare.after(changed=False, more=False, quiet_s=1.0) for _ in range(12)][-1] == 2.0
    assert [rare.after(changed=False, more=False) for _ in range(3)][-1] == 5.0
    even = Pace.of(100, 100, freshness_ms=60_000)
    assert {even.after(changed=False, more=False, quiet_s=quiet_s) for quiet_s in (0.0, 1.0, 1e9)} == {0.1}


@pytest.mark.real
def test_an_idle_follower_sends_a_statement_for_each_look(hms42: Metastore, follow: Follow) -> None:
    """At most 20 a second, each of them alone; now and then one reads, in a transaction."""
    assert hms42.database is not None
    with StatementProxy(hms42.database.host, hms42.database.port) as proxy:
        url = hms42.database.behind("127.0.0.1", proxy.port).reader_url
        followed = follow(hms42, store_url=url, include=["nothing.nothing"])
        followed.loaded()
        began_s = time.monotonic()
        proxy.statements.clear()
        followed.until(lambda: len(proxy.statements) >= 3 * LOOKS)
        looks, took_s = proxy.statements[:], time.monotonic() - began_s
    assert len(looks) <= 20 * took_s + 5
    assert sum(look.startswith("SELECT") for look in looks) > 2 * LOOKS, looks


def test_looks_that_are_asked_for_all_the_time() -> None:
    """Fewer than 300 a second begin, and after a long one there is time to ask for the next."""
    assert may_look_s(100.0, 100.0) == 100.0 + LOOK_INTERVAL_S > 100.0 + 1 / 300
    assert may_look_s(100.0, 100.0 + LOOK_INTERVAL_S / 4) == 100.0 + LOOK_INTERVAL_S
    assert may_look_s(100.0, 100.5) == 100.5 + LOOK_INTERVAL_S
