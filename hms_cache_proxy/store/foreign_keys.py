"""Foreign keys without what belongs to the table that they refer to, the parent.

Job: pack and unpack the elements of `ConstraintKind.FOREIGN_KEY` and of `ConstraintKind.PLACES`, and put foreign keys
together with the primary keys of their parents. Must not know: databases, caches.

A foreign key shows its parent's name, and the name and column of the parent's primary key. A metastore (3.1.3, 4.0.0,
4.2.0: getForeignKeys of its MetaStoreDirectSql) finds them by the place of the column: the column descriptor, and the
number in it. It does not show a foreign key to a place where the parent has no column of its primary key: if the key
refers to a unique constraint, or the primary key was dropped. ALTER TABLE of a parent's columns moves both sides to a
new descriptor, by name, and logs only the parent. So the sides fit together only if both were read from the same state
of the parent; if the parent lacks the place, they were not.

    foreign key   u64 id of the parent, u64 descriptor (0: none, so the key is never shown), i32 number, u32 offset of
                  field 11, u32 length; then SQLForeignKey without fields 1 to 3 and 11, with its stop byte
    place         u64 descriptor (0: none), i32 number; one for each element of the primary key, in the same order

Owner: any process; no state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Final, NamedTuple

from hms_cache_proxy.store import encode
from hms_cache_proxy.wire import spec

_KEY: Final = Struct(">QQiII")
_PLACE: Final = Struct(">Qi")

ColumnPlace = tuple[int, int]
"""A column descriptor, and the number of a column in it."""

NOWHERE: Final[ColumnPlace] = (0, 0)


class ForeignKey(NamedTuple):
    """One column of a foreign key. `before`: fields 4 to 10 of SQLForeignKey, `after`: fields 12 and up, and the stop
    byte."""

    parent: int
    place: ColumnPlace
    before: bytes
    after: bytes

    def pack(self) -> bytes:
        """The element."""
        length = len(self.before) + len(self.after)
        return _KEY.pack(self.parent, *self.place, len(self.before), length) + self.before + self.after

    @property
    def name(self) -> bytes:
        """The name of the constraint."""
        row, _ = spec.decode(spec.struct("SQLForeignKey"), self.before + self.after, 0)
        return row.fk_name or b""


class PrimaryColumn(NamedTuple):
    """A column of a primary key, and the key's name."""

    column: bytes
    key: bytes


class Parent(NamedTuple):
    """A table that has a primary key."""

    database: bytes
    table: bytes
    columns: dict[ColumnPlace, PrimaryColumn]


def places_pack(places: Iterable[ColumnPlace]) -> tuple[bytes, ...]:
    """The elements of PLACES."""
    return tuple(_PLACE.pack(*place) for place in places)


def foreign_keys(number: int, elements: bytes) -> Iterator[ForeignKey]:
    """So many elements."""
    at = 0
    for _ in range(number):
        parent, descriptor, column, offset, length = _KEY.unpack_from(elements, at)
        at += _KEY.size
        before, after = elements[at : at + offset], elements[at + offset : at + length]
        yield ForeignKey(parent, (descriptor, column), before, after)
        at += length


def key_columns(number: int, elements: bytes, places: bytes) -> dict[ColumnPlace, PrimaryColumn]:
    """The columns of a primary key by their places; empty if the places are not known."""
    found: dict[ColumnPlace, PrimaryColumn] = {}
    if len(places) != number * _PLACE.size:
        return found
    at = 0
    for place in _PLACE.iter_unpack(places):
        row, at = spec.decode(spec.struct("SQLPrimaryKey"), elements, at)
        if place[0]:
            found[place[0], place[1]] = PrimaryColumn(row.column_name or b"", row.pk_name or b"")
    return found


def known(key: ForeignKey, parent: Parent) -> bool:
    """Is it known whether the key is shown? Not if the parent was altered since the key was read."""
    return not key.place[0] or any(descriptor == key.place[0] for descriptor, _ in parent.columns)


def shown(key: ForeignKey, parent: Parent) -> bytes | None:
    """The element of a list of foreign keys, SQLForeignKey with its stop byte; None if a metastore does not show it."""
    column = parent.columns.get(key.place)
    if column is None:
        return None
    named = (parent.database, parent.table, column.column)
    fields = (encode.string_field(number, name) for number, name in enumerate(named, 1))
    return b"".join((*fields, key.before, encode.string_field(11, column.key), key.after))
