"""Values in the metastore's database that no metastore can return: the database's fault, and not the cache's, which
the follower reads in the same step. Because of one partition, no partition of its table is cached."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from hms_cache_proxy.cache.environment import condemned
from hms_cache_proxy.errors import StoreError
from hms_cache_proxy.follower.load_queue import UNFIT
from tests.follower.stepping import DATABASE, Catalog, Stepping

FOREVER_S = 1 << 40


def changed(catalog: Catalog, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(catalog.file, timeout=60)) as connection, connection:
        connection.execute(statement, values)


def written(catalog: Catalog, value: int | str) -> None:
    """A write id by SQL. SQLite stores a text in a column of numbers."""
    changed(catalog, 'UPDATE "TBLS" SET "WRITE_ID" = ?', value)


def made_at(catalog: Catalog, partition: str, time_s: int) -> None:
    changed(catalog, 'UPDATE "PARTITIONS" SET "CREATE_TIME" = ? WHERE "PART_NAME" = ?', time_s, partition)


def test_it_is_an_error_of_the_store(tmp_path: Path) -> None:
    with Catalog(tmp_path) as catalog, Stepping(tmp_path / "data", catalog) as stepping:
        made = catalog.table(b"t")
        stepping.settle()
        generation = stepping.writer.meta.generation
        written(catalog, "many")
        catalog.events(1, kind="CREATE_TABLE")
        for _ in range(2):
            with pytest.raises(StoreError, match="that a metastore cannot return"):
                stepping.step()
        assert condemned(tmp_path / "data" / "cache") is None
        written(catalog, 0)
        made.parameters[b"a"] = b"1"
        catalog.call("alter_table", dbname=b"d", tbl_name=b"t", new_tbl=made)
        stepping.settle()
        assert stepping.loaded(b"t") and stepping.writer.meta.generation == generation


def test_a_location_and_a_type_longer_than_any_that_a_metastore_stores(tmp_path: Path) -> None:
    """Only the embedded metastore's SQLite stores them. The cache was taken for damaged, made again, and so on."""
    with Catalog(tmp_path) as catalog, Stepping(tmp_path / "data", catalog) as stepping:
        made = catalog.table(b"t")
        made.sd.location = b"s3://bucket/" + b"x" * 70_000
        catalog.call("alter_table", dbname=DATABASE, tbl_name=b"t", new_tbl=made)
        changed(catalog, 'UPDATE "TBLS" SET "TBL_TYPE" = ?', "T" * 70_000)
        stepping.settle()
        entry = stepping.table(b"t")
        assert (entry.location, entry.table_type) == (made.sd.location, b"T" * 70_000) and stepping.loaded(b"t")


@pytest.mark.parametrize("chunk", [10_000, 2])
def test_a_partition_that_cannot_be_held_is_read_once(tmp_path: Path, chunk: int) -> None:
    """Not all partitions again with each event about the table: only if that one may have changed."""
    with Catalog(tmp_path) as catalog, Stepping(tmp_path / "data", catalog, chunk=chunk) as stepping:
        made = catalog.table(b"t")
        catalog.add(b"t", [b"a", b"b", b"c"])
        made_at(catalog, "p=b", FOREVER_S)
        stepping.settle()
        assert stepping.table(b"t").reason_not_loaded == UNFIT
        made.parameters[b"a"] = b"1"
        events = (
            lambda: catalog.add(b"t", [b"d"]),
            lambda: catalog.alter(b"t", b"a", changed=b"1"),
            lambda: catalog.call("alter_table", dbname=DATABASE, tbl_name=b"t", new_tbl=made),
        )
        for event in events:
            event()
            outcome = stepping.step()
            assert outcome.changed and not (outcome.unfit or outcome.more or outcome.partitions)
            assert stepping.table(b"t").reason_not_loaded == UNFIT
        made_at(catalog, "p=b", 0)
        catalog.alter(b"t", b"b", changed=b"1")
        stepping.settle()
        assert stepping.same(catalog, b"t") == 4


def test_a_partition_that_cannot_be_held_goes(tmp_path: Path) -> None:
    with Catalog(tmp_path) as catalog, Stepping(tmp_path / "data", catalog) as stepping:
        catalog.table(b"t")
        catalog.add(b"t", [b"a", b"b"])
        stepping.settle()
        catalog.add(b"t", [b"c"])
        made_at(catalog, "p=c", FOREVER_S)
        stepping.settle()
        assert stepping.table(b"t").reason_not_loaded == UNFIT
        changed(catalog, 'DELETE FROM "PARTITION_KEY_VALS" WHERE "PART_ID" = (SELECT max("PART_ID") FROM "PARTITIONS")')
        changed(catalog, 'DELETE FROM "PARTITION_PARAMS" WHERE "PART_ID" = (SELECT max("PART_ID") FROM "PARTITIONS")')
        changed(catalog, 'DELETE FROM "PARTITIONS" WHERE "PART_NAME" = ?', "p=c")
        catalog.events(1, kind="ADD_PARTITION")
        stepping.settle()
        assert stepping.same(catalog, b"t") == 2
