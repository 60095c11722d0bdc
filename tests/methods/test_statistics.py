"""Column statistics through a dispatcher: own writes, transactional tables, answers that take several slices."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from hms_cache_proxy.cache.entries import TableEntry
from hms_cache_proxy.methods.readers.statistics import SLICE
from hms_cache_proxy.metrics import WorkerMetrics
from tests.follower.harness import Followed
from tests.methods.analyzed import NAMES, Analyzed, every_type
from tests.methods.local import Asked, Local
from tests.methods.oracle import Oracle
from tests.methods.structs import struct
from tests.methods.test_dispatch import until
from tests.methods.test_readers import comparable
from tests.methods.world import CAPABILITIES
from tests.testbed.metastore import Metastore

pytestmark = pytest.mark.real
CACHED = ("hit", "hot")
COLUMNS = [b"i", b"s", b"dec"]


@pytest.fixture
def made(hms42: Metastore, unique_name: str) -> Iterator[Analyzed]:
    with Oracle("{}:{}".format(*hms42.address)) as hms:
        analyzed = Analyzed(hms, unique_name.encode())
        hms.do("create_database", database=struct("Database", name=analyzed.database))
        analyzed.table(b"flat")
        analyzed.table(b"part", keyed=True)
        analyzed.partitions(b"part")
        analyzed.update(b"flat", every_type())
        analyzed.update(b"part", every_type(1), partition=NAMES[0])
        yield analyzed
        hms.do("drop_database", name=analyzed.database, deleteData=True, cascade=True)


@pytest.fixture
def local(hms42: Metastore, made: Analyzed, tmp_path: Any) -> Iterator[Local]:
    assert hms42.database is not None
    settings = {
        "store_url": hms42.database.reader_url,
        "include": [f"{made.database.decode()}.*"],
        "transactional_reads": "passthrough",
    }
    with Followed(tmp_path / "data", upstream=hms42.uri, **settings) as followed:
        followed.loaded()
        connected = Local.connect(followed, hms42.uri.removeprefix("thrift://"), WorkerMetrics())
        yield connected
        connected.close()


def of_table(local: Local, made: Analyzed, **more: Any) -> Asked:
    place = {"dbName": made.database, "tblName": b"flat", "colNames": COLUMNS, **more}
    return local.ask("get_table_statistics_req", request=struct("TableStatsRequest", **place))


def of_partitions(local: Local, made: Analyzed, **more: Any) -> Asked:
    place = {"dbName": made.database, "tblName": b"part", "colNames": COLUMNS, "partNames": list(NAMES), **more}
    return local.ask("get_partitions_statistics_req", request=struct("PartitionsStatsRequest", **place))


def shown(asked: Asked) -> Any:
    return comparable(asked.reply.method, asked.reply.value)


def test_own_writes_are_read_at_once(local: Local, made: Analyzed) -> None:
    """Whatever sets or deletes them; another connection reads them too, and soon from the cache."""
    until(lambda: of_table(local, made), lambda asked: asked.by in CACHED)
    until(lambda: of_partitions(local, made), lambda asked: asked.by in CACHED)
    for engine in (b"hive", b"impala"):
        statistics = made.described(b"part", every_type(7), partition=NAMES[1], engine=engine)
        request = struct("SetPartitionsStatsRequest", colStats=[statistics], engine=engine)
        local.ask("update_partition_column_statistics_req", req=request)
        found = of_partitions(local, made, engine=engine)
        assert len(found.reply.value.success.partStats[NAMES[1]]) == 3
        assert shown(of_partitions(local.another(), made, engine=engine)) == shown(found)
    statistics = made.described(b"flat", every_type(8))
    before = shown(of_table(local, made))
    local.ask("update_table_column_statistics", stats_obj=statistics)
    changed = shown(of_table(local, made))
    assert changed != before
    place = {"db_name": made.database, "tbl_name": b"flat", "col_name": b"s", "engine": b"hive"}
    local.ask("delete_table_column_statistics", **place)
    assert len(of_table(local, made).reply.value.success.tableStats) == 2
    local.followed.confirmed()
    local.session.floors = None
    again = until(lambda: of_table(local, made), lambda asked: asked.by in CACHED)
    assert [row.colName for row in again.reply.value.success.tableStats] == [b"dec", b"i"]


def test_transactional_tables_need_a_proof(local: Local, made: Analyzed) -> None:
    """Without a table id nothing is proved. tests/write_ids compares statistics that were written in transactions."""
    insert_only = {b"transactional": b"true", b"transactional_properties": b"insert_only"}
    names = {"dbName": made.database, "tableName": b"acid", "tableType": b"MANAGED_TABLE"}
    table = struct("Table", **names, sd=made.sd(), partitionKeys=[], parameters=insert_only)
    capable = {"processorCapabilities": CAPABILITIES.split(), "processorIdentifier": b"tests"}
    made.hms.do("create_table_req", request=struct("CreateTableRequest", table=table, **capable))
    made.update(b"acid", every_type()[:3])
    local.followed.loaded()
    assert of_table(local, made, tblName=b"acid").reason == "no_write_id"
    text = made.database + b".acid:0:9223372036854775807::"
    assert of_table(local, made, tblName=b"acid", validWriteIdList=text).reason == "table_id"
    with local.followed.reader.snapshot() as cache:
        entry = cache.table(b"hive", made.database, b"acid")
    assert isinstance(entry, TableEntry) and entry.transactional
    ask = {"tblName": b"acid", "validWriteIdList": text, "id": entry.table_id}
    local.followed.confirmed()
    local.session.floors = None  # of the misses before
    proved = of_table(local, made, **ask)
    assert proved.by == "hit", proved
    place = {"dbName": made.database, "tblName": b"acid", "colNames": COLUMNS, **ask}
    own = made.hms.ask("get_table_statistics_req", request=struct("TableStatsRequest", **place))
    assert comparable(own.method, own.value) == shown(proved)


def test_partitions_of_any_table_may_have_write_ids(local: Local, made: Analyzed) -> None:
    """Hive decides by them whether statistics are valid for a reader with a list, whether the table is transactional or
    not. alter_partitions_req sets them."""
    partition = made.hms.read("get_partition_by_name", db_name=made.database, tbl_name=b"part", part_name=NAMES[0])
    altered = partition.value.success
    altered.parameters = {**altered.parameters, b"COLUMN_STATS_ACCURATE": b'{"BASIC_STATS":"true"}'}
    place = {"dbName": made.database, "tableName": b"part", "partitions": [altered], "writeId": 5}
    made.hms.do("alter_partitions_req", req=struct("AlterPartitionsRequest", **place))
    made.update(b"part", every_type(1), partition=NAMES[0])
    local.followed.loaded()
    place = {"dbName": made.database, "tblName": b"part", "colNames": COLUMNS, "partNames": list(NAMES)}
    older = {"validWriteIdList": made.database + b".part:3:9223372036854775807::"}
    cases: tuple[tuple[dict[str, Any], int], ...] = (({}, 1), (older, 0))
    for lists, count in cases:
        found = until(partial(of_partitions, local, made, **lists), lambda asked: asked.by in CACHED)
        request = struct("PartitionsStatsRequest", **place, **lists)
        own = local.oracle.read("get_partitions_statistics_req", request=request)
        assert shown(found) == comparable(own.method, own.value)
        assert len(found.reply.value.success.partStats) == count


def test_many_partitions_take_many_slices(local: Local, made: Analyzed) -> None:
    made.table(b"many", keyed=True)
    values = [[b"%03d" % number, b"x"] for number in range(4 * SLICE + 1)]
    made.partitions(b"many", values)
    names = [b"dt=%03d/h=x" % number for number in range(len(values))]
    for at in (0, 1, SLICE, 3 * SLICE - 1, 4 * SLICE):
        made.update(b"many", every_type(at % 7)[:9], partition=names[at])
    local.followed.loaded()
    local.session.floors = None
    asked = until(lambda: of_partitions(local, made, tblName=b"many", partNames=names), lambda each: each.by == "hit")
    own = made.hms.ask(
        "get_partitions_statistics_req",
        request=struct(
            "PartitionsStatsRequest", dbName=made.database, tblName=b"many", colNames=COLUMNS, partNames=names
        ),
    )
    assert len(own.value.success.partStats) == 5
    assert shown(asked) == comparable(own.method, own.value)
