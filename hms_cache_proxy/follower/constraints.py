"""Finds out what changes a table's constraints without an event about the table.

Job: make the comparisons that `StepReading` needs: which tables may have lost a constraint because a constraint of the
same name was dropped from another table, and which foreign keys may have moved with the columns of the table that they
refer to. Must not know the store, events. Owner: the follower; no state.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, Protocol

from hms_cache_proxy.cache import targets
from hms_cache_proxy.cache.attachments import ConstraintsEntry, constraints_pack, constraints_unpack
from hms_cache_proxy.follower.affected import Affected
from hms_cache_proxy.follower.cached_view import CachedView
from hms_cache_proxy.follower.limits import SUSPECTS_PER_READ
from hms_cache_proxy.store.foreign_keys import foreign_keys, key_columns
from hms_cache_proxy.store.protocol import (
    NO_CONSTRAINTS,
    ConstraintKind,
    Constraints,
    Snapshot,
    TableKey,
    TableName,
    TableRecord,
)
from hms_cache_proxy.wire import spec

_NAMES: Final = {
    ConstraintKind.PRIMARY_KEY: ("SQLPrimaryKey", "pk_name"),
    ConstraintKind.UNIQUE: ("SQLUniqueConstraint", "uk_name"),
    ConstraintKind.NOT_NULL: ("SQLNotNullConstraint", "nn_name"),
    ConstraintKind.DEFAULT: ("SQLDefaultConstraint", "dc_name"),
    ConstraintKind.CHECK: ("SQLCheckConstraint", "dc_name"),
}


class HasTableName(Protocol):
    """A table's name as it is stored."""

    @property
    def catalog(self) -> bytes: ...
    @property
    def database(self) -> bytes: ...
    @property
    def name(self) -> bytes: ...


def cached_form(table: HasTableName, constraints: Constraints) -> ConstraintsEntry:
    """What the cache returns for a table with these constraints."""
    owner = targets.SEPARATOR.join((table.catalog, table.database, table.name))
    return constraints_unpack(constraints_pack(owner, constraints))


def constraint_names(entry: ConstraintsEntry) -> set[bytes]:
    """The names of a table's constraints, foreign keys included."""
    names = {key.name for key in foreign_keys(*entry.list(ConstraintKind.FOREIGN_KEY))}
    for kind, (struct, field) in _NAMES.items():
        number, elements = entry.list(kind)
        at = 0
        for _ in range(number):
            row, at = spec.decode(spec.struct(struct), elements, at)
            names.add(getattr(row, field) or b"")
    return names


def may_have(entry: ConstraintsEntry, names: Collection[bytes]) -> bool:
    """Whether one of the constraints may have one of these names, compared as loosely as any database does (without
    case and surrounding blanks). An empty name, or one that is not ASCII, may match any."""
    folded = [name.strip().lower() for name in names if name.isascii()]
    if len(folded) < len(names) or not all(folded):
        return True
    text = b"\n".join(elements for _, elements in entry.lists.values()).lower()
    return any(name in text for name in folded)


class ConstraintReading:
    """Compares the constraints of tables that no event names with the store. `read`: the tables that the step has read
    already."""

    def __init__(self, source: Snapshot, cached: CachedView) -> None:
        self._source = source
        self._cached = cached

    def dropped(self, affected: Affected, read: Collection[TableKey]) -> list[TableKey]:
        """Tables that lost a constraint only because another table's, of the same name, was dropped."""
        names = set(affected.constraint_names)
        for key in _names_before(affected.dropped, affected.renamed):
            names |= self._names(key, known=key not in affected.constrained)
        if not names:
            return []
        return self._changed(
            TableName(*key, table_id)
            for key, table_id, entry in self._cached.constrained()
            if key not in read and may_have(entry, names)
        )

    def moved(self, changes: Mapping[TableKey, TableRecord | None], read: Collection[TableKey]) -> list[TableKey]:
        """Tables whose foreign keys changed with the tables that they refer to, which are among these."""
        suspects: set[TableName] = set()
        for key, record in changes.items():
            entry = self._cached.table(key)
            if entry is not None and (record is None or record.table_id != entry.table_id):
                suspects |= self._referring(entry.table_id, NO_CONSTRAINTS, read)
            constraints = NO_CONSTRAINTS if record is None else record.constraints or NO_CONSTRAINTS
            if record is not None and (entry is not None or not constraints.nothing):
                suspects |= self._referring(record.table_id, constraints, read)
        return self._changed(sorted(suspects))

    def _referring(self, parent: int, constraints: Constraints, read: Collection[TableKey]) -> set[TableName]:
        """The tables with foreign keys that were read before the parent had these constraints."""
        return {
            TableName(*key, table_id)
            for key, table_id, entry in self._cached.referring(parent)
            if key not in read and not _fits(entry, parent, constraints)
        }

    def _changed(self, suspects: Iterable[TableName]) -> list[TableKey]:
        changed: list[TableKey] = []
        tables = list(suspects)
        for start in range(0, len(tables), SUSPECTS_PER_READ):
            some = tables[start : start + SUSPECTS_PER_READ]
            found = self._source.constraints(some)
            for table in some:
                entry = self._cached.table(table[:3])
                if entry is not None and self._cached.constraints(entry) != cached_form(table, found[table.table_id]):
                    changed.append(table[:3])
        return changed

    def _names(self, key: TableKey, *, known: bool) -> set[bytes]:
        """The names of a dropped table's constraints, and of the foreign keys that referred to it; b"" stands for names
        that are not known."""
        entry = self._cached.table(key)
        if entry is None and known and self._cached.complete(targets.tables(*key[:2])):
            return set()  # created and dropped between two steps, without constraints
        constraints = None if entry is None or entry.body is None else self._cached.constraints(entry)
        if entry is None or constraints is None or not known:
            return {b""}
        parent = entry.table_id
        referring = {
            name for _, _, found in self._cached.referring(parent) for name in _foreign_key_names(found, parent)
        }
        return constraint_names(constraints) | referring


def _names_before(dropped: Collection[TableKey], renamed: Sequence[tuple[TableKey, TableKey]]) -> set[TableKey]:
    """These names, and all under which the cache may know the tables. `renamed` is in the order of the log."""
    names = set(dropped)
    for old, new in reversed(renamed):
        if new in names:
            names.add(old)
    return names


def _foreign_key_names(entry: ConstraintsEntry, parent: int) -> Iterator[bytes]:
    keys = foreign_keys(*entry.list(ConstraintKind.FOREIGN_KEY))
    return (key.name for key in keys if key.parent == parent)


def _fits(child: ConstraintsEntry, parent: int, constraints: Constraints) -> bool:
    """Were the foreign keys that refer to this parent read since it got its column descriptor?"""
    elements = constraints.elements
    primary, places = elements.get(ConstraintKind.PRIMARY_KEY, ()), elements.get(ConstraintKind.PLACES, ())
    descriptors = {descriptor for descriptor, _ in key_columns(len(primary), b"".join(primary), b"".join(places))}
    keys = foreign_keys(*child.list(ConstraintKind.FOREIGN_KEY))
    return all(key.place[0] in descriptors or not key.place[0] for key in keys if key.parent == parent)
