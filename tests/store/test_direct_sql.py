"""With metastore.try.direct.sql off, every call goes the way of the calls for one partition, and says what they say."""

from __future__ import annotations

from collections.abc import Callable

from hms_cache_proxy.store.sql.store import open_sql_store
from tests.store.conftest import make_world
from tests.store.stores import LIST, SINGLE, whole_partition
from tests.testbed.metastore import Metastore


def test_lists_without_direct_sql(new_metastore: Callable[..., Metastore]) -> None:
    metastore = new_metastore(settings={"metastore.try.direct.sql": "false"})
    assert metastore.database is not None
    world = make_world(metastore, "w_")
    oracle, database = world.oracle, world.content.database
    store = open_sql_store(metastore.database.reader_url)
    with store.snapshot() as snapshot:
        table = snapshot.tables(b"hive", database.encode(), [b"shapes"])[b"shapes"]
        found = snapshot.partitions(table)
    names = [partition.name.decode() for partition in found]
    wholes = [whole_partition(table, partition, SINGLE) for partition in found]
    assert wholes != [whole_partition(table, partition, LIST) for partition in found]
    assert wholes == oracle.get_partitions(database, "shapes", -1)
    assert wholes == oracle.get_partitions_by_names(database, "shapes", names)
    assert wholes == oracle.get_partitions_ps(database, "shapes", [""], -1)
    assert wholes == oracle.get_partitions_by_filter(database, "shapes", 'p != "no such"', -1)
    assert wholes == [oracle.get_partition_by_name(database, "shapes", name) for name in names]
    store.close()
    oracle.close()
