"""Include and exclude patterns that admit the wanted tables.

Job: write few patterns, as an operator would: a whole database, all tables with a common prefix, single names.
`selection.py` defines their meaning: they match `database.table` in every catalog, exclude takes precedence, an empty
include admits everything.
Must not know: why a table is wanted.
Invariant: of the known tables exactly `admitted` are admitted, and these are at least the wanted ones. Pure.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

MOST: Final = 200
"""With more patterns than this, whole databases are admitted: more would slow the prewarm, and nobody reads them."""

ALIKE: Final = 3
"""The number of tables with a common prefix that get one pattern."""

_EVERYTHING: Final = "*.*"
_PLAIN: Final = re.compile(r"[^*?\[\].\s]+")


class KnownTable(NamedTuple):
    """A table, in any catalog."""

    database: str
    table: str


@dataclass(frozen=True, slots=True)
class Patterns:
    """The settings, and the known tables that they admit."""

    include: tuple[str, ...]
    exclude: tuple[str, ...]
    admitted: frozenset[KnownTable]


def patterns(wanted: Collection[KnownTable], others: Collection[KnownTable], *, all_known: bool) -> Patterns:
    """Patterns for the wanted tables among these and `others`.

    `all_known`: no other tables exist. Only then may `exclude` be used alone; otherwise it would admit tables that
    nobody has named.
    """
    want, rest = frozenset(wanted), frozenset(others) - frozenset(wanted)
    if not want and rest:
        return Patterns((), (_EVERYTHING,), want)
    if not rest and all_known:
        return Patterns((), (), want)
    excluding = tuple(sorted(_cover(rest, want))) if all_known else ()
    including = _include(want, rest)
    if all_known and len(excluding) <= min(MOST, len(including.include) + len(including.exclude)):
        return Patterns((), excluding, want)
    return including


def _include(want: frozenset[KnownTable], rest: frozenset[KnownTable]) -> Patterns:
    wanted_of, rest_of = _by_database(want), _by_database(rest)
    include: dict[str, list[str]] = {}
    exclude: dict[str, list[str]] = {}
    for database, names in wanted_of.items():
        others = rest_of.get(database, frozenset())
        directly, all_but = list(_cover(names, others)), list(_cover(others, names))
        whole = 1 + len(all_but) < len(directly)
        include[database] = [_pattern(database)] if whole else directly
        exclude[database] = all_but if whole else []
    admitted = set(want)
    number = sum(map(len, include.values())) + sum(map(len, exclude.values()))
    for database in sorted(include, key=lambda one: (-len(include[one]) - len(exclude[one]), one)):
        if number <= MOST:
            break
        number -= len(include[database]) + len(exclude[database]) - 1
        include[database], exclude[database] = [_pattern(database)], []
        admitted |= rest_of.get(database, frozenset())
    return Patterns(_flat(include), _flat(exclude), frozenset(admitted))


def _flat(lists: dict[str, list[str]]) -> tuple[str, ...]:
    return tuple(sorted(one for many in lists.values() for one in many))


def _cover(names: Collection[KnownTable], avoid: Collection[KnownTable]) -> Iterable[str]:
    """Patterns that match all of `names` and none of `avoid`."""
    avoided = _by_database(avoid)
    for database, tables in sorted(_by_database(names).items()):
        if database not in avoided:
            yield _pattern(database)
            continue
        left = {name.table for name in tables}
        for prefix in _prefixes(left, {name.table for name in avoided[database]}):
            alike = {table for table in left if table.startswith(prefix)}
            if len(alike) >= ALIKE:
                left -= alike
                yield _pattern(database, prefix, begins=True)
        for table in sorted(left):
            yield _pattern(database, table)


def _prefixes(tables: Collection[str], avoid: Collection[str]) -> list[str]:
    """Prefixes up to an underscore that several tables have and no table to be avoided has; the shortest first."""
    counts: dict[str, int] = defaultdict(int)
    for table in tables:
        for found in re.finditer("_", table):
            counts[table[: found.end()]] += 1
    taken = {table[: found.end()] for table in avoid for found in re.finditer("_", table)}
    return sorted(
        (one for one, count in counts.items() if count >= ALIKE and one not in taken), key=lambda p: (len(p), p)
    )


def _by_database(names: Iterable[KnownTable]) -> dict[str, frozenset[KnownTable]]:
    found: dict[str, set[KnownTable]] = defaultdict(set)
    for name in names:
        found[name.database].add(name)
    return {database: frozenset(tables) for database, tables in found.items()}


def _pattern(database: str, table: str = "", *, begins: bool = False) -> str:
    """A pattern for one table, for all tables with this prefix, or (without a table) for a whole database."""
    begins = begins or not table
    if _PLAIN.fullmatch(database) and (not table or _PLAIN.fullmatch(table)):
        return f"{database}.{table}{'*' if begins else ''}"
    return f"re:{re.escape(f'{database}.{table}')}{'.*' if begins else ''}"
