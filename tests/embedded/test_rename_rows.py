"""A rename in the embedded metastore's log: the row carries the new name, and a follower learns of both."""

from __future__ import annotations

import copy

from hms_cache_proxy.cache import targets
from hms_cache_proxy.follower.events import affects
from hms_cache_proxy.store.protocol import EventRow
from hms_cache_proxy.store.sql.store import open_sql_store
from tests.testbed import objects
from tests.testbed.bed import Bed
from tests.testbed.client import MetastoreClient


def test_a_table_moves_to_another_database(bed: Bed, unique_name: str) -> None:
    metastore = bed.shared("embedded")
    other = f"{unique_name}_other"
    with MetastoreClient(*metastore.address) as client:
        for name in (unique_name, other):
            objects.create_database(client, name)
        made = objects.create_table(client, objects.table(unique_name, "before", partition_keys=(("p", "int"),)))
        objects.add_partitions(client, made, [("1",)])
        at = client.get_current_notificationEventId().eventId
        moved = copy.deepcopy(objects.read_table(client, unique_name, "before"))
        moved.dbName, moved.tableName = other, "after"
        client.alter_table(unique_name, "before", moved)
    assert metastore.database is not None
    store = open_sql_store(metastore.database.reader_url)
    with store.snapshot() as snapshot:
        rows = [row for row in snapshot.events(at, 10) if row.type == "ALTER_TABLE"]
    store.close()
    (row,) = rows
    assert isinstance(row, EventRow)
    assert (row.database, row.table) == (other.encode(), b"after")
    old, new = (b"hive", unique_name.encode(), b"before"), (b"hive", other.encode(), b"after")
    affected, result = affects(row)
    assert result == "applied" and affected.tables == {old, new} and affected.renamed == ((old, new),)
    lists = {targets.tables(*old[:2]), targets.tables(*new[:2])}
    assert affected.targets >= {targets.table(*old), targets.table(*new)} | lists
