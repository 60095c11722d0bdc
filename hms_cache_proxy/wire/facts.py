"""The fact table as values: which methods and structs there are, with which fields, in which versions of Hive.

Job: rows of facts_generated.py (written by `make idl`) parsed on first use; a start needs few of them.
It must not know the codec: spec.py makes classes from this. Owned by any process; caches are filled idempotently.
"""

from __future__ import annotations

import enum as _enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from hms_cache_proxy.wire import facts_generated as _facts

VERSIONS: tuple[str, ...] = _facts.VERSIONS
CONSTANTS: Mapping[str, object] = _facts.CONSTANTS
#: Members of each enumeration: those of all versions, none of which gave a value a second meaning.
ENUMS: Mapping[str, Mapping[str, int]] = _facts.ENUMS
#: The names of all structs, unions and exceptions.
STRUCTS: tuple[str, ...] = tuple(_facts.STRUCTS)


class Requirement(_enum.Enum):
    """How the newest version that has a field declares it."""

    REQUIRED = "r"
    OPTIONAL = "o"
    DEFAULT = "d"


@dataclass(frozen=True, slots=True)
class FieldFact:
    """One row of the fact table: a field as the given versions have it."""

    id: int
    name: str
    type: str
    versions: tuple[str, ...]
    requirement: Requirement


@dataclass(frozen=True, slots=True)
class MethodFact:
    """One method; `result` holds the return value as field 0 and the declared exceptions."""

    name: str
    args: tuple[FieldFact, ...]
    result: tuple[FieldFact, ...]
    oneway: bool
    versions: tuple[str, ...]


def _versions(mask: int) -> tuple[str, ...]:
    return tuple(version for bit, version in enumerate(VERSIONS) if mask >> bit & 1)


@cache
def _rows(text: str) -> tuple[FieldFact, ...]:
    rows = (row.split(" ") for row in text.split(";") if row)
    return tuple(
        FieldFact(int(field_id), name, type_name, _versions(int(mask, 16)), Requirement(requirement))
        for field_id, requirement, type_name, name, mask in rows
    )


def fields(struct_name: str) -> tuple[FieldFact, ...]:
    """All rows of a struct by id, newest first within an id. KeyError if there is no such struct."""
    return _rows(_facts.STRUCTS[struct_name][2])


def is_union(struct_name: str) -> bool:
    """Whether at most one of its fields is set."""
    return bool(_facts.STRUCTS[struct_name][0] == "union")


def struct_versions(struct_name: str) -> tuple[str, ...]:
    """The versions that have this struct."""
    return _versions(_facts.STRUCTS[struct_name][1])


class _Methods(Mapping[str, MethodFact]):
    """The methods by name, each parsed on first use: a start needs few of the 308."""

    def __init__(self) -> None:
        self._parsed: dict[str, MethodFact] = {}

    def __getitem__(self, name: str) -> MethodFact:
        fact = self._parsed.get(name)
        if fact is None:
            oneway, mask, arguments, result = _facts.METHODS[name]
            fact = MethodFact(name, _rows(arguments), _rows(result), oneway, _versions(mask))
            self._parsed[name] = fact
        return fact

    def __iter__(self) -> Iterator[str]:
        return iter(_facts.METHODS)

    def __len__(self) -> int:
        return len(_facts.METHODS)

    def __contains__(self, name: object) -> bool:
        return name in _facts.METHODS


METHODS: Mapping[str, MethodFact] = _Methods()


@cache
def enum(name: str) -> type[_enum.IntEnum]:
    """An enumeration. Decoded fields hold plain integers, which compare equal to its members."""
    made: type[_enum.IntEnum] = _enum.IntEnum(name, ENUMS[name])  # type: ignore[misc]
    return made
