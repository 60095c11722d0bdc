"""What one step asks for many tables goes by statements that name many: their number does not grow with the tables."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from hms_cache_proxy.cache.entries import TableEntry
from hms_cache_proxy.cache.inventory import Inventory
from hms_cache_proxy.follower import cycle
from hms_cache_proxy.follower.limits import TABLES_PER_READ
from hms_cache_proxy.store.sql.store import open_sql_store
from hms_cache_proxy.wire import spec
from tests.follower.stepping import CATALOG, Catalog, Stepping, columns, new

FEW, MANY = 4, 40
SIZE = 7


def name(number: int) -> bytes:
    return b"t%03d" % number


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    with Catalog(tmp_path) as made:
        for number in range(MANY):
            made.table(name(number))
            made.add(name(number), [b"%03d" % place for place in range(SIZE)])
        yield made


class Counted(Stepping):
    """Counts the statements of its steps."""

    def __init__(self, directory: Path, catalog: Catalog, *, chunk: int = 10_000) -> None:
        answers = count()
        super().__init__(directory, open_sql_store(catalog.url, answered=lambda: void(next(answers))), chunk=chunk)
        self._answers = answers

    def statements(self) -> int:
        """Of the next step."""
        before = next(self._answers)
        self.step()
        return next(self._answers) - before - 1


def void(_: int) -> None:
    pass


def everything_is_right(stepping: Stepping, catalog: Catalog, tables: int = MANY) -> None:
    assert all(stepping.loaded(name(number)) for number in range(tables))
    for number in range(0, tables, 7):
        assert stepping.same(catalog, name(number)) > 0


def test_tables_that_are_loaded(catalog: Catalog, tmp_path: Path) -> None:
    assert MANY < TABLES_PER_READ
    with Counted(tmp_path / "many", catalog) as stepping:
        many = stepping.statements()
        stepping.settle()
        everything_is_right(stepping, catalog)
    for number in range(FEW, MANY):
        catalog.call("drop_table", dbname=b"d", name=name(number), deleteData=False)
    with Counted(tmp_path / "few", catalog) as stepping:
        few = stepping.statements()
        everything_is_right(stepping, catalog, FEW)
    assert many == few


def test_partitions_that_events_name(catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cycle, "WRITERS_INTERVAL_S", math.inf)  # one such look would count in the longer round only
    with Counted(tmp_path / "data", catalog) as stepping:
        stepping.settle()
        found = []
        for tables in (FEW, MANY):
            for number in range(tables):
                catalog.add(name(number), [b"added %d %d" % (tables, number)])
                catalog.alter(name(number), b"%03d" % (number % SIZE), changed=b"%d" % tables)
                drop = {"db_name": b"d", "tbl_name": name(number), "part_vals": [b"%03d" % (number % SIZE)]}
                if number % 3 == 0 and tables == MANY:
                    catalog.call("drop_partition", **drop, deleteData=False)
            found.append(stepping.statements())
        assert found[0] == found[1]
        everything_is_right(stepping, catalog)


def in_database(number: int) -> bytes:
    return b"d%03d" % number


def made_in(catalog: Catalog, database: bytes, table: bytes, **more: object) -> None:
    """A table without partitions."""
    storage = new("StorageDescriptor", cols=columns(2), location=b"s3://b/" + table, serdeInfo=new("SerDeInfo"))
    made = new("Table", tableName=table, dbName=database, sd=storage, partitionKeys=[], parameters={}, **more)
    catalog.call("create_table", tbl=made)


def test_tables_of_many_databases(catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their names are those of tables in other databases, too."""
    monkeypatch.setattr(cycle, "WRITERS_INTERVAL_S", math.inf)
    for number in range(MANY):
        catalog.call("create_database", database=new("Database", name=in_database(number)))
        for table in range(2):
            made_in(catalog, in_database(number), name(table), tableType=b"MANAGED_TABLE")
    with Counted(tmp_path / "data", catalog) as stepping:
        stepping.settle()
        found = []
        for databases in (FEW, MANY):
            for number in range(databases):
                made_in(catalog, in_database(number), b"%d" % databases, tableType=b"MANAGED_TABLE")
                drop = {"dbname": in_database(number), "name": name(0)}
                if number % 3 == 0 and databases == MANY:
                    catalog.call("drop_table", **drop, deleteData=False)
            found.append(stepping.statements())
        assert found[0] == found[1]
        for number in range(MANY):
            key = {"db_name": in_database(number)}
            with stepping.reader.snapshot() as snapshot:
                listed = Inventory(snapshot).tables(CATALOG, in_database(number))
                assert sorted(listed) == sorted(catalog.call("get_all_tables", **key))
                for one in listed:
                    entry = snapshot.table(CATALOG, in_database(number), one)
                    wanted = new("GetTableRequest", dbName=in_database(number), tblName=one)
                    assert isinstance(entry, TableEntry)
                    kept, _ = spec.decode(spec.struct("Table"), entry.body or b"", 0)
                    assert kept == catalog.call("get_table_req", req=wanted).table


def test_materialized_views(catalog: Catalog, tmp_path: Path) -> None:
    """Also one that reads another one."""
    with Counted(tmp_path / "data", catalog) as stepping:
        stepping.settle()
        found = []
        for views in (FEW, MANY):
            for number in range(views):
                view = b"view%d_%d" % (views, number)
                sources = {b"d." + name(number), b"d." + name(0)} | ({b"d.view4_0"} if views == MANY else set())
                metadata = new("CreationMetadata", catName=CATALOG, dbName=b"d", tblName=view, tablesUsed=sources)
                texts = {"viewOriginalText": b"select 1", "viewExpandedText": b"select 1"}
                made_in(catalog, b"d", view, tableType=b"MATERIALIZED_VIEW", creationMetadata=metadata, **texts)
            found.append(stepping.statements())
        assert 0 < found[1] - found[0] < 10  # the view that is a source, and its sources
        for views in (FEW, MANY):
            for number in range(views):
                view = b"view%d_%d" % (views, number)
                kept, _ = spec.decode(spec.struct("Table"), stepping.table(view).body or b"", 0)
                wanted = catalog.call("get_table_req", req=new("GetTableRequest", dbName=b"d", tblName=view)).table
                assert len(kept.creationMetadata.tablesUsed) > (number > 0) and kept == wanted


def test_tables_for_which_there_is_no_room_come_next(catalog: Catalog, tmp_path: Path) -> None:
    """A small table is never cut into chunks for that, and each step loads some."""
    with Stepping(tmp_path / "data", catalog, chunk=5 * SIZE - 1) as stepping:
        loaded = -1
        while sum(stepping.loaded(name(number)) for number in range(MANY)) < MANY:
            outcome = stepping.step()
            assert stepping.cycle.work is not None and not stepping.cycle.work.loads
            if outcome.partitions or loaded >= 0:
                before, loaded = loaded, sum(stepping.loaded(name(number)) for number in range(MANY))
                assert loaded > before
        everything_is_right(stepping, catalog)
