"""A table's constraints, packed as a row.

Job: convert a store's `Constraints` to a row and back, as lists that a reply can contain unchanged. A table without
constraints has no row; most have none. Must not know LMDB, replies. Owner: the follower packs, every process unpacks.

    u16 number of parents (tables that its foreign keys refer to), u16 length of the owner, the owner (the table's name
    as in its key), u64 id of each parent; then for each kind: u8 kind, u32 number of elements, u32 number of bytes,
    the elements
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

from hms_cache_proxy.cache import targets
from hms_cache_proxy.cache.targets import Target
from hms_cache_proxy.store.protocol import ConstraintKind, Constraints

_HEAD: Final = Struct(">HH")
_PARENT: Final = Struct(">Q")
_LIST: Final = Struct(">BII")


class ElementList(NamedTuple):
    """Elements of a Thrift list of structs: their number, and their bytes."""

    number: int
    elements: bytes


NO_ELEMENTS: Final = ElementList(0, b"")


class ConstraintsEntry(NamedTuple):
    """A table's constraints. Its foreign keys, and the places of its primary key, are as store/foreign_keys.py packs
    them; `parents`: the ids of the tables that they refer to. `owner`: the table's name."""

    owner: bytes
    parents: tuple[int, ...]
    lists: dict[int, ElementList]

    @property
    def target(self) -> Target:
        """The table's target."""
        return targets.table_of_key(self.owner)

    @property
    def targets(self) -> tuple[Target, Target]:
        """The table's target, and that of its database, which may be dropped with all of its tables."""
        return self.target, targets.database_of_key(self.owner)

    def list(self, kind: ConstraintKind) -> ElementList:
        """The constraints of a kind."""
        return self.lists.get(kind, NO_ELEMENTS)


UNCONSTRAINED: Final = ConstraintsEntry(b"", (), {})


def constraints_pack(owner: bytes, constraints: Constraints) -> bytes:
    """The row; empty if there are no constraints."""
    if constraints.nothing:
        return b""
    parts = [_HEAD.pack(len(constraints.parents), len(owner)), owner, *map(_PARENT.pack, constraints.parents)]
    for kind, elements in sorted(constraints.elements.items()):
        joined = b"".join(elements)
        parts += (_LIST.pack(kind, len(elements), len(joined)), joined)
    return b"".join(parts)


def constraints_unpack(row: bytes) -> ConstraintsEntry:
    """The inverse of `constraints_pack`; struct.error for a damaged row."""
    if not row:
        return UNCONSTRAINED
    number, length = _HEAD.unpack_from(row)
    at = _HEAD.size + length
    end = at + number * _PARENT.size
    parents = tuple(parent for (parent,) in _PARENT.iter_unpack(row[at:end]))
    return ConstraintsEntry(row[_HEAD.size : at], parents, dict(_lists(row, end)))


def _lists(row: bytes, at: int) -> Iterator[tuple[int, ElementList]]:
    while at < len(row):
        kind, count, length = _LIST.unpack_from(row, at)
        at += _LIST.size
        yield kind, ElementList(count, row[at : at + length])
        at += length
