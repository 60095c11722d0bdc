"""Parts of statements for SQLite: conditions on lists, wire bytes made by functions of this process.

Job: provide what SQLAlchemy does not have. Lists are parameters in JSON. FUNCTIONS and AGGREGATES take and return
bytes; the connection registers them by these names. Must not know: connections, the metastore's tables.

Marks. Nothing in a row of SQLite shows that it was written. So the embedded metastore keeps marks itself: triggers on
the tables that change without an event write a new random value into a row of MARKS, in the transaction of the change
(embedded/marks.py).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from struct import Struct
from typing import Any, Final

from sqlalchemy import (
    LargeBinary,
    Subquery,
    Table,
    bindparam,
    cast,
    column,
    func,
    literal_column,
    null,
    select,
    table,
)
from sqlalchemy.dialects import sqlite
from sqlalchemy.dialects.sqlite.base import SQLiteCompiler

from hms_cache_proxy.store import encode
from hms_cache_proxy.store.sql.common import CommonPieces
from hms_cache_proxy.store.sql.dialect import ByIds, Column, Condition
from hms_cache_proxy.store.sql.marked_tables import MARKS


class _Compiler(SQLiteCompiler):
    def limit_clause(self, select: Any, **options: Any) -> str:
        """Leaves out SQLAlchemy's OFFSET, which would be another parameter."""
        return "\n LIMIT " + self.process(select._limit_clause, **options)


_NAMED = sqlite.dialect(paramstyle="named")
_NAMED.statement_compiler = _Compiler
_COUNT = Struct(">i")
_MARKS = table(MARKS, column("MARKED"), column("MARK"))


def _string(value: bytes | None) -> bytes | None:
    return None if value is None else encode.string(value)


def _struct(*fields: Any) -> bytes:
    """(number, value) for each field of a struct of strings."""
    pairs = zip(fields[::2], fields[1::2], strict=True)
    return b"".join([encode.string_field(number, value) for number, value in pairs]) + encode.STOP


class _Counted:
    """The number of rows where the second argument is not NULL, then the first arguments in the order of the third."""

    __slots__ = ("_count", "_items")

    def __init__(self) -> None:
        self._count = 0
        self._items: list[tuple[Any, bytes]] = []

    def step(self, item: bytes | None, present: object, order: Any) -> None:
        self._count += present is not None
        if item is not None:
            self._items.append((order, item))

    def finalize(self) -> bytes:
        self._items.sort()
        return _COUNT.pack(self._count) + b"".join([item for _, item in self._items])


class _Map:
    """The items of a map<string,string> in the order of their keys. Pairs with NULL are left out."""

    __slots__ = ("_pairs",)

    def __init__(self) -> None:
        self._pairs: list[tuple[bytes, bytes]] = []

    def step(self, *pair: Any) -> None:
        self._pairs.append(pair)

    def finalize(self) -> bytes:
        pack = _COUNT.pack
        pairs = sorted(pair for pair in self._pairs if None not in pair)
        items = [pack(len(key)) + key + pack(len(value)) + value for key, value in pairs]
        return pack(len(items)) + b"".join(items)


FUNCTIONS: Final[dict[str, tuple[int, Callable[..., bytes | None]]]] = {
    "wire_string": (1, _string),
    "wire_struct": (-1, _struct),
}
"""By name: the number of arguments (-1: any), and the function."""

AGGREGATES: Final[dict[str, tuple[int, type]]] = {"wire_counted": (3, _Counted), "wire_map": (2, _Map)}


class SQLitePieces(CommonPieces):
    """Makes statements and parts of them. `marked`: the database keeps marks."""

    compiler = _NAMED
    is_binary = True
    marked = False

    def among_ids(self, of: Column, name: str) -> Condition:
        return _among(of, name)

    def id_list(self, ids: Iterable[int]) -> object:
        """In JSON."""
        return json.dumps(list(ids))

    def among_texts(self, of: Column, name: str) -> Condition:
        return _among(of, name)

    def pairs(self, first: Column, second: Column) -> Subquery:
        pair = func.json_each(bindparam("pairs")).table_valued("value").c.value
        parts = (
            func.json_extract(pair, literal_column("'$[0]'")).label("first"),
            func.json_extract(pair, literal_column("'$[1]'")).label("second"),
        )
        return select(*parts).subquery("wanted")

    def bytewise(self, of: Column) -> Column:
        return of

    def size(self, of: Column) -> Column:
        """In characters: not every SQLite counts bytes."""
        return func.length(of)

    def digest(self, of: Column) -> Column:
        """The text itself, because it is not sent over a network."""
        return of

    def mark(self, of: Table, most: int) -> Column:
        """The mark, however many rows the table has; NULL if the database keeps no marks."""
        if not self.marked:
            return null()
        name: Column = literal_column(f"'{of.name}'")
        return select(_MARKS.c.MARK).where(_MARKS.c.MARKED == name).scalar_subquery()

    def string(self, of: Column) -> Column:
        return func.wire_string(cast(of, LargeBinary))

    def struct(self, fields: dict[int, Column]) -> Column:
        arguments: list[Column] = []
        for number, of in fields.items():
            arguments += [literal_column(str(number)), cast(of, LargeBinary)]
        return func.wire_struct(*arguments)

    def counted(self, item: Column, present: Column, order: Column | None = None) -> Column:
        return func.wire_counted(item, present, literal_column("0") if order is None else order)

    def maps_by_ids(self, owner: Column, key: Column, value: Column) -> ByIds:
        items = func.wire_map(cast(key, LargeBinary), cast(value, LargeBinary))
        return self.by_ids(lambda among: select(owner, items).where(among(owner)).group_by(owner))


def _among(of: Column, name: str) -> Condition:
    listed = func.json_each(bindparam(name)).table_valued("value")
    return of.in_(select(listed.c.value))
