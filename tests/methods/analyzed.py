"""Tables and partitions with column statistics of every type, by several engines, made through a metastore.

Job: what tests of statistics ask about, in one database. Must not know: readers, the cache.
"""

from __future__ import annotations

from typing import Any, Final

from hms_cache_proxy.wire import spec
from hms_cache_proxy.wire.message import MessageType
from tests.methods.oracle import Oracle
from tests.methods.structs import descriptor, struct

TYPES: Final = {
    b"i": b"int",
    b"big": b"bigint",
    b"small": b"smallint",
    b"tiny": b"tinyint",
    b"d": b"double",
    b"fl": b"float",
    b"s": b"string",
    b"vc": b"varchar(10)",
    b"ch": b"char(3)",
    b"dec": b"decimal(20,4)",
    b"bo": b"boolean",
    b"bi": b"binary",
    b"da": b"date",
    b"ts": b"timestamp",
    b"ar": b"array<int>",
    b"mixed": b"int",
}
KEYS: Final = (b"dt", b"h")
VALUES: Final = ([b"a", b"0"], [b"a", b"1"], [b"B b", b"2"], [b"x/y=%", b"3"], [b"__HIVE_DEFAULT_PARTITION__", b"4"])
NAMES: Final = (
    *(b"dt=a/h=0", b"dt=a/h=1", b"dt=B b/h=2", b"dt=x%2Fy%3D%25/h=3"),
    b"dt=__HIVE_DEFAULT_PARTITION__/h=4",
)


def column(name: bytes, kind: str, **fields: Any) -> spec.Struct:
    """A ColumnStatisticsObj of the column's type in TYPES."""
    data = struct(f"{kind.capitalize()}ColumnStatsData", **fields)
    union = struct("ColumnStatisticsData", **{f"{kind}Stats": data})
    return struct("ColumnStatisticsObj", colName=name, colType=TYPES.get(name.lower(), b"int"), statsData=union)


def decimal(unscaled: int, scale: int) -> spec.Struct:
    """A Decimal as a client writes it."""
    size = unscaled.bit_length() // 8 + 1
    return struct("Decimal", unscaled=unscaled.to_bytes(size, "big", signed=True), scale=scale)


def every_type(seed: int = 0) -> list[spec.Struct]:
    """Statistics of every type that a metastore knows; `seed` makes them differ."""
    counts = {"numNulls": seed, "numDVs": 3 + seed}
    days = [struct("Date", daysSinceEpoch=day) for day in (-3 - seed, 19_000)]
    times = [struct("Timestamp", secondsSinceEpoch=second) for second in (-1 - seed, 1 << 40)]
    lengths = {"maxColLen": 10 + seed, "avgColLen": 2.1 + seed, "numNulls": 0}
    vectors = {"bitVectors": b"HL\xff\0\1", "histogram": b"\xfe\0"}
    return [
        column(b"i", "long", lowValue=-5 - seed, highValue=1 << 40, **counts, **vectors),
        column(b"big", "long", lowValue=-(1 << 63), highValue=(1 << 63) - 1, **counts),
        column(b"small", "long", lowValue=0, **counts),
        column(b"tiny", "long", **counts),
        column(b"d", "double", lowValue=-1.5e-300, highValue=0.1 + seed, **counts),
        column(b"fl", "double", lowValue=-0.0, **counts),
        column(b"s", "string", **lengths, numDVs=7, bitVectors=b"\0"),
        column(b"vc", "string", **lengths, numDVs=0),
        column(b"ch", "string", **lengths, numDVs=1),
        column(b"dec", "decimal", lowValue=decimal(-255 - seed, 2), highValue=decimal(1 << 70, 4), **counts),
        column(b"bo", "boolean", numTrues=4, numFalses=seed, numNulls=2),
        column(b"bi", "binary", **lengths),
        column(b"da", "date", lowValue=days[0], highValue=days[1], **counts),
        column(b"ts", "timestamp", lowValue=times[0], highValue=times[1], **counts),
    ]


class Analyzed:
    """A database of tables with statistics; `create` makes all of them."""

    def __init__(self, hms: Oracle, database: bytes) -> None:
        self.hms = hms
        self.database = database

    def create(self) -> None:
        """Everything."""
        self.hms.do("create_database", database=struct("Database", name=self.database))
        for name in (b"flat", b"few", b"never", b"unknown"):
            self.table(name)
        self.update(b"flat", every_type())
        self.update(b"flat", every_type(1)[::3], engine=b"impala")
        self.update(b"flat", every_type(2)[::4], engine=b"Odd Engine")
        self.update(b"few", [column(b"S", "string", maxColLen=1, avgColLen=1.0, numNulls=0, numDVs=1)])
        self.update(b"unknown", [column(b"ar", "long", numNulls=1, numDVs=1), *every_type(3)[:2]])
        self.update(b"unknown", [column(b"mixed", "boolean", numTrues=1, numFalses=1, numNulls=0)])
        for name in (b"part", b"part_never"):
            self.table(name, keyed=True)
            self.partitions(name)
        self.table(b"part_empty", keyed=True)
        self.update(b"part", every_type(4), partition=NAMES[0])
        self.update(b"part", every_type(5)[:5], partition=NAMES[2])
        self.update(b"part", every_type(6)[3:9], partition=NAMES[3])
        self.update(b"part", every_type(7)[:1], partition=NAMES[4])
        self.update(b"part", every_type(8)[::2], partition=NAMES[4], engine=b"impala")
        self.update(b"part", every_type(9)[:3], partition=NAMES[1], engine=b"spark")

    def table(self, name: bytes, *, keyed: bool = False) -> None:
        """An external table with all columns."""
        keys = [struct("FieldSchema", name=key, type=b"string") for key in KEYS] if keyed else []
        self.hms.do(
            "create_table",
            tbl=struct(
                "Table",
                tableName=name,
                dbName=self.database,
                sd=self.sd(),
                partitionKeys=keys,
                parameters={b"EXTERNAL": b"TRUE"},
                tableType=b"EXTERNAL_TABLE",
            ),
        )

    def partitions(self, table: bytes, values: Any = VALUES) -> None:
        """Partitions of a table with keys."""
        common = {"dbName": self.database, "tableName": table, "sd": self.sd(), "parameters": {}}
        self.hms.do("add_partitions", new_parts=[struct("Partition", values=list(each), **common) for each in values])

    def update(
        self, table: bytes, columns: list[spec.Struct], *, partition: bytes | None = None, engine: bytes = b"hive"
    ) -> None:
        """Set statistics; a release without engines has those of `hive` only."""
        statistics = self.described(table, columns, partition=partition, engine=engine)
        method = f"update_{'table' if partition is None else 'partition'}_column_statistics"
        request = struct("SetPartitionsStatsRequest", colStats=[statistics], engine=engine)
        reply = self.hms.ask(f"{method}_req", req=request)
        if reply.type is MessageType.EXCEPTION:  # 3.1
            if engine == b"hive":
                statistics.statsObj = [each for each in columns if each.colName != b"ts"]  # it has no type for them
                self.hms.do(method, stats_obj=statistics)
        else:
            assert reply.value.success is not None, reply.plain

    def described(
        self, table: bytes, columns: list[spec.Struct], *, partition: bytes | None = None, engine: bytes = b"hive"
    ) -> spec.Struct:
        """The ColumnStatistics that set them."""
        names = {"dbName": self.database, "tableName": table, "partName": partition}
        described = struct("ColumnStatisticsDesc", isTblLevel=partition is None, **names)
        return struct("ColumnStatistics", statsDesc=described, statsObj=columns, engine=engine)

    def sd(self) -> spec.Struct:
        """A descriptor with all columns."""
        return descriptor(cols=[struct("FieldSchema", name=name, type=kind) for name, kind in TYPES.items()])
