"""A row of the method table, ready for use: turns arguments into targets.

Job: decode the part of a request that the row's rules read, and evaluate the rules. Must not know: the cache, sessions.
Invariants: arguments that cannot be decoded name everything. A write that names nothing (null names, empty lists)
touches nothing: a metastore refuses it.
Owner: any process; one Plan per method, made on first use.
"""

from __future__ import annotations

from collections.abc import Container, Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from hms_cache_proxy.cache import targets as target
from hms_cache_proxy.config import Config
from hms_cache_proxy.errors import WireError
from hms_cache_proxy.wire import spec, stepwise

from . import projections, shapes
from .partial_decode import decode_beginning
from .proof import Bearer
from .readers.registry import READERS, Reader
from .table import METHODS, Method, MethodKind

EVERYTHING = (target.ALL,)
MOST_ELEMENTS: Final = 100_000
"""Elements of one list that are read. The largest request that is read whole has fewer partitions."""
MOST_TARGETS: Final = 10_000
"""Objects that a large request may name. If it names more, it counts as naming all partitions of their tables; if these
are still too many, everything."""


@dataclass(frozen=True, slots=True)
class Understood:
    """What a large request says: the results of the Plan's `targets`, `silent` and `arguments`."""

    targets: tuple[bytes, ...]
    silent: tuple[bytes, ...]
    silent_in_4: tuple[bytes, ...]
    args: spec.Struct | None  # None: they cannot be decoded, or are not needed


class Plan:
    """What to do with calls of one method."""

    __slots__ = ("_cls", "args", "bearer", "method", "reader")

    def __init__(self, method: Method) -> None:
        self.method = method
        self.reader: Reader | None = READERS.get(method.name)
        self.args = spec.args(method.name)
        self.bearer = Bearer(method.name)
        rules = (*method.rules, *method.silent_before_4, *method.silent_in_4)
        paths = dict.fromkeys(path for rule in rules for path in rule.paths())
        self._cls = projections.projection(method.name, tuple(paths))

    def named(self, message: bytes, offset: int, *, complete: bool) -> tuple[bytes, ...]:
        """The targets of a request. `complete` False: only its beginning is there."""
        name = self.targets if complete else self.targets_of_beginning
        return name(message, offset)

    def targets(self, message: bytes, offset: int) -> tuple[bytes, ...]:
        """The targets of the arguments that begin at offset: what a write touches, what a read depends on."""
        if not self.method.rules:
            return ()
        try:
            row, _ = spec.decode(self._cls, message, offset)
        except WireError:
            return EVERYTHING
        return self._named(row)

    def read(self, message: bytes, offset: int) -> tuple[tuple[bytes, ...], spec.Struct | None]:
        """What a read depends on, and its arguments, decoded once; None if they cannot be decoded."""
        try:
            args = spec.decode(self.args, message, offset)[0]
        except WireError:
            return self.targets(message, offset), None
        return self._named(args), args

    def silent(self, message: bytes, offset: int, *, complete: bool, in_4: bool = False) -> tuple[bytes, ...]:
        """The partitions that a write changes without an event, before Hive 4 or in Hive 4. If only its beginning is
        there: all partitions of its tables."""
        rules = self.method.silent_in_4 if in_4 else self.method.silent_before_4
        if not rules:
            return ()
        if not complete:
            return target.partitions_of(self.targets_of_beginning(message, offset))
        try:
            row, _ = spec.decode(self._cls, message, offset)
        except WireError:
            return EVERYTHING
        return self._named(row, rules)

    def arguments(self, message: bytes, offset: int) -> Any:
        """The arguments that begin at offset. WireError if they cannot be decoded."""
        return spec.decode(self.args, message, offset)[0]

    def understand(self, message: bytes, offset: int) -> Generator[None, None, Understood]:
        """What a large request says, found in short steps."""
        named: tuple[bytes, ...] = EVERYTHING
        silent: tuple[bytes, ...] = EVERYTHING
        silent_in_4: tuple[bytes, ...] = EVERYTHING
        args = row = None
        if self.method.kind is MethodKind.READ or self.method.kind is MethodKind.LOCK:
            with suppress(WireError):  # the part that the rules read may be sound
                row = args = yield from stepwise.decode(self.args, message, offset, MOST_ELEMENTS)
        try:
            if row is None:
                row = yield from stepwise.decode(self._cls, message, offset, MOST_ELEMENTS)
            named = yield from self._named_stepwise(row, self.method.rules)
            silent = yield from self._named_stepwise(row, self.method.silent_before_4)
            silent_in_4 = yield from self._named_stepwise(row, self.method.silent_in_4)
        except WireError:
            pass  # such arguments name everything, and the metastore says what is wrong with them
        return Understood(named if self.method.rules else (), silent, silent_in_4, args)

    @staticmethod
    def _named_stepwise(row: spec.Struct, rules: Sequence[shapes.Rule]) -> Generator[None, None, tuple[bytes, ...]]:
        found: dict[bytes, None] = {}
        whole = False
        for rule in rules:
            for some in shapes.in_parts(rule, row):
                found.update(dict.fromkeys(map(target.whole, some) if whole else some))
                if len(found) > MOST_TARGETS and not whole:
                    whole = True
                    found = dict.fromkeys(map(target.whole, found))
                if len(found) > MOST_TARGETS:
                    return EVERYTHING
                yield
        return tuple(found)

    def targets_of_beginning(self, message: bytes, offset: int) -> tuple[bytes, ...]:
        """The targets of arguments of which only the beginning is there.

        Of a list of partitions the first element counts, because a metastore takes those of one table only. A lock or a
        constraint may be about other tables than the first, and a rule that names nothing so far may name anything in
        the rest, so the result is then everything.
        """
        if not self.method.rules:
            return ()
        row = decode_beginning(self._cls, message, offset)
        for rule in self.method.rules:
            if shapes.is_mixed(rule) or not any(True for _ in rule.targets(row)):
                return EVERYTHING
        return tuple(dict.fromkeys(map(target.whole, self._named(row))))

    def _named(self, row: spec.Struct, rules: Sequence[shapes.Rule] | None = None) -> tuple[bytes, ...]:
        wanted = self.method.rules if rules is None else rules
        if len(wanted) == 1:
            return tuple(dict.fromkeys(wanted[0].targets(row)))
        return tuple(dict.fromkeys(named for rule in wanted for named in rule.targets(row)))


_PLANS: dict[bytes, Plan] = {}


def may_write(name: bytes, reads: Container[bytes]) -> bool:
    """Must a method that is not in the table be treated as a write? Yes, except for the declared `reads`, and for names
    that are not ASCII, which no Thrift service has."""
    return name.isascii() and name not in reads


def declared_reads(config: Config) -> frozenset[bytes]:
    """Methods that are not in the table and that change nothing, according to the operator."""
    return frozenset(name.encode() for name in config.read_methods)


def plan(name: bytes) -> Plan | None:
    """The plan of a method; None if it is not in the table."""
    found = _PLANS.get(name)
    if found is None:
        method = METHODS.get(name.decode("ascii", "replace"))
        if method is None:
            return None
        found = _PLANS[name] = Plan(method)
    return found
