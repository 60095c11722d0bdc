"""Names of cached constraints: which tables may have lost one because another table's, of the same name, was dropped.

Job: the comparisons that `StepReading` needs. Must not know the store, events. Owner: the follower; no state.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, Protocol

from hms_cache_proxy.cache import targets
from hms_cache_proxy.cache.attachments import ConstraintsEntry, constraints_pack, constraints_unpack
from hms_cache_proxy.store.protocol import ConstraintKind, Constraints
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
    """The names of a table's constraints."""
    names = set()
    for kind, (number, elements) in entry.lists.items():
        struct, field = _NAMES[ConstraintKind(kind)]
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
