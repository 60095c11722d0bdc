"""How a catalog is divided into stretches that are read independently, and stretches into tasks.

Job: divide the lists of names in the driver's snapshot into stretches of similar cost, in the order of the catalog
(names bytewise), and these into as many tasks as there may be connections. Must not know: Spark, files.

Owner: the driver's process.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from sqlalchemy import bindparam, func, literal_column, select

from hms_cache_proxy.config.selection import Selection
from hms_cache_proxy.pipeline.progress import Sized
from hms_cache_proxy.store.protocol import DatabaseKey, Snapshot, TableKey
from hms_cache_proxy.store.sql.store import SqlStore

TABLES_PER_STRETCH: Final = 100
PARTITIONS_PER_STRETCH: Final = 25_000
"""Partitions that a task reads and holds in memory at once."""

COUNTED_AT_ONCE: Final = 10_000
TABLE_COST: Final = 10
"""Number of partitions that cost as much as a table (follower/reading.py)."""


@dataclass(frozen=True, slots=True)
class StretchTable:
    """A table in a listing."""

    name: bytes
    table_type: bytes
    table_id: int
    admitted: bool


@dataclass(frozen=True, slots=True)
class TableStretch:
    """Consecutive tables of one database."""

    place: int
    database: DatabaseKey
    tables: tuple[StretchTable, ...]

    @property
    def size(self) -> int:
        return len(self.tables)

    @property
    def cost(self) -> int:
        return len(self.tables) * TABLE_COST


@dataclass(frozen=True, slots=True)
class Partitioned:
    """What is needed to read a table's partitions."""

    catalog: bytes
    database: bytes
    name: bytes
    table_id: int
    full_acid: bool

    @property
    def key(self) -> TableKey:
        return self.catalog, self.database, self.name


@dataclass(frozen=True, slots=True)
class PartitionStretch:
    """All partitions of consecutive tables; or the partitions of one table with names after `after`, up to `until`."""

    place: int
    tables: tuple[Partitioned, ...]
    partitions: int
    after: bytes | None = None
    until: bytes | None = None

    @property
    def size(self) -> int:
        return self.partitions

    @property
    def cost(self) -> int:
        return self.partitions + len(self.tables) * TABLE_COST


class _Costs(Sized, Protocol):
    """`cost`: of its objects, in partitions."""

    @property
    def cost(self) -> int: ...


S = TypeVar("S", bound=_Costs)


def table_stretches(snapshot: Snapshot, databases: Iterable[DatabaseKey], selection: Selection) -> list[TableStretch]:
    """Every table of these databases."""
    found: list[TableStretch] = []
    for database in databases:
        tables = [
            StretchTable(name, kind, id_, selection.admits(database[1], name))
            for name, kind, id_ in snapshot.table_names(*database)
        ]
        for start in range(0, len(tables), TABLES_PER_STRETCH):
            found.append(TableStretch(len(found), database, tuple(tables[start : start + TABLES_PER_STRETCH])))
    return found


def partition_stretches(store: SqlStore, snapshot: Snapshot, tables: Sequence[Partitioned]) -> list[PartitionStretch]:
    """Every partition of these tables, which are in the order of the catalog."""
    counts: dict[int, int] = {}
    for start in range(0, len(tables), COUNTED_AT_ONCE):
        counts |= snapshot.partition_counts([table.table_id for table in tables[start : start + COUNTED_AT_ONCE]])
    found: list[PartitionStretch] = []
    some: list[Partitioned] = []
    room = PARTITIONS_PER_STRETCH
    for table in tables:
        count = counts[table.table_id]
        if not count:
            continue
        if some and count > room:
            found.append(PartitionStretch(len(found), tuple(some), PARTITIONS_PER_STRETCH - room))
            some, room = [], PARTITIONS_PER_STRETCH
        if count > PARTITIONS_PER_STRETCH:
            found += _of_large(store, table, count, len(found))
        else:
            some.append(table)
            room -= count
    if some:
        found.append(PartitionStretch(len(found), tuple(some), PARTITIONS_PER_STRETCH - room))
    return found


def _of_large(store: SqlStore, table: Partitioned, count: int, place: int) -> list[PartitionStretch]:
    """One table in several stretches; the database says at which names they end."""
    part = store.schema["PARTITIONS"].c
    name = store.database.bytewise(part.PART_NAME)
    numbered = (
        select(part.PART_NAME.label("name"), func.row_number().over(order_by=name).label("number"))
        .where(part.TBL_ID == bindparam("table_id"))
        .subquery()
        .c
    )
    every = PARTITIONS_PER_STRETCH
    ends = select(numbered.name).where(func.mod(numbered.number, literal_column(str(every))) == literal_column("0"))
    statement = store.database.compile(ends.order_by(numbered.number))
    names: list[bytes | None] = [row[0] for row in store.database.rows(statement, table_id=table.table_id)]
    return [
        PartitionStretch(place + number, (table,), min(every, max(count - number * every, 0)), after, until)
        for number, (after, until) in enumerate(zip([None, *names], [*names, None], strict=True))
    ]


def tasks(stretches: Sequence[S], most: int) -> list[list[S]]:
    """The stretches in at most `most` consecutive lists of similar cost; each list takes one connection."""
    total = sum(stretch.cost for stretch in stretches)
    found: list[list[S]] = []
    spent = 0
    for stretch in stretches:
        if not found or (spent * most >= total * len(found) and len(found) < most):
            found.append([])
        found[-1].append(stretch)
        spent += stretch.cost
    return found
