"""What events and tickets name: the objects to read again, and the targets whose readers must notice.

Job: `Affected` is one event's or ticket's answer; `Affected.merge` makes one of many (objects coalesce: each
is read once per step, however many events name it). Must not know messages, the store or the cache.

Invariants: naming more than necessary is always right, naming less never is. Values, no state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, TypeAlias

DatabaseKey: TypeAlias = tuple[bytes, bytes]
"""(catalog, database)."""
TableKey: TypeAlias = tuple[bytes, bytes, bytes]
"""(catalog, database, table)."""
UNKNOWN_WRITE: Final = 0
PartitionNames: TypeAlias = frozenset[bytes] | None
"""The partitions named; None = all of the table, wholesale."""


@dataclass(frozen=True, slots=True)
class Affected:
    """Objects to read again, in the snapshot of the step.

    `tables`: the object, and whether it is in its database's list. `partitions`: of tables that are in
    `tables` too. `databases`: the object, its existence, and its list of tables compared with the store's
    where `lists` has it. `reload`: every table of the database, wholesale. `all_lists`: compare the lists of
    all databases. `everything`: nothing that is cached can be trusted. `targets`: whose version is raised.
    `write_ids`: (transaction, table) pairs now known; `ended`: transactions whose tables are read again; `renamed`: old
    and new names of tables, in the order of the log, as open transactions go on under the new one. `written`:
    (table, write id) of changes that were made under a write id; 0 where the event may have one and does not tell.
    `dropped`: tables that were dropped, `constrained`: that were given constraints; `constraint_names`: of constraints
    that were dropped, empty where that is not known.
    """

    tables: frozenset[TableKey] = frozenset()
    partitions: Mapping[TableKey, PartitionNames] = field(default_factory=dict)
    databases: frozenset[DatabaseKey] = frozenset()
    lists: frozenset[DatabaseKey] = frozenset()
    reload: frozenset[DatabaseKey] = frozenset()
    all_lists: bool = False
    everything: bool = False
    targets: frozenset[bytes] = frozenset()
    write_ids: frozenset[tuple[int, TableKey]] = frozenset()
    ended: frozenset[int] = frozenset()
    renamed: tuple[tuple[TableKey, TableKey], ...] = ()
    written: frozenset[tuple[TableKey, int]] = frozenset()
    dropped: frozenset[TableKey] = frozenset()
    constrained: frozenset[TableKey] = frozenset()
    constraint_names: frozenset[bytes] = frozenset()

    @property
    def nothing(self) -> bool:
        """No object and no target: the step need not write anything for it."""
        return self == NOTHING

    @staticmethod
    def merge(parts: Iterable[Affected]) -> Affected:
        """One Affected that names what any of `parts` names; wholesale absorbs named partitions."""
        known = [part for part in parts if not part.nothing]
        if len(known) <= 1:
            return known[0] if known else NOTHING
        return Affected(
            tables=frozenset().union(*(part.tables for part in known)),
            partitions=_merge_partitions(known),
            databases=frozenset().union(*(part.databases for part in known)),
            lists=frozenset().union(*(part.lists for part in known)),
            reload=frozenset().union(*(part.reload for part in known)),
            all_lists=any(part.all_lists for part in known),
            everything=any(part.everything for part in known),
            targets=frozenset().union(*(part.targets for part in known)),
            write_ids=frozenset().union(*(part.write_ids for part in known)),
            ended=frozenset().union(*(part.ended for part in known)),
            renamed=tuple(chain.from_iterable(part.renamed for part in known)),
            written=frozenset().union(*(part.written for part in known)),
            dropped=frozenset().union(*(part.dropped for part in known)),
            constrained=frozenset().union(*(part.constrained for part in known)),
            constraint_names=frozenset().union(*(part.constraint_names for part in known)),
        )


NOTHING = Affected()


def _merge_partitions(parts: list[Affected]) -> dict[TableKey, PartitionNames]:
    named: dict[TableKey, set[bytes] | None] = {}
    for part in parts:
        for key, names in part.partitions.items():
            if names is None:
                named[key] = None
            elif key not in named:
                named[key] = set(names)
            elif (known := named[key]) is not None:
                known.update(names)
    return {key: None if names is None else frozenset(names) for key, names in named.items()}
