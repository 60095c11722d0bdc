"""What events and tickets name: the objects to reload, and the targets whose versions are raised.

Job: `Affected` is what one event or ticket names. `Gathering` merges many of them, so a step reads each object once,
however many events name it. Must not know messages, the store or the cache.

Invariants: it is always correct to name too much, and never correct to name too little. Memory grows with the objects
that are named, not with the rows that name them; at most MAX_NAMED partitions are kept by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from hms_cache_proxy.store.protocol import DatabaseKey, TableKey

UNKNOWN_WRITE: Final = 0
MAX_NAMED: Final = 100_000
"""The most partitions that a step reads by name (about 150 MB). Beyond it, the tables with the most named partitions
are read whole, in chunks, until KEPT_NAMED are left: to find them, all tables are looked at."""
KEPT_NAMED: Final = 75_000
PartitionNames: TypeAlias = frozenset[bytes] | None
"""The named partitions of a table; None: all of them."""
Announcement: TypeAlias = tuple[TableKey, frozenset[tuple[bytes, bytes]]]
"""A table, and all parameters that it is about to have."""


@dataclass(frozen=True, slots=True)
class Affected:
    """Objects to reload from the step's snapshot.

    `tables`: table objects, and whether they exist. `partitions`: of tables that are also in `tables`. `databases`:
    database objects, and whether they exist. `lists`: databases whose list of tables is compared with the store's.
    `reload`: databases of which every table is reloaded with all partitions. `all_lists`: compare the lists of all
    databases. `everything`: nothing in the cache can be trusted. `targets`: their versions are raised. `write_ids`:
    (transaction, table) pairs that the log told; `ended`: transactions that ended, whose tables are reloaded;
    `renamed`: (old, new) names of tables, in the order of the log, because an open transaction goes on under the new
    name. `written`: (table, write id) of changes under a write id; UNKNOWN_WRITE if the event may have one but does not
    tell it. `dropped`: tables that were dropped; `constrained`: tables that got constraints; `constraint_names`: names
    of dropped constraints, b"" if not known. `called`: those of `partitions` whose names come from a client, which may
    spell them differently from the metastore. `announced`: changes that may be made after their row was logged.
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
    called: frozenset[tuple[TableKey, bytes]] = frozenset()
    announced: frozenset[Announcement] = frozenset()

    @property
    def nothing(self) -> bool:
        """It names no object and no target, so the step need not write anything for it."""
        return self == NOTHING

    @staticmethod
    def merge(parts: Iterable[Affected]) -> Affected:
        """One Affected that names what any of `parts` names. All partitions of a table absorb named ones."""
        gathered = Gathering()
        for part in parts:
            gathered.add(part)
        return gathered.affected()


NOTHING = Affected()


class Gathering:
    """Merges many Affected one by one: a million rows take no more memory than the objects that they name."""

    __slots__ = ("_all_lists", "_everything", "_named", "_partitions", "_renamed", "_sets")

    def __init__(self) -> None:
        self._sets: dict[str, set[Any]] = {name: set() for name in _SETS}
        self._partitions: dict[TableKey, set[bytes] | None] = {}
        self._named = 0
        self._renamed: list[tuple[TableKey, TableKey]] = []
        self._all_lists = self._everything = False

    def add(self, part: Affected) -> None:
        """Adds what one more row or ticket names."""
        for name, values in self._sets.items():
            more = getattr(part, name)
            if more:
                values |= more
        for key, names in part.partitions.items():
            self._add_partitions(key, names)
        self._renamed += part.renamed
        self._all_lists = self._all_lists or part.all_lists
        self._everything = self._everything or part.everything

    @property
    def everything(self) -> bool:
        """Does it name everything?"""
        return self._everything

    @property
    def tables(self) -> int:
        """How many tables it names."""
        return len(self._sets["tables"])

    @property
    def transactions(self) -> int:
        """How many facts about transactions it has."""
        return len(self._sets["write_ids"]) + len(self._sets["ended"])

    def affected(self) -> Affected:
        """The merged result."""
        named = {key: None if names is None else frozenset(names) for key, names in self._partitions.items()}
        return Affected(
            **{name: frozenset(values) for name, values in self._sets.items()},
            partitions=named,
            all_lists=self._all_lists,
            everything=self._everything,
            renamed=tuple(self._renamed),
        )

    def _add_partitions(self, key: TableKey, names: PartitionNames) -> None:
        known = self._partitions.setdefault(key, set())
        if known is None:
            return
        before = len(known)
        if names is None:
            self._named -= before
            self._partitions[key] = None
            return
        known |= names
        self._named += len(known) - before
        if self._named > MAX_NAMED:
            self._take_whole()

    def _take_whole(self) -> None:
        """Takes the tables with the most named partitions whole."""
        for key in sorted(self._partitions, key=lambda key: len(self._partitions[key] or ()), reverse=True):
            if self._named <= KEPT_NAMED:
                return
            self._add_partitions(key, None)


_SETS: Final = (
    *("tables", "databases", "lists", "reload", "targets", "write_ids", "ended"),
    *("written", "dropped", "constrained", "constraint_names", "called", "announced"),
)
"""Fields of Affected that are sets."""
