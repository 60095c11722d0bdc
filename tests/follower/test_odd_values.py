"""A value in the metastore's database that no metastore can return: the database's fault, and not the cache's, which
the follower reads in the same step."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from hms_cache_proxy.cache.environment import condemned
from hms_cache_proxy.errors import StoreError
from tests.follower.stepping import Catalog, Stepping


def written(catalog: Catalog, value: int | str) -> None:
    """A write id by SQL. SQLite stores a text in a column of numbers."""
    with closing(sqlite3.connect(catalog.file, timeout=60)) as connection, connection:
        connection.execute('UPDATE "TBLS" SET "WRITE_ID" = ?', (value,))


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
