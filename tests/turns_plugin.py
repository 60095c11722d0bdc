"""Two worker processes of pytest-xdist: which tests belong to one of them, and which have the machine to themselves.

Job: a group for each test (those of a group run in one worker, so a shared server or world is made once), and turns:
a test that measures time runs while the other workers wait.
Must not know: what a tier is.
Invariants: without pytest-xdist there is nothing to do. The order of the locks (gate, then machine) is the same in
every process, and both end with their process; whoever wants the machine alone holds the gate while it waits, so
nobody starts a test before it.
"""

from __future__ import annotations

import fcntl
import functools
import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Final

import pytest

from tests.needs import needs
from tests.testbed import ledger

ALONE: Final = ("tests/ttl/test_refreshes.py", "tests/ttl/test_times.py")
"""What has narrow bounds in seconds. What must have done so much goes on until it has (tests.lengths.lasting)."""
FAMILIES: Final = (ledger.SPARK, ledger.MARIADB, "hive23", "hive31", "hive40")
"""Servers that are made once: a test belongs to the first family of which it uses something. The slowest come first."""
SHARING: Final = ("tests/methods", "tests/store", "tests/pipeline")
"""Folders whose modules share a world; elsewhere each module is a group."""
_GATE: Final = "HMS_TEST_TURNS"


def pytest_configure(config: pytest.Config) -> None:
    if getattr(config.option, "numprocesses", None) and not hasattr(config, "workerinput"):
        os.environ[_GATE] = directory = tempfile.mkdtemp(prefix="hms-turns-")
        config.add_cleanup(functools.partial(shutil.rmtree, directory))


def is_alone(item: pytest.Item) -> bool:
    """Must nothing run beside it?"""
    return item.nodeid.startswith(ALONE)


def group(item: pytest.Item) -> str:
    """The name of its group: a family of servers, its folder or its module."""
    needed = needs(item)
    for family in FAMILIES:
        if any(one.startswith(family) for one in needed):
            return family
    module = item.nodeid.partition("::")[0]
    folder = module.rpartition("/")[0]
    return folder if needed and folder in SHARING else module


def _rank(item: pytest.Item) -> int:
    """Its place in the run: large groups first, so that both workers end at about the same time."""
    name = group(item)
    for rank, names in enumerate((FAMILIES, SHARING)):
        if name in names:
            return rank * 10 + names.index(name)
    return 20 if needs(item) else 30


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):
        items.sort(key=_rank)
        for item in items:
            item.add_marker(pytest.mark.xdist_group(group(item)))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Wait for a turn."""
    directory = os.environ.get(_GATE)
    if directory is None or not hasattr(item.config, "workerinput"):
        return (yield)
    with ExitStack() as stack:
        gate, machine = (stack.enter_context((Path(directory) / name).open("w")) for name in ("gate", "machine"))
        _take_turn(gate, machine, is_alone(item))
        return (yield)


def _take_turn(gate: IO[str], machine: IO[str], alone: bool) -> None:
    fcntl.flock(gate, fcntl.LOCK_EX)
    fcntl.flock(machine, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
    fcntl.flock(gate, fcntl.LOCK_UN)
