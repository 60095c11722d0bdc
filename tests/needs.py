"""What a test starts, found in its code: the ground on which a tier is chosen.

Job: `needs(item)` gives the kinds of servers and client programs that a test and its fixtures name.
Must not know: which tier takes what.
Invariants: a test needs the flavours that its parameters and the code of the test, of its fixtures and of the helpers
that these call name as constants; and what STARTS says of the names in that code. What this finds is all that the test
bed lets the test use (ledger.ALLOWED), so what it misses fails the test in whatever tier it runs.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Iterable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final

import pytest
from _pytest.python import FunctionDefinition

from tests.testbed import ledger
from tests.testbed.flavours import FLAVOURS
from tests.testbed.metastore import Server

STARTS: Final[dict[str, tuple[str, ...]]] = {
    # fixtures of tests/conftest.py, attributes of Bed, classes of the test bed
    "hms42": ("hive42",),
    "hms40": ("hive40",),
    "hms31": ("hive31",),
    "hms23": ("hive23",),
    "hms23_sql": ("hive23-postgresql",),
    "hms42_mariadb": ("hive42-mariadb",),
    "postgres": (ledger.POSTGRESQL,),
    "new_postgres": (ledger.POSTGRESQL,),
    "private_postgres": (ledger.POSTGRESQL,),
    "LocalPostgres": (ledger.POSTGRESQL,),
    "mariadb": (ledger.MARIADB,),
    "LocalMariaDB": (ledger.MARIADB,),
    # clients and programs
    "HiveDriver": (ledger.HIVE_DRIVER,),
    "HiveClasses": (ledger.HIVE_DRIVER,),
    "Planner": (ledger.HIVE_DRIVER,),
    "ClientTests": (ledger.HIVE_TESTS,),
    "Flink": (ledger.FLINK,),
    "SparkSession": (ledger.SPARK,),
    "run_job": (ledger.SPARK,),
    "spark": (ledger.SPARK,),
    "lowest_environment": (ledger.ENVIRONMENT, ledger.PROXY),
    "distribution": (ledger.ENVIRONMENT,),
    "pipeline_extra": (ledger.SPARK,),
    "run_suite": (ledger.PYICEBERG_TESTS,),
    "Kdc": (ledger.KDC,),
    "Slapd": (ledger.SLAPD,),
    "S3Server": (ledger.S3,),
    "HiveLists": (ledger.JAVA,),
    "which": (ledger.JAVA,),
    "checkers": (ledger.SPIN,),
    "Prometheus": (ledger.PROMETHEUS,),
    "promtool": (ledger.PROMETHEUS,),
    "--hive": ("hive42",),  # of tests.demo
    # the program under test as a whole
    "new_proxy": (ledger.PROXY,),
    "Proxy": (ledger.PROXY,),
    "Reader": (ledger.PROXY,),
}
"""A name that code uses, or a parameter's value, and what it starts."""

STARTS_A_FLAVOUR: Final = frozenset(("new_metastore", "private_metastore"))
DEFAULT_FLAVOUR: Final = "hive42"

_DESCRIBED: Final = ("tests.conftest", "tests.proxy", "tests.proxy_plugin", "tests.needs")
"""With tests.testbed, modules whose code is not read: STARTS says what their names start."""
_FOUND: Final = pytest.StashKey[frozenset[str]]()
_SERVERS: Final = {Server.NONE: (), Server.POSTGRESQL: (ledger.POSTGRESQL,), Server.MARIADB: (ledger.MARIADB,)}


def needs(item: pytest.Item) -> frozenset[str]:
    """Flavours, databases and programs."""
    found = item.stash.get(_FOUND, None)
    if found is None:
        found = item.stash[_FOUND] = _needs(item) if isinstance(item, pytest.Function) else frozenset()
    return found


def always_needs(collector: pytest.Module | pytest.Class, name: str, function: object) -> frozenset[str]:
    """What every item of a test function needs, whatever its parameters. The items need not exist yet."""
    definition = FunctionDefinition.from_parent(collector, name=name, callobj=function)
    return _started(_mentioned_by(_code(definition)), frozenset(definition.fixturenames), either=())


def _needs(item: pytest.Function) -> frozenset[str]:
    words = _mentioned_by(_code(item))
    callspec = getattr(item, "callspec", None)
    for value in callspec.params.values() if callspec is not None else ():
        words |= _strings(value)
    return _started(words, frozenset(item.fixturenames))


@functools.cache
def _started(
    words: frozenset[str], fixtures: frozenset[str], either: tuple[str, ...] = (DEFAULT_FLAVOUR,)
) -> frozenset[str]:
    """What these names start; `either`: the flavours of a metastore that is started and not named."""
    found = set(words & FLAVOURS.keys())
    names = words | fixtures
    if names & STARTS_A_FLAVOUR and not found:
        found.update(either)
    for name in names & STARTS.keys():
        found.update(STARTS[name])
    for flavour in found & FLAVOURS.keys():
        found.update(_SERVERS[FLAVOURS[flavour].server])
    return frozenset(found)


def _code(item: pytest.Function) -> tuple[Any, ...]:
    """The functions of a test: its own, and those of its fixtures."""
    fixtures = item._fixtureinfo.name2fixturedefs.values()
    return (item.function, *(definitions[-1].func for definitions in fixtures if definitions))


@functools.cache
def _mentioned_by(code: tuple[Any, ...]) -> frozenset[str]:
    """Names and flavours in the code of a test."""
    test, *fixtures = code
    read = [test, *(fixture for fixture in fixtures if not _is_described(fixture))]
    return frozenset[str]().union(*(_mentioned(inspect.unwrap(function)) for function in read))


def _strings(value: object) -> set[str]:
    """The string that a value is, or those in a collection or in a dataclass."""
    if isinstance(value, str):
        return {value}
    if isinstance(value, tuple | list | set | frozenset):
        return {one for one in value if isinstance(one, str)}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {one for field in dataclasses.fields(value) if isinstance(one := getattr(value, field.name, None), str)}
    return set()


def _flavours(value: object) -> set[str]:
    return _strings(value) & FLAVOURS.keys()


@functools.cache
def _mentioned(function: FunctionType) -> frozenset[str]:
    """Names and flavours in the code of a function and of the helpers of the tests that it uses."""
    found, seen, waiting = set[str](), {function}, [function]
    while waiting:
        names, helpers = _read(waiting.pop())
        found |= names
        waiting += helpers - seen
        seen |= helpers
    return frozenset(found)


@functools.cache
def _read(function: FunctionType) -> tuple[frozenset[str], frozenset[FunctionType]]:
    """Names and flavours in the code of one function, and the helpers that it uses."""
    names, constants = _words(function.__code__)
    found, helpers = set(names), set[FunctionType]()
    for value in (*constants, *(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
        found |= _flavours(value)
    for value in _resolved(names, function.__globals__):
        found |= _flavours(value)
        helpers.update(_helpers(value))
    return frozenset(found), frozenset(helpers)


def _words(code: CodeType) -> tuple[set[str], list[object]]:
    """Names and constants of a code object and of those in it."""
    names, constants = set(code.co_names), list[object]()
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            inner_names, inner_constants = _words(constant)
            names |= inner_names
            constants += inner_constants
        else:
            constants.append(constant)
    return names, constants


def _resolved(names: Iterable[str], scope: dict[str, Any]) -> Iterator[object]:
    """What the names are, also as attributes of the modules among them."""
    values = [scope[name] for name in names if name in scope]
    yield from values
    for module in values:
        if isinstance(module, ModuleType) and module.__name__.startswith("tests."):
            yield from (vars(module)[name] for name in names if name in vars(module))


def _helpers(value: Any) -> Iterator[FunctionType]:
    """The function, or the methods of the class, if the tests define it."""
    value = inspect.unwrap(value) if callable(value) else value
    if not isinstance(value, FunctionType | type) or not value.__module__.startswith("tests.") or _is_described(value):
        return
    if isinstance(value, FunctionType):
        yield value
        return
    for member in vars(value).values():
        plain = inspect.unwrap(getattr(member, "fget", member)) if callable(getattr(member, "fget", member)) else None
        if isinstance(plain, FunctionType):
            yield plain


def _is_described(value: Any) -> bool:
    module = str(value.__module__)
    return module in _DESCRIBED or module.startswith("tests.testbed.")
