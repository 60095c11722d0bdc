"""The fact table as values: methods, structs and fields, and in which versions of Hive they exist.

Job: parse rows of facts_generated.py (written by `make idl`) at their first use, because a start needs few of them. It
must not know the codec: spec.py makes classes from these facts. Owned by any process; caches are filled idempotently.
"""

from __future__ import annotations

import enum as _enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from hms_cache_proxy.wire import facts_generated as _facts

VERSIONS: tuple[str, ...] = _facts.VERSIONS
#: Members of each enumeration, of all versions. No version has given a value a second meaning.
ENUMS: Mapping[str, Mapping[str, int]] = _facts.ENUMS
#: The names of the methods whose calls have no reply.
ONEWAY: frozenset[str] = frozenset(name for name, row in _facts.METHODS.items() if row[0])
#: The names of all structs, unions and exceptions.
STRUCTS: tuple[str, ...] = tuple(_facts.STRUCTS)


class Requirement(_enum.Enum):
    """How the newest version with this field declares it."""

    REQUIRED = "r"
    OPTIONAL = "o"
    DEFAULT = "d"


@dataclass(frozen=True, slots=True)
class FieldFact:
    """One row of the fact table: a field as it is in the given versions."""

    id: int
    name: str
    type: str
    versions: tuple[str, ...]
    requirement: Requirement


@dataclass(frozen=True, slots=True)
class MethodFact:
    """One method. `result` has the return value as field 0, and the declared exceptions."""

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
    """All rows of a struct by id; of one id, the newest first. KeyError if there is no such struct."""
    return _rows(_facts.STRUCTS[struct_name][2])


def is_union(struct_name: str) -> bool:
    """Whether at most one of its fields is set."""
    return bool(_facts.STRUCTS[struct_name][0] == "union")


class _Methods(Mapping[str, MethodFact]):
    """The methods by name. Each is parsed at its first use."""

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
    """An enumeration. Decoded fields have plain integers, which are equal to its members."""
    made: type[_enum.IntEnum] = _enum.IntEnum(name, ENUMS[name])  # type: ignore[misc]
    return made
