"""What events and tickets name: the objects to read again, and the targets whose readers must notice.

Job: `Affected` is one event's or ticket's answer; `Gathering` makes one of many (objects coalesce: each is read once
per step, however many events name it). Must not know messages, the store or the cache.

Invariants: naming more than necessary is always right, naming less never is. What is gathered grows with the objects
that are named, not with the rows that name them, and not with partitions beyond MAX_NAMED.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from hms_cache_proxy.store.protocol import DatabaseKey, TableKey

UNKNOWN_WRITE: Final = 0
MAX_NAMED: Final = 100_000
"""Partitions that a step reads one by one: some 150 MB. Beyond it the tables of which most are named are read whole,
in chunks."""
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
    that were dropped, empty where that is not known. `called`: those of `partitions` whose names are a client's, which
    may spell them in another way than the metastore.
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

    @property
    def nothing(self) -> bool:
        """No object and no target: the step need not write anything for it."""
        return self == NOTHING

    @staticmethod
    def merge(parts: Iterable[Affected]) -> Affected:
        """One Affected that names what any of `parts` names; wholesale absorbs named partitions."""
        gathered = Gathering()
        for part in parts:
            gathered.add(part)
        return gathered.affected()


NOTHING = Affected()


class Gathering:
    """Answers made into one as they come: a million rows take no more memory than what they name."""

    __slots__ = ("_all_lists", "_everything", "_named", "_partitions", "_renamed", "_sets")

    def __init__(self) -> None:
        self._sets: dict[str, set[Any]] = {name: set() for name in _SETS}
        self._partitions: dict[TableKey, set[bytes] | None] = {}
        self._named = 0
        self._renamed: list[tuple[TableKey, TableKey]] = []
        self._all_lists = self._everything = False

    def add(self, part: Affected) -> None:
        """What one more row or ticket says."""
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
        """How much it says of transactions."""
        return len(self._sets["write_ids"]) + len(self._sets["ended"])

    def affected(self) -> Affected:
        """All of it."""
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
        while self._named > MAX_NAMED:
            self._add_partitions(self._most_named(), None)

    def _most_named(self) -> TableKey:
        """The table of which most partitions are named."""
        return max(self._partitions, key=lambda key: len(self._partitions[key] or ()))


_SETS: Final = (
    *("tables", "databases", "lists", "reload", "targets", "write_ids", "ended"),
    *("written", "dropped", "constrained", "constraint_names", "called"),
)
"""Fields of Affected that are sets."""
