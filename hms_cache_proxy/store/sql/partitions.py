"""Decides which partitions to read: those of a table in the order of their names, or those of many tables.

Job: find the ids of partitions, and have their records read (partition_rows.py). Names are sorted separately from the
rows, so the server never sorts wide rows. If the collation is not binary, a table that is read in chunks is listed once
(listings.py). Must not know: what a record has.

Owner: a snapshot.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from hms_cache_proxy.errors import Unfit
from hms_cache_proxy.store.protocol import PartitionRecord, SomePartitions, TableRecord
from hms_cache_proxy.store.sql.dialect import Dialect
from hms_cache_proxy.store.sql.listings import LISTED, NamedId, Walk, Walks
from hms_cache_proxy.store.sql.partition_rows import PartitionReader, PartitionStatements

_MAX_PAIRS = 50_000  # of a table and a name, in one statement
_MAX_NAMES = 10_000  # in one statement
_MAX_NAME_BYTES = 1 << 20
"""Of all names in one statement. MySQL gets each of them twice, as a literal, and MariaDB takes no statement of more
than 16 MB (max_allowed_packet)."""


class SqlPartitions:
    """Partitions of one snapshot."""

    def __init__(
        self, database: Dialect, statements: PartitionStatements, reader: PartitionReader, walks: Walks
    ) -> None:
        self._walks = None if database.is_binary else walks  # else an index has the order
        self._database = database
        self._statements = statements
        self._reader = reader

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
            records = self._reader.read([(wanted[at].table, id_) for at, _, id_ in parts])
            for (at, _, _), record in zip(parts, records, strict=True):
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
            for some in _statements(frozenset[bytes]().union(*names.values())):
                texts = database.text_list(some)
                if not texts:
                    continue
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
        for record in self._reader.read([(table, id_) for id_ in ids]):
            if isinstance(record, Unfit):
                raise record
            records.append(record)
        return records


def _place(table: TableRecord, after: bytes | None) -> dict[str, Any]:
    return {"table_id": table.table_id, "after": (after or b"").decode()}


def _statements(names: Iterable[bytes]) -> Iterator[list[bytes]]:
    """The names, as many at a time as a statement may have."""
    some: list[bytes] = []
    size = 0
    for name in names:
        if some and (len(some) == _MAX_NAMES or size + len(name) > _MAX_NAME_BYTES):
            yield some
            some, size = [], 0
        some.append(name)
        size += len(name)
    if some:
        yield some


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
