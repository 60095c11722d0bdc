"""Makes records of partitions from the rows of the database, in large numbers.

Job: make PartitionRecords of partitions whose ids are known. Must not know: how descriptors are built.

A chunk, of one table or of many, costs eight statements: ids (partitions.py), rows (one for each partition), values,
parameters, statistics, and three for the descriptors. A large question is read by two connections at once, if the
database has a second one (second_connection.py).

What replies have (tested with Hive 3.1.3, 4.0.0 and 4.2.0): a WRITE_ID of NULL, 0 or less is -1 in every call (3.1 has
none); descriptors.py has the three forms of the descriptor; everything else is the same in every call. Only the fields
1 to 7, 9 and 10 are ever set.

If the database does not compare the name of a partition by its bytes, the table is Unfit. So is one with a time beyond
32 bits, on which a metastore fails (4.2.0).

Owner: a snapshot.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import chain
from struct import Struct
from struct import error as StructError
from typing import TypeAlias

from sqlalchemy import bindparam, null, select

from hms_cache_proxy.errors import Unfit
from hms_cache_proxy.store import encode
from hms_cache_proxy.store.protocol import SKEWED, PartitionRecord, TableRecord
from hms_cache_proxy.store.sql.descriptors import MAP_TYPES, Descriptors, descriptor_columns
from hms_cache_proxy.store.sql.dialect import Dialect
from hms_cache_proxy.store.sql.schema import Schema
from hms_cache_proxy.store.sql.second_connection import SecondConnection
from hms_cache_proxy.store.sql.statistics import StatisticsReader, StatisticsStatements

_VALUES_HEAD = encode.header(encode.LIST, 1) + encode.EMPTY_STRINGS[:1]
_NO_VALUES = encode.EMPTY_STRINGS[1:]
_PARAMETERS_HEAD = encode.header(encode.MAP, 7) + MAP_TYPES
_NO_PARAMETERS = encode.EMPTY_MAP[2:]
_NO_WRITE_ID = encode.i64_field(10, -1)
_TIMES = Struct(">bhibhi")
_MAX_CHUNK = 5_000  # partitions in one statement: limits memory, and more is slower
_SHARED_CHUNK = 1_000  # the same for each of two connections, at least
_SHARES = 4  # chunks of a question for two connections: while one waits, rows of the other are read

PartitionId: TypeAlias = tuple[TableRecord, int]
"""A partition: its table and its id."""


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
        self.names = database.by_ids(
            lambda among: select(part.PART_ID, part.PART_NAME).where(of_table, among(part.PART_ID))
        )
        whose = select(part.TBL_ID, part.PART_ID, part.PART_NAME).where(database.among_ids(part.TBL_ID, "tables"))
        self.of_tables = database.compile(whose)
        self.named_of_tables = database.compile(whose.where(database.among_texts(part.PART_NAME, "names")))
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


class PartitionRows:
    """Records of one snapshot by one connection."""

    def __init__(self, database: Dialect, statements: PartitionStatements, descriptors: Descriptors) -> None:
        self._database = database
        self._statements = statements
        self._descriptors = descriptors
        self._statistics = StatisticsReader(database, statements.statistics)

    def read(self, parts: Sequence[PartitionId]) -> list[PartitionRecord | Unfit]:
        """The records of some partitions, in a few statements."""
        database, statements = self._database, self._statements
        ids = [id_ for _, id_ in parts]
        rows = {row[0]: row for row in database.rows_by_ids(statements.rows, ids)}
        ordered = [rows[id_] for id_ in ids]
        unfit = self._incomparable(parts, [row[1] for row in ordered])
        values: dict[int, bytes] = dict(database.rows_by_ids(statements.values, ids))
        parameters: dict[int, bytes] = dict(database.rows_by_ids(statements.parameters, ids))
        acid = [table.full_acid for table, _ in parts]
        descriptors = self._descriptors.load([row[5:] for row in ordered], acid)
        statistics = self._statistics.of_partitions(
            {id_: (table.catalog, table.database, table.name, rows[id_][1]) for table, id_ in parts}
        )
        no_write_id = _NO_WRITE_ID if statements.with_write_ids else b""
        records: list[PartitionRecord | Unfit] = []
        for (table, _), row, descriptor in zip(parts, ordered, descriptors, strict=True):
            if table.table_id in unfit:
                records.append(unfit[table.table_id])
                continue
            id_, name, created, accessed, write_id = row[:5]
            head, tail, single, filtered = b"", b"", None, None
            if descriptor is not None:
                if descriptor.skewed:
                    records.append(Unfit(SKEWED, partition=name))
                    continue
                head, tail = descriptor.partition_head, descriptor.tail_list
                single, filtered = descriptor.tail_single, descriptor.tail_filter
            try:
                times = _TIMES.pack(encode.I32, 4, created, encode.I32, 5, accessed)
            except StructError:
                records.append(Unfit("a partition with a time that a metastore cannot return", partition=name))
                continue
            records.append(
                PartitionRecord(
                    name,
                    _VALUES_HEAD + values.get(id_, _NO_VALUES),
                    times,
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

    def _incomparable(self, parts: Sequence[PartitionId], names: Sequence[bytes]) -> dict[int, Unfit]:
        """By table id, an Unfit for each table with a name that the database does not compare by its bytes."""
        incomparable = self._database.incomparable
        if incomparable(names) is None:
            return {}
        of_tables: defaultdict[int, list[bytes]] = defaultdict(list)
        for (table, _), name in zip(parts, names, strict=True):
            of_tables[table.table_id].append(name)
        found: dict[int, Unfit] = {}
        for table_id, some in of_tables.items():
            why = incomparable(some)
            if why is not None:
                found[table_id] = Unfit(why, partition=next((name for name in some if incomparable([name])), None))
        return found


class PartitionReader:
    """Records of one snapshot by one connection, or by two. `of`: the rows as a connection reads them."""

    def __init__(self, rows: PartitionRows, second: SecondConnection | None, of: Callable[[Dialect], PartitionRows]):
        self._rows = rows
        self._second = second
        self._of = of
        self._others: PartitionRows | None = None

    def read(self, parts: Sequence[PartitionId]) -> list[PartitionRecord | Unfit]:
        """The records of these partitions, in this order."""
        second = self._second
        others = self._other_rows(second) if second is not None and len(parts) >= 2 * _SHARED_CHUNK else None
        shared = len(parts) if others is None else max(_SHARED_CHUNK, -(-len(parts) // _SHARES))
        size = min(_MAX_CHUNK, max(shared, 1))
        chunks = [parts[start : start + size] for start in range(0, len(parts), size)]
        if second is None or others is None:
            return list(chain.from_iterable(map(self._rows.read, chunks)))
        return second.of_both(self._rows.read, others.read, chunks)

    def _other_rows(self, second: SecondConnection) -> PartitionRows | None:
        if self._others is None:
            database = second.joined()
            self._others = None if database is None else self._of(database)
        return self._others
