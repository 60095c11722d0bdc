"""Records as rows of Parquet files: nothing is lost on the way there and back."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from hms_cache_proxy.errors import SnapshotError
from hms_cache_proxy.snapshots import rows
from hms_cache_proxy.snapshots.rows import TableRow, WriteIds
from hms_cache_proxy.store.protocol import (
    ColumnStatistics,
    ConstraintKind,
    Constraints,
    DatabaseRecord,
    PartitionRecord,
    StatisticsHead,
    TableRecord,
)

ODD = b"\xff\x00\xfe"
STATISTICS = (
    ColumnStatistics(StatisticsHead(b"hive", b"a", b"\x0b\x00\x01a"), 17, b"\x00\x01"),
    ColumnStatistics(StatisticsHead(b"impala", ODD, ODD), -1, b""),
)
CONSTRAINTS = Constraints({ConstraintKind.PRIMARY_KEY: (b"one", b"two"), ConstraintKind.CHECK: (ODD,)}, (1, 2**63 - 1))
TABLE = TableRecord(
    b"hive", b"db", b"t", 7, b"MANAGED_TABLE", b"body", True, False, ((b"ds", b"string"), (b"h", b"int")), None, True
)
TABLES = [
    TableRow(b"hive", b"db", b"listed", 1, b"VIRTUAL_VIEW"),
    TableRow(b"hive", b"db", b"t", 7, b"MANAGED_TABLE", TABLE, WriteIds(b"db.t:3:9:2::", (2, 9))),
    TableRow(
        b"hive",
        b"db",
        b"u",
        8,
        b"X",
        TableRecord(b"hive", b"db", b"u", 8, b"X", ODD, False, True, (), ODD, False, CONSTRAINTS, STATISTICS),
        WriteIds(b"db.u:3:9::", ()),
    ),
    TableRow(
        b"hive",
        b"db",
        b"v",
        9,
        b"X",
        TableRecord(b"hive", b"db", b"v", 9, b"X", b"", False, False, (), b"l", False, Constraints(), ()),
    ),
]


def part(name: bytes, **fields: Any) -> PartitionRecord:
    return PartitionRecord(name, b"values", b"times", b"loc", b"p", b"tail", b"head", b"sd", **fields)


def file_of(kind: str, values: list[tuple[Any, ...]], per_group: int = 2) -> bytes:
    buffer = io.BytesIO()
    table = pyarrow.Table.from_batches([rows.batch(kind, values)])
    pyarrow.parquet.write_table(table, buffer, row_group_size=per_group)
    return buffer.getvalue()


def test_tables() -> None:
    assert list(rows.tables(file_of(rows.TABLES, [rows.table_row(0, row) for row in TABLES]))) == TABLES


def test_tables_of_format_1() -> None:
    """They have no summaries."""
    batch = rows.batch(rows.TABLES, [rows.table_row(0, row) for row in TABLES])
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.Table.from_batches([batch]).drop_columns(["summary"]), buffer)
    older = [row if row.record is None else replace(row, record=replace(row.record, summary=None)) for row in TABLES]
    assert list(rows.tables(buffer.getvalue())) == older


def test_changes() -> None:
    """Runs end where the table or the kind of change does, and may end within a table, like those of partitions."""
    values = [
        rows.change_row("all", 5),
        (*rows.partition_row(0, 5, part(b"a")), "set"),
        (*rows.partition_row(0, 5, part(b"b")), "set"),
        rows.change_row("drop", 6, b"x"),
        rows.change_row("drop", 6, b"y"),
        (*rows.unfit_row(0, 7, "odd"), "set"),
    ]
    expected = [
        ("all", 5, None, [None]),
        ("set", 5, None, [b"a", b"b"]),
        ("drop", 6, None, [b"x", b"y"]),
        ("set", 7, "odd", [None]),
    ]
    whole = rows.changes(file_of(rows.CHANGES, values, per_group=len(values)))
    assert [(change, run.table_id, run.unfit, run.names()) for change, run in whole] == expected
    found: dict[tuple[str, int, str | None], list[bytes]] = {}
    for change, run in rows.changes(file_of(rows.CHANGES, values, per_group=2)):
        found.setdefault((change, run.table_id, run.unfit), []).extend(run.names())
    assert [(*key, names) for key, names in found.items()] == expected


def test_databases() -> None:
    found = [DatabaseRecord(b"hive", b"a", ODD, True), DatabaseRecord(b"hive", b"b", b"", False, b"l")]
    assert list(rows.databases(file_of(rows.DATABASES, [rows.database_row(3, one) for one in found]))) == found


def test_partitions_of_several_tables() -> None:
    records = [
        part(b"a"),
        part(b"b", sd_tail_single=b"single", sd_tail_filter=ODD, statistics=STATISTICS),
        part(b"c", statistics=None),
        PartitionRecord(b"d", b"", b"", None, b"", b"", b"", b""),
    ]
    values = [
        *(rows.partition_row(0, 5, record) for record in records),
        rows.unfit_row(1, 6, "odd"),
        rows.partition_row(1, 7, records[1]),
    ]
    found: dict[int, list[PartitionRecord]] = {}
    reasons = {}
    for run in rows.partitions(file_of(rows.PARTITIONS, values)):
        reasons[run.table_id] = run.unfit
        if run.unfit is None:
            found.setdefault(run.table_id, []).extend(run.records())
    assert found == {5: records, 7: [records[1]]}
    assert reasons == {5: None, 6: "odd", 7: None}


def test_partitions_of_wanted_tables() -> None:
    """Row groups without one are not decoded: here the one of table 6 is damaged."""
    values = [rows.partition_row(0, table_id, part(b"p")) for table_id in (5, 5, 6, 6, 7, 8)]
    file = file_of(rows.PARTITIONS, values)
    column = pyarrow.parquet.ParquetFile(io.BytesIO(file)).metadata.row_group(1).column(2)
    begin = column.dictionary_page_offset
    damaged = file[:begin] + b"\xff" * column.total_compressed_size + file[begin + column.total_compressed_size :]
    found = [(run.table_id, len(run.records())) for run in rows.partitions(damaged, {5, 8})]
    assert found == [(5, 2), (8, 1)]
    for wanted in ({5, 6}, None):
        with pytest.raises(SnapshotError, match="cannot be read"):
            list(rows.partitions(damaged, wanted))


def test_no_rows() -> None:
    assert not list(rows.partitions(file_of(rows.PARTITIONS, [])))


def test_what_is_no_such_file() -> None:
    with pytest.raises(SnapshotError, match="cannot be read"):
        list(rows.tables(b"PAR1 not really"))
    with pytest.raises(SnapshotError, match="has the columns"):
        list(rows.tables(file_of(rows.DATABASES, [])))
