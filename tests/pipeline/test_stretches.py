"""How partitions are cut into stretches and read by them: each once, in order, no stretch larger than it may be."""

from __future__ import annotations

from itertools import pairwise

import pytest

from hms_cache_proxy.config.selection import Selection
from hms_cache_proxy.pipeline import ranges, tasks
from hms_cache_proxy.pipeline.ranges import Partitioned, partition_stretches, table_stretches
from hms_cache_proxy.store.sql.store import open_sql_store
from tests.testbed import objects
from tests.testbed.bed import Bed
from tests.testbed.client import MetastoreClient

MOST = 5
COUNTS = {"a": 3, "b": 0, "c": 2, "d": 12, "e": 10, "f": 1, "g": 4, "h": 4}
"""Partitions of tables: small ones that fill a stretch, none, large ones with and without a rest, a rest at the end."""


@pytest.fixture
def filled(bed: Bed, unique_name: str) -> str:
    """The URL of a store that holds these tables in the database `unique_name`."""
    metastore = bed.shared("embedded")
    with MetastoreClient(*metastore.address) as client:
        objects.create_database(client, unique_name)
        for name, count in COUNTS.items():
            table = objects.table(unique_name, name, partition_keys=(("p", "int"),))
            made = objects.create_table(client, table)
            if count:
                objects.add_partitions(client, made, [(str(number),) for number in range(count)])
    assert metastore.database is not None
    return metastore.database.reader_url


def test_every_partition_is_read_once_and_in_order(
    filled: str, unique_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranges, "PARTITIONS_PER_STRETCH", MOST)
    monkeypatch.setattr(tasks, "PARTITIONS_PER_STRETCH", MOST - 1)  # a page ends within a stretch
    catalog, database = b"hive", unique_name.encode()
    store = open_sql_store(filled)
    with store.snapshot() as snapshot:
        listed = [(name, id_) for name, _, id_ in snapshot.table_names(catalog, database)]
        tables = [Partitioned(catalog, database, name, id_, False) for name, id_ in listed]
        stretches = partition_stretches(store, snapshot, tables)
        read = [
            (table.name.decode(), record.name.decode())
            for stretch in stretches
            for table in stretch.tables
            for record in tasks.records(snapshot, table, stretch.after, stretch.until)
        ]
        counted = [
            sum(len(list(tasks.records(snapshot, one, some.after, some.until))) for one in some.tables)
            for some in stretches
        ]
    store.close()
    wanted = [(name, f"p={number}") for name, count in COUNTS.items() for number in range(count)]
    assert read == sorted(wanted), "names come bytewise"
    assert [stretch.place for stretch in stretches] == list(range(len(stretches)))
    assert [stretch.size for stretch in stretches] == counted and max(counted) <= MOST
    for one, other in pairwise(stretches):
        assert len(one.tables) > 1 or one.size == MOST or one.tables != other.tables
        assert one.tables[-1].name < other.tables[0].name or one.until == other.after


def test_tables_are_listed_with_what_the_selection_says(
    filled: str, unique_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranges, "TABLES_PER_STRETCH", 3)
    selection = Selection((f"{unique_name}.*",), (f"{unique_name}.d",))
    key = (b"hive", unique_name.encode())
    store = open_sql_store(filled)
    with store.snapshot() as snapshot:
        found = table_stretches(snapshot, [key], selection)
    store.close()
    assert [[one.name.decode() for one in some.tables] for some in found] == [list("abc"), list("def"), list("gh")]
    assert [some.place for some in found] == [0, 1, 2]
    assert [one.name for some in found for one in some.tables if not one.admitted] == [b"d"]
