"""Column statistics in the differential test: reads of them, and changes of them, as parts of `Reads` and `Changes`.

Columns and types are drawn without regard to the table: a metastore takes statistics of columns that no table has, and
of types that it cannot show afterwards.
"""

from __future__ import annotations

from typing import Any

from hive_metastore.ttypes import (
    BinaryColumnStatsData,
    BooleanColumnStatsData,
    ColumnStatistics,
    ColumnStatisticsData,
    ColumnStatisticsDesc,
    ColumnStatisticsObj,
    Date,
    DateColumnStatsData,
    Decimal,
    DecimalColumnStatsData,
    DoubleColumnStatsData,
    LongColumnStatsData,
    PartitionsStatsRequest,
    StringColumnStatsData,
    TableStatsRequest,
    Timestamp,
    TimestampColumnStatsData,
)

from tests.differential import variants
from tests.differential.contents import TableNote
from tests.differential.parts import PartOfChanges, PartOfReads
from tests.testbed.client import MetastoreClient

Request = tuple[str, dict[str, Any]]
COLUMNS = ("c0", "c1", "c2", "c3", "dt", "odd column", "no_such")
ENGINES = ("hive", "hive", "impala", "spark")


class StatisticsReads(PartOfReads):
    """Requests for statistics; a part of `Reads`."""

    def column(self) -> str:
        name = self.rng.choice(COLUMNS)
        return self.rng.choice([name, name, name, name.upper(), f" {name}", "", name + "ü"])

    def columns(self) -> list[str]:
        return [self.rng.choice([*COLUMNS, self.column()]) for _ in range(self.rng.choice([0, 1, 3, 8]))]

    def engine(self) -> str | None:
        return self.rng.choice([*ENGINES, None, "Odd Engine", "IMPALA", "", "none"])

    def make_get_table_column_statistics(self) -> Request:
        database, name = self.names()
        arguments = {"db_name": database, "tbl_name": name, "col_name": self.column()}
        return "get_table_column_statistics", arguments

    def make_get_table_statistics_req(self) -> Request:
        database, name = self.names()
        request = TableStatsRequest(dbName=database, tblName=name, colNames=self.columns(), engine=self.engine())
        if self.rng.random() < 0.2:
            request.catName = self.rng.choice(["hive", "HIVE", "nocat", ""])
        if self.rng.random() < 0.1:
            request.validWriteIdList = f"{database}.{name}:0:9223372036854775807::"
        return "get_table_statistics_req", {"request": request}

    def make_get_partition_column_statistics(self) -> Request:
        note = self.partitioned()
        arguments = {"db_name": note.database, "tbl_name": self.spell(note.name), "col_name": self.column()}
        return "get_partition_column_statistics", {**arguments, "part_name": self.partition_name(note)}

    def make_get_partitions_statistics_req(self) -> Request:
        note = self.partitioned()
        names = [self.partition_name(note) for _ in range(self.rng.choice([0, 1, 3, 20]))]
        places = {"dbName": note.database, "tblName": self.spell(note.name), "partNames": names}
        request = PartitionsStatsRequest(**places, colNames=self.columns(), engine=self.engine())
        return "get_partitions_statistics_req", {"request": request}

    def make_get_aggr_stats_for(self) -> Request:
        """Of three partitions at most: of more, which of several with an extreme value counts is up to its plan."""
        note = self.partitioned()
        names = [self.partition_name(note) for _ in range(self.rng.choice([0, 1, 1, 2, 3]))]
        places = {"dbName": note.database, "tblName": self.spell(note.name), "partNames": names}
        columns = self.columns()[: self.rng.choice([1, 1, 8])]
        request = PartitionsStatsRequest(**places, colNames=columns, engine=self.rng.choice(ENGINES))
        return "get_aggr_stats_for", {"request": request}


class StatisticsChanges(PartOfChanges):
    """Changes of statistics; a part of `Changes`. `statistics_client`: who can make them so that they are followed."""

    statistics_client: MetastoreClient

    def _statistics(self, note: TableNote, **where: Any) -> ColumnStatistics:
        columns = self.rng.sample(COLUMNS, self.rng.randint(1, 3))
        describe = ColumnStatisticsDesc(dbName=note.database, tableName=note.name, **where)
        engine = self.rng.choice([*ENGINES, "hive" if self.world.latin1 else "Odd Engine"])
        return ColumnStatistics(describe, [self._column(column) for column in columns], engine=engine)

    def _column(self, name: str) -> ColumnStatisticsObj:
        types = "int bigint tinyint double float string varchar(30) char(3) boolean binary date".split()
        types += ["timestamp"] if self.statistics_of_timestamps else []
        kind = self.rng.choice([*types, "decimal(20,4)", "INT", "Decimal", "map<string,int>"])
        return ColumnStatisticsObj(name, kind, ColumnStatisticsData(**self._data(kind.lower())))

    statistics_of_timestamps = True

    def _data(self, kind: str) -> dict[str, Any]:
        rng = self.rng
        counts = {"numNulls": rng.randint(0, 9), "numDVs": rng.randint(1, 9)}
        low, high = (rng.choice([None, rng.randint(-(1 << 62), 1 << 62)]) for _ in range(2))
        lengths = {"maxColLen": rng.randint(0, 99), "avgColLen": rng.random() * 50, "numNulls": 0}
        if kind == "boolean":
            return {"booleanStats": BooleanColumnStatsData(rng.randint(0, 9), 2, 0)}
        if kind == "string" or "char" in kind:
            return {"stringStats": StringColumnStatsData(**lengths, numDVs=3, bitVectors=rng.choice([None, b"HL\xff"]))}
        if kind == "binary":
            return {"binaryStats": BinaryColumnStatsData(**lengths)}
        if kind in ("double", "float"):
            bounds = [None if each is None else each / 3 for each in (low, high)]
            return {"doubleStats": DoubleColumnStatsData(*bounds, **counts)}
        if kind.startswith("decimal"):
            decimals = [None if each is None else _decimal(each, rng.randint(0, 4)) for each in (low, high)]
            return {"decimalStats": DecimalColumnStatsData(*decimals, **counts)}
        if kind == "date":
            days = [None if each is None else Date(each % 99_999) for each in (low, high)]
            return {"dateStats": DateColumnStatsData(*days, **counts)}
        if kind == "timestamp":
            times = [None if each is None else Timestamp(each) for each in (low, high)]
            return {"timestampStats": TimestampColumnStatsData(*times, **counts)}
        return {"longStats": LongColumnStatsData(low, high, **counts)}

    def change_table_statistics(self) -> None:
        note = self._note("plain", "iceberg", "partitioned", "managed", "wide", "view")
        statistics = self._statistics(note, isTblLevel=True)
        self._write(variants.update_statistics(statistics), self.statistics_client)

    def change_partition_statistics(self) -> None:
        note, values = self._some_partition()
        statistics = self._statistics(note, isTblLevel=False, partName=self.partition_name(note, values))
        self._write(variants.update_statistics(statistics), self.statistics_client)

    def change_more_partition_statistics(self) -> None:
        """So that some are there to be read."""
        for _ in range(4):
            self.change_partition_statistics()

    def change_delete_table_statistics(self) -> None:
        note = self._note("plain", "iceberg", "partitioned")
        column = self.rng.choice([*COLUMNS, None])
        gone = variants.delete_table_statistics(note.database, note.name, column, self.rng.choice(ENGINES))
        self._write(gone, self.statistics_client)

    def change_delete_partition_statistics(self) -> None:
        note, values = self._some_partition()
        where = note.database, note.name, self.partition_name(note, values)
        gone = variants.delete_partition_statistics(*where, self.rng.choice(COLUMNS), self.rng.choice(ENGINES))
        self._write(gone, self.statistics_client)

    def change_drop_column(self) -> None:
        """The metastore deletes its statistics too, and logs nothing but that the table was altered."""
        note = self._note("plain", "partitioned", "iceberg")
        table = self._table(note)
        if len(table.sd.cols) > 1:
            table.sd.cols.pop()
            self._write(variants.alter_table(note.database, note.name, table, cascade=self.rng.random() < 0.5))


def _decimal(value: int, scale: int) -> Decimal:
    return Decimal(scale=scale, unscaled=value.to_bytes(9, "big", signed=True))
