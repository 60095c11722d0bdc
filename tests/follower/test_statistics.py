"""Column statistics are followed like their tables and partitions: after each change the cache has what Hive says."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from typing import Any

import pytest

from hms_cache_proxy.cache.entries import ABSENT, TableEntry
from hms_cache_proxy.wire import spec
from tests.follower.harness import CATALOG, Followed
from tests.methods.analyzed import KEYS, NAMES, TYPES, Analyzed, every_type
from tests.methods.oracle import Oracle
from tests.methods.structs import struct
from tests.testbed.metastore import Metastore
from tests.testbed.raw import EndOfStream
from tests.testbed.untyped import decode_struct

pytestmark = pytest.mark.real
ENGINES = (b"hive", b"impala", b"spark", b"Odd Engine")
COLUMNS = [name for name in TYPES if name not in (b"ar", b"mixed")]
Follow = Callable[..., Followed]


class Checked:
    """A follower, the metastore, and the comparison of both."""

    def __init__(self, followed: Followed, hms: Oracle, database: bytes) -> None:
        self.followed = followed
        self.hms = hms
        self.database = database
        self.seen = 0

    def table(self, name: bytes) -> TableEntry:
        with self.followed.reader.snapshot() as cache:
            found = cache.table(CATALOG, self.database, name)
        assert found is not None and found is not ABSENT and found.body is not None, name
        return found

    def cached(self, name: bytes, names: list[bytes], engine: bytes) -> tuple[list[Any], dict[bytes, list[Any]]]:
        entry = self.table(name)
        with self.followed.reader.snapshot() as cache:
            own = cache.table_statistics(entry)
            assert own is not None
            found = dict(cache.partition_statistics(entry, names, COLUMNS, engine)) if entry.partition_keys else {}
        mine = [each.element for each in own if each.engine == engine and each.column in COLUMNS]
        return _decoded(mine), {key: _decoded(each.element for each in some) for key, some in found.items()}

    def same(self, *tables: bytes) -> None:
        """Of these tables and all their partitions, by every engine."""
        self.followed.loaded()
        for name in tables:
            names = self.hms.do("get_partition_names", db_name=self.database, tbl_name=name, max_parts=-1)
            for engine in ENGINES:
                own, of_partitions = self.cached(name, names, engine)
                place = {"dbName": self.database, "tblName": name, "colNames": COLUMNS, "engine": engine}
                answer = self.hms.do("get_table_statistics_req", request=struct("TableStatsRequest", **place))
                assert own == _encoded(answer.tableStats), (name, engine)
                request = struct("PartitionsStatsRequest", **place, partNames=names)
                found = self.hms.do("get_partitions_statistics_req", request=request).partStats
                assert of_partitions == {key: _encoded(rows) for key, rows in found.items()}, (name, engine)
                self.seen += len(own) + len(of_partitions)


def _decoded(elements: Any) -> list[Any]:
    return sorted(map(repr, map(decode_struct, elements)))


def _encoded(rows: list[Any]) -> list[Any]:
    return _decoded(spec.encode(row) for row in rows)


@pytest.fixture
def checked(hms42: Metastore, follow: Follow, name: str) -> Any:
    with Oracle("{}:{}".format(*hms42.address)) as hms:
        made = Analyzed(hms, f"{name}_s".encode())
        made.create()
        checked = Checked(follow(hms42), hms, made.database)
        checked.same(b"flat", b"few", b"never", b"part", b"part_never", b"part_empty")
        assert checked.seen == 30
        yield checked, made


def _table(hms: Oracle, database: bytes, name: bytes) -> Any:
    request = struct("GetTableRequest", dbName=database, tblName=name)
    return hms.do("get_table_req", req=request).table


def test_each_change_of_statistics(checked: tuple[Checked, Analyzed]) -> None:
    """Set, set again, set for the first time, deleted by column, engine and altogether."""
    check, made = checked
    made.update(b"flat", every_type(20))
    made.update(b"never", every_type(21)[:1], engine=b"spark")
    made.update(b"part", every_type(22), partition=NAMES[1])
    made.update(b"part_never", every_type(23)[::2], partition=NAMES[3], engine=b"Odd Engine")
    check.same(b"flat", b"never", b"part", b"part_never")
    where = {"db_name": made.database, "tbl_name": b"flat"}
    check.hms.do("delete_table_column_statistics", **where, col_name=b"i", engine=b"hive")
    partition = {"db_name": made.database, "tbl_name": b"part", "part_name": NAMES[0]}
    check.hms.do("delete_partition_column_statistics", **partition, col_name=b"s", engine=b"hive")
    check.same(b"flat", b"part")
    request = {"db_name": made.database, "tbl_name": b"part", "tableLevel": False}
    check.hms.do("delete_column_statistics_req", req=struct("DeleteColumnStatisticsRequest", **request))
    check.same(b"part")
    entry = check.table(b"part")
    with check.followed.reader.snapshot() as cache:
        assert not list(cache.partition_statistics(entry, NAMES, None, b"hive"))
        assert len(list(cache.partition_statistics(entry, NAMES, None, None))) == 2


def test_what_becomes_of_them_with_their_tables_and_partitions(checked: tuple[Checked, Analyzed]) -> None:
    check, made = checked
    for old, new in ((b"flat", b"flat_2"), (b"part", b"part_2")):
        table = _table(check.hms, made.database, old)
        table.tableName = new
        check.hms.do("alter_table", dbname=made.database, tbl_name=old, new_tbl=table)
    made.table(b"flat")
    check.same(b"flat", b"flat_2", b"part_2")
    for name, cascade in ((b"flat_2", b"false"), (b"part_2", b"true")):  # the last column goes, with its statistics
        made.update(name, every_type(30)[-1:])
        table = _table(check.hms, made.database, name)
        del table.sd.cols[13:]
        context = struct("EnvironmentContext", properties={b"CASCADE": cascade})
        arguments = {"dbname": made.database, "tbl_name": name, "new_tbl": table, "environment_context": context}
        check.hms.do("alter_table_with_environment_context", **arguments)
    check.same(b"flat_2", b"part_2")
    place = {"db_name": made.database, "tbl_name": b"part_2"}
    check.hms.do("drop_partition", **place, part_vals=[b"a", b"0"], deleteData=False)
    made.partitions(b"part_2", [[b"a", b"0"]])
    partition = check.hms.do("get_partition_by_name", **place, part_name=NAMES[2])
    partition.values = [b"new", b"9"]
    check.hms.do("rename_partition", **place, part_vals=[b"B b", b"2"], new_part=partition)
    check.same(b"part_2")
    names = {"dbName": made.database, "tableName": b"part_2"}
    check.hms.do("truncate_table", **names, partNames=[b"dt=new/h=9"])
    check.hms.do("truncate_table", dbName=made.database, tableName=b"flat_2")
    check.same(b"flat_2", b"part_2")
    check.hms.do("drop_table", dbname=made.database, name=b"part_2", deleteData=True)
    made.table(b"part_2", keyed=True)
    made.partitions(b"part_2")
    check.same(b"part_2")


def test_exchanged_partitions(checked: tuple[Checked, Analyzed]) -> None:
    check, made = checked
    made.table(b"other", keyed=True)
    source = {"partitionSpecs": dict(zip(KEYS, [b"B b", b"2"], strict=True)), "source_db": made.database}
    target = {"source_table_name": b"part", "dest_db": made.database, "dest_table_name": b"other"}
    check.hms.do("exchange_partition", **source, **target)
    check.same(b"part", b"other")


def test_a_load_in_chunks_and_a_restart(hms42: Metastore, follow: Follow, name: str) -> None:
    """Statistics change between the chunks of a table's load, and while no follower runs."""
    with Oracle("{}:{}".format(*hms42.address)) as hms:
        made = Analyzed(hms, f"{name}_l".encode())
        hms.do("create_database", database=struct("Database", name=made.database))
        made.table(b"large", keyed=True)
        values = [[b"%03d" % number, b"1"] for number in range(300)]
        made.partitions(b"large", values)
        names = [b"dt=%03d/h=1" % number for number in range(300)]
        for at in (0, 7, 150, 299):
            made.update(b"large", every_type(at)[:4], partition=names[at])
        followed = follow(hms42, follower__prewarm_chunk=10)
        check = Checked(followed, hms, made.database)
        for at in (3, 7, 298, 150):
            made.update(b"large", every_type(at + 1)[2:6], partition=names[at])
            time.sleep(0.02)
        check.same(b"large")
        followed.kill(signal.SIGKILL)
        made.update(b"large", every_type(40), partition=names[20])
        made.update(b"large", every_type(41)[:1])
        place = {"db_name": made.database, "tbl_name": b"large", "part_name": names[0], "col_name": b"i"}
        hms.do("delete_partition_column_statistics", **place, engine=b"hive")
        followed.start()
        check.same(b"large")
        assert check.seen >= 11


def test_without_an_event(hms42: Metastore, follow: Follow, name: str) -> None:
    """The slow sweep finds what somebody changed in the database itself."""
    assert hms42.database is not None
    with Oracle("{}:{}".format(*hms42.address)) as hms:
        made = Analyzed(hms, f"{name}_w".encode())
        hms.do("create_database", database=struct("Database", name=made.database))
        made.table(b"flat")
        made.update(b"flat", every_type()[:3])
        followed = follow(hms42, follower__revalidate_interval_s=1, include=[f"{made.database.decode()}.*"])
        check = Checked(followed, hms, made.database)
        check.same(b"flat")
        table_id = check.table(b"flat").table_id
        with hms42.database.connect() as connection, connection.cursor() as cursor:
            cursor.execute('UPDATE "TAB_COL_STATS" SET "NUM_NULLS" = 77 WHERE "TBL_ID" = %s', (table_id,))

        def noticed() -> bool:
            return all("(10, 77)" in each for each in check.cached(b"flat", [], b"hive")[0])

        followed.until(noticed)
        check.same(b"flat")


def test_over_thrift_they_are_not_known(hms42: Metastore, follow: Follow, name: str) -> None:
    with Oracle("{}:{}".format(*hms42.address)) as hms:
        made = Analyzed(hms, f"{name}_t".encode())
        hms.do("create_database", database=struct("Database", name=made.database))
        made.table(b"flat")
        made.table(b"part", keyed=True)
        made.partitions(b"part")
        made.update(b"flat", every_type()[:3])
        followed = follow(hms42, store="thrift", include=[f"{made.database.decode()}.*"])
        followed.loaded()
        check = Checked(followed, hms, made.database)
        assert not check.table(b"flat").statistics_known and not check.table(b"part").statistics_of_partitions


ODD = (
    ("i", "NUM_DISTINCTS", None),
    ("big", "COLUMN_TYPE", "void"),
    ("small", "COLUMN_TYPE", "BigInt"),
    ("tiny", "COLUMN_TYPE", "timestamp with local time zone"),
    ("d", "DOUBLE_LOW_VALUE", "NaN"),
    ("fl", "DOUBLE_HIGH_VALUE", "-Infinity"),
    ("s", "AVG_COL_LEN", None),
    ("vc", "MAX_COL_LEN", None),
    ("ch", "COLUMN_TYPE", "character varying"),
    ("bo", "NUM_TRUES", None),
    ("bi", "NUM_NULLS", -7),
    ("da", "LONG_HIGH_VALUE", None),
    ("ts", "LONG_LOW_VALUE", None),
)
DECIMALS = (
    "1E+3",
    "1e-40",
    "-0.0",
    "+5",
    "5.",
    ".5",
    "abc",
    "",
    " 1",
    "1e40000",
    "NaN",
    "-12345678901234567890.12",
    "0x1",
)


def test_rows_that_no_metastore_wrote(hms42: Metastore, follow: Follow, name: str) -> None:
    """What the metastore makes of them is in the cache; what it cannot answer has no data there."""
    assert hms42.database is not None
    with Oracle("{}:{}".format(*hms42.address)) as hms:
        made = Analyzed(hms, f"{name}_o".encode())
        hms.do("create_database", database=struct("Database", name=made.database))
        tables = [b"odd", *(b"dec%d" % number for number in range(len(DECIMALS)))]
        for table in tables:
            made.table(table)
            made.update(table, every_type())
        ids = [_table(hms, made.database, table).id for table in tables]
        with hms42.database.connect() as connection, connection.cursor() as cursor:
            where = 'WHERE "TBL_ID" = %s AND "COLUMN_NAME" = %s'
            for column, field, value in ODD:
                cursor.execute(f'UPDATE "TAB_COL_STATS" SET "{field}" = %s {where}', (value, ids[0], column))
            for table_id, text in zip(ids[1:], DECIMALS, strict=True):
                cursor.execute(
                    f'UPDATE "TAB_COL_STATS" SET "BIG_DECIMAL_LOW_VALUE" = %s {where}', (text, table_id, "dec")
                )
        followed = follow(hms42, include=[f"{made.database.decode()}.*"])
        followed.loaded()
        check = Checked(followed, hms, made.database)
        outcomes = set()
        for table in tables:
            with followed.reader.snapshot() as cache:
                own = cache.table_statistics(check.table(table))
            assert own is not None and len(own) == 14
            for each in own if table == b"odd" else [each for each in own if each.column == b"dec"]:
                place = {"db_name": made.database, "tbl_name": table, "col_name": each.column}
                hms.reconnect()
                try:
                    found = hms.ask("get_table_column_statistics", **place).value.success
                except EndOfStream:
                    found = None
                wanted = None if found is None else _encoded(found.statsObj)
                outcomes.add(wanted is None)
                assert (_decoded([each.element]) if each.data else None) == wanted, (table, each.column)
        assert outcomes == {True, False}
