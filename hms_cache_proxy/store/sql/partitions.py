"""Partitions from the database, by the ten thousand.

Job: PartitionRecords of one table in order of their names. Must not know: how descriptors are built.

A chunk costs eight statements: its ids in order, rows (one per partition), values, parameters, statistics, and three
for the descriptors. Names are sorted apart from the rows, so the server never sorts wide rows; where its collation is
not binary it sorts the names that are left of the table for each chunk.

Which reply shows what (found by asking Hive 3.1.3, 4.0.0 and 4.2.0): a WRITE_ID of NULL, 0 or less is -1 everywhere
(3.1 has none); the
descriptor's three variants are in sql_descriptors; everything else is the same in every call. No field but 1 to 7,
9 and 10 is ever set.

A partition whose name the database compares otherwise than by its bytes makes its table Unfit.

Owner: a snapshot.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from struct import Struct

from sqlalchemy import bindparam, null, select

from hms_cache_proxy.errors import Unfit
from hms_cache_proxy.store import encode
from hms_cache_proxy.store.protocol import SKEWED, PartitionRecord, TableName, TableRecord
from hms_cache_proxy.store.sql.descriptors import MAP_TYPES, Descriptors, descriptor_columns
from hms_cache_proxy.store.sql.dialect import Dialect
from hms_cache_proxy.store.sql.schema import Schema
from hms_cache_proxy.store.sql.statistics import StatisticsReader, StatisticsStatements

_VALUES_HEAD = encode.header(encode.LIST, 1) + encode.EMPTY_STRINGS[:1]
_NO_VALUES = encode.EMPTY_STRINGS[1:]
_PARAMETERS_HEAD = encode.header(encode.MAP, 7) + MAP_TYPES
_NO_PARAMETERS = encode.EMPTY_MAP[2:]
_NO_WRITE_ID = encode.i64_field(10, -1)
_TIMES = Struct(">bhibhi")
_MAX_CHUNK = 5_000  # partitions a statement fetches at once: bounds memory, and more is slower


class PartitionStatements:
    """The statements, compiled once per store."""

    def __init__(self, schema: Schema, database: Dialect) -> None:
        part, values, parameters = (
            schema["PARTITIONS"].c,
            schema["PARTITION_KEY_VALS"].c,
            schema["PARTITION_PARAMS"].c,
        )
        storage, serdes, value = schema["SDS"], schema["SERDES"], values.PART_KEY_VAL
        name = database.bytewise(part.PART_NAME)
        of_table = part.TBL_ID == bindparam("table_id")
        walk = select(part.PART_ID).where(of_table, name > bindparam("after")).order_by(name)
        self.ids = database.compile(walk)
        self.page = database.compile(walk.limit(bindparam("limit")))
        self.ids_named = database.compile(
            select(part.PART_ID).where(of_table, database.among_texts(part.PART_NAME, "names")).order_by(name)
        )
        self.with_write_ids = "WRITE_ID" in part
        write_id = part.WRITE_ID if self.with_write_ids else null()
        joined = schema["PARTITIONS"].outerjoin(storage, storage.c.SD_ID == part.SD_ID)
        self.rows = database.by_ids(
            lambda among: select(
                part.PART_ID, part.PART_NAME, part.CREATE_TIME, part.LAST_ACCESS_TIME, write_id,
                *descriptor_columns(schema)
            )
            .select_from(joined.outerjoin(serdes, serdes.c.SERDE_ID == storage.c.SERDE_ID))
            .where(among(part.PART_ID))
        )  # fmt: skip
        self.values = database.by_ids(
            lambda among: (
                select(values.PART_ID, database.counted(database.string(value), value, values.INTEGER_IDX))
                .where(among(values.PART_ID))
                .group_by(values.PART_ID)
            )
        )
        self.statistics = StatisticsStatements(schema, database)
        self.parameters = database.maps_by_ids(parameters.PART_ID, parameters.PARAM_KEY, parameters.PARAM_VALUE)


class SqlPartitions:
    """Partitions of one snapshot."""

    def __init__(self, database: Dialect, statements: PartitionStatements, descriptors: Descriptors) -> None:
        self._database = database
        self._statements = statements
        self._descriptors = descriptors
        self._statistics = StatisticsReader(database, statements.statistics)

    def named(self, table: TableRecord, names: Sequence[bytes], limit: int | None) -> list[PartitionRecord]:
        """The named ones which exist."""
        wanted = self._database.text_list(names)
        if not wanted:
            return []
        rows = self._database.rows(self._statements.ids_named, table_id=table.table_id, names=wanted)
        return self._records(table, [row[0] for row in rows][:limit])

    def after(self, table: TableRecord, after: bytes | None, limit: int | None) -> list[PartitionRecord]:
        """Those whose names come after `after`, at most `limit`."""
        place = {"table_id": table.table_id, "after": (after or b"").decode()}
        if limit is not None:
            return self._records(
                table, [row[0] for row in self._database.rows(self._statements.page, **place, limit=limit)]
            )
        ids = array("q")
        for batch in self._database.stream(self._statements.ids, **place):
            ids.extend(row[0] for row in batch)
        return self._records(table, ids)

    def _records(self, table: TableRecord, ids: Sequence[int]) -> list[PartitionRecord]:
        records: list[PartitionRecord] = []
        for start in range(0, len(ids), _MAX_CHUNK):
            records += self._chunk(table, ids[start : start + _MAX_CHUNK])
        return records

    def _chunk(self, table: TableRecord, ids: Sequence[int]) -> list[PartitionRecord]:
        database, statements = self._database, self._statements
        rows = {row[0]: row for row in database.rows_by_ids(statements.rows, ids)}
        ordered = [rows[id_] for id_ in ids]
        why = database.incomparable([row[1] for row in ordered])
        if why is not None:
            raise Unfit(why)
        values: dict[int, bytes] = dict(database.rows_by_ids(statements.values, ids))
        parameters: dict[int, bytes] = dict(database.rows_by_ids(statements.parameters, ids))
        descriptors = self._descriptors.load([row[5:] for row in ordered], full_acid=table.full_acid)
        owner = TableName(table.catalog, table.database, table.name, table.table_id)
        statistics = self._statistics.of_partitions(owner, {row[0]: row[1] for row in ordered})
        no_write_id = _NO_WRITE_ID if statements.with_write_ids else b""
        records = []
        for row, descriptor in zip(ordered, descriptors, strict=True):
            id_, name, created, accessed, write_id = row[:5]
            head, tail, single, filtered = b"", b"", None, None
            if descriptor is not None:
                if descriptor.skewed:
                    raise Unfit(SKEWED)
                head, tail = descriptor.partition_head, descriptor.tail_list
                single, filtered = descriptor.tail_single, descriptor.tail_filter
            records.append(
                PartitionRecord(
                    name,
                    _VALUES_HEAD + values.get(id_, _NO_VALUES),
                    _TIMES.pack(encode.I32, 4, created, encode.I32, 5, accessed),
                    row[6],
                    _PARAMETERS_HEAD + parameters.get(id_, _NO_PARAMETERS),
                    encode.i64_field(10, write_id) if write_id is not None and write_id > 0 else no_write_id,
                    head,
                    tail,
                    single,
                    filtered,
                    statistics.get(id_, ()),
                )
            )
        return records
