"""Partitions from the database, in large numbers.

Job: PartitionRecords of tables, in the order of their names. Must not know: how descriptors are built.

A chunk, of one table or of many, costs eight statements: ids, rows (one for each partition), values, parameters,
statistics, and three for the descriptors. Names are sorted separately from the rows, so the server never sorts wide
rows. If the collation is not binary, a table that is read in chunks is listed once (listings.py).

What replies have (tested with Hive 3.1.3, 4.0.0 and 4.2.0): a WRITE_ID of NULL, 0 or less is -1 in every call (3.1 has
none); descriptors.py has the three forms of the descriptor; everything else is the same in every call. Only the fields
1 to 7, 9 and 10 are ever set.

If the database does not compare the name of a partition by its bytes, the table is Unfit.

Owner: a snapshot.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Any

from sqlalchemy import bindparam, null, select

from hms_cache_proxy.errors import Unfit
from hms_cache_proxy.store import encode
from hms_cache_proxy.store.protocol import SKEWED, PartitionRecord, SomePartitions, TableRecord
from hms_cache_proxy.store.sql.descriptors import MAP_TYPES, Descriptors, descriptor_columns
from hms_cache_proxy.store.sql.dialect import Dialect
from hms_cache_proxy.store.sql.listings import LISTED, NamedId, Walk, Walks
from hms_cache_proxy.store.sql.schema import Schema
from hms_cache_proxy.store.sql.statistics import StatisticsReader, StatisticsStatements

_VALUES_HEAD = encode.header(encode.LIST, 1) + encode.EMPTY_STRINGS[:1]
_NO_VALUES = encode.EMPTY_STRINGS[1:]
_PARAMETERS_HEAD = encode.header(encode.MAP, 7) + MAP_TYPES
_NO_PARAMETERS = encode.EMPTY_MAP[2:]
_NO_WRITE_ID = encode.i64_field(10, -1)
_TIMES = Struct(">bhibhi")
_MAX_PAIRS = 50_000  # of a table and a name, in one statement
_MAX_CHUNK = 5_000  # partitions in one statement: limits memory, and more is slower


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


class SqlPartitions:
    """Partitions of one snapshot."""

    def __init__(
        self, database: Dialect, statements: PartitionStatements, descriptors: Descriptors, walks: Walks
    ) -> None:
        self._walks = None if database.is_binary else walks  # else an index has the order
        self._database = database
        self._statements = statements
        self._descriptors = descriptors
        self._statistics = StatisticsReader(database, statements.statistics)

    def named(self, table: TableRecord, names: Sequence[bytes], limit: int | None) -> list[PartitionRecord]:
        """The named partitions that exist."""
        (found,) = self.of([SomePartitions(table, names)])
        if isinstance(found, Unfit):
            raise found
        return found[:limit]

    def after(self, table: TableRecord, after: bytes | None, limit: int | None) -> list[PartitionRecord]:
        """The partitions whose names come after `after`, at most `limit`."""
        if limit is None:
            ids = array("q")
            for batch in self._database.stream(self._statements.ids, **_place(table, after)):
                ids.extend(row[0] for row in batch)
            return self._records(table, ids)
        if self._walks is not None and after is not None and self._walks.goes_on(table.table_id, after):
            return self._records(table, self._listed(self._walks, table, after, limit))
        found = self._records(table, self._page(table, after, limit))
        if self._walks is not None:
            self._walks.page(table.table_id, found[-1].name if len(found) == limit else None)
        return found

    def _page(self, table: TableRecord, after: bytes | None, limit: int) -> array[int]:
        rows = self._database.rows(self._statements.page, **_place(table, after), limit=limit)
        return array("q", (row[0] for row in rows))

    def _listed(self, walks: Walks, table: TableRecord, after: bytes, limit: int) -> array[int]:
        """The next ids of a walk."""
        found = array("q")
        while len(found) < limit:
            listing = walks.listings.get(table.table_id)
            if listing is None or listing.last != after or (listing.done and not listing.complete):
                ids = array("q")
                place = _place(table, after)
                for batch in self._database.stream(self._statements.page, **place, limit=LISTED):
                    ids.extend(row[0] for row in batch)
                listing = walks.begin(table.table_id, Walk(ids, after, more=len(ids) == LISTED))
            wanted = limit - len(found)
            rows = self._called(table, listing.next(wanted))
            taken = listing.take(rows, self._called(table, listing.ahead()), wanted)
            if taken is None:
                walks.page(table.table_id, None)
                return found + self._page(table, after, wanted)
            found.extend(taken)
            after = listing.last
            if listing.done and listing.complete and len(taken) < wanted:
                walks.page(table.table_id, None)
                break
        return found

    def _called(self, table: TableRecord, ids: Sequence[int]) -> list[NamedId]:
        """The partitions with these ids that the table still has, with their current names."""
        wanted = frozenset(ids)
        rows = self._database.rows_by_ids(self._statements.names, ids, table_id=table.table_id)
        return [(name, id_) for id_, name in rows if id_ in wanted]

    def of(self, wanted: Sequence[SomePartitions]) -> list[list[PartitionRecord] | Unfit]:
        """Partitions of several tables; Unfit for a table whose partitions the cache cannot hold."""
        found: list[list[PartitionRecord] | Unfit] = [[] for _ in wanted]
        parts = self._parts(wanted)
        try:
            for start in range(0, len(parts), _MAX_CHUNK):
                some = parts[start : start + _MAX_CHUNK]
                records = self._chunk([(wanted[at].table, id_) for at, _, id_ in some])
                for (at, _, _), record in zip(some, records, strict=True):
                    of_table = found[at]
                    if isinstance(record, Unfit):
                        found[at] = record
                    elif not isinstance(of_table, Unfit):
                        of_table.append(record)
        except Unfit as error:  # of a statement for several tables: find out which one it is
            return [error] if len(wanted) == 1 else [self.of([one])[0] for one in wanted]
        return found

    def _parts(self, wanted: Sequence[SomePartitions]) -> list[tuple[int, bytes, int]]:
        """(index in `wanted`, name, id) of every partition, sorted."""
        parts: list[tuple[int, bytes, int]] = []
        database, statements = self._database, self._statements
        whole = {one.table.table_id: at for at, one in enumerate(wanted) if one.names is None}
        if whole:
            rows = database.rows(statements.of_tables, tables=database.id_list(whole))
            parts += [(whole[table_id], name, id_) for table_id, id_, name in rows]
        for start, end in _runs(wanted):
            by_id = {wanted[at].table.table_id: at for at in range(start, end) if wanted[at].names}
            names = {at: frozenset(wanted[at].names or ()) for at in by_id.values()}
            texts = database.text_list(list(frozenset().union(*names.values())))
            if texts:
                tables = database.id_list(by_id)
                rows = database.rows(statements.named_of_tables, tables=tables, names=texts)
                found = ((by_id[table_id], name, id_) for table_id, id_, name in rows)
                parts += [part for part in found if part[1] in names[part[0]]]
        parts.sort()
        if self._walks is not None:
            self._tell(self._walks, wanted, parts)
        return parts

    @staticmethod
    def _tell(walks: Walks, wanted: Sequence[SomePartitions], parts: Sequence[tuple[int, bytes, int]]) -> None:
        for at, (table, names) in enumerate(wanted):
            listing = walks.listings.get(table.table_id)
            if listing is not None and names is not None:
                listing.told(names, [(name, id_) for of, name, id_ in parts if of == at])

    def _records(self, table: TableRecord, ids: Sequence[int]) -> list[PartitionRecord]:
        records: list[PartitionRecord] = []
        for start in range(0, len(ids), _MAX_CHUNK):
            for record in self._chunk([(table, id_) for id_ in ids[start : start + _MAX_CHUNK]]):
                if isinstance(record, Unfit):
                    raise record
                records.append(record)
        return records

    def _chunk(self, parts: Sequence[tuple[TableRecord, int]]) -> list[PartitionRecord | Unfit]:
        """The records of `parts`, each (table, id)."""
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
                    records.append(Unfit(SKEWED))
                    continue
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

    def _incomparable(self, parts: Sequence[tuple[TableRecord, int]], names: Sequence[bytes]) -> dict[int, Unfit]:
        """By table id, an Unfit for each table with a name that the database does not compare by its bytes."""
        if self._database.incomparable(names) is None:
            return {}
        of_tables: defaultdict[int, list[bytes]] = defaultdict(list)
        for (table, _), name in zip(parts, names, strict=True):
            of_tables[table.table_id].append(name)
        found = {table_id: self._database.incomparable(some) for table_id, some in of_tables.items()}
        return {table_id: Unfit(why) for table_id, why in found.items() if why is not None}


def _place(table: TableRecord, after: bytes | None) -> dict[str, Any]:
    return {"table_id": table.table_id, "after": (after or b"").decode()}


def _runs(wanted: Sequence[SomePartitions]) -> Iterator[tuple[int, int]]:
    """Ranges of tables whose named partitions are searched in one statement. It searches every name in each of these
    tables, so a range has at most _MAX_PAIRS such pairs."""
    start, names = 0, 0
    for at, one in enumerate(wanted):
        more = len(one.names or ())
        if at > start and (at - start + 1) * (names + more) > _MAX_PAIRS:
            yield start, at
            start, names = at, 0
        names += more
    yield start, len(wanted)
