"""Fixtures over the test bed: real servers, started at first use, ended with the run.

Shared (one per run, never stopped or reconfigured by a test): postgres, hms42, hms40, hms31, hms23, hms23_sql.
Private (one per test): new_metastore, new_postgres, fault_proxy. A missing program skips on a developer's
machine; where CI=true it fails, as everything else that cannot start does.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager

import pytest
import structlog

from tests.testbed.artifacts import MissingPrerequisite
from tests.testbed.bed import Bed
from tests.testbed.client import MetastoreClient
from tests.testbed.fault_proxy import FaultProxy
from tests.testbed.mariadb import LocalMariaDB
from tests.testbed.metastore import Metastore
from tests.testbed.postgres import LocalPostgres, Postgres

# Without byte code on the disk, every run rewrites the assertions of all its modules, and every program that a test
# starts compiles the package.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

pytest_plugins = [f"tests.{name}_plugin" for name in ("failures", "figures", "proxy", "tiers", "times", "turns")]
_numbers = itertools.count(1)


def _log_plainly() -> None:
    """Tracebacks in lines of this process as `serve` writes them. By default they show all variables of all frames: for
    those of a connection that takes seconds, while the loop under test stands still."""
    structlog.reset_defaults()
    plain = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    structlog.configure(processors=[*structlog.get_config()["processors"][:-1], plain])


_log_plainly()


@contextmanager
def _missing_prerequisite_skips() -> Iterator[None]:
    """Turn a missing prerequisite into a skip with its reason, but not in CI."""
    try:
        yield
    except MissingPrerequisite as missing:
        if os.environ.get("CI", "").lower() in ("", "0", "false"):
            pytest.skip(str(missing))
        raise


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup() -> Generator[None, object, object]:
    """Shared servers start in fixtures."""
    with _missing_prerequisite_skips():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, object, object]:
    """Private servers start in the test's body."""
    with _missing_prerequisite_skips():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Generator[None, object, object]:
    """What configures the log, as `serve` does, needs a process of its own: later tests here would see no lines."""
    found = yield
    if structlog.get_config()["cache_logger_on_first_use"]:
        _log_plainly()
        pytest.fail("the test has configured the log of this process")
    return found


@pytest.fixture(scope="session")
def bed() -> Iterator[Bed]:
    """The run's test bed."""
    testbed = Bed()
    yield testbed
    testbed.close()


@pytest.fixture(scope="session")
def postgres(bed: Bed) -> Postgres:
    """The shared PostgreSQL server: create databases in it, do not stop it."""
    return bed.postgres


@pytest.fixture(scope="session")
def mariadb(bed: Bed) -> LocalMariaDB:
    """The shared MariaDB server: create databases in it, do not stop it."""
    return bed.mariadb  # type: ignore[return-value]  # one in a container has the same methods


@pytest.fixture
def hms42_mariadb(bed: Bed) -> Metastore:
    """The shared Hive 4.2.0 metastore on MariaDB, with its listener: use a unique_name in it."""
    return bed.shared("hive42-mariadb")


@pytest.fixture
def hms42(bed: Bed) -> Metastore:
    """The shared Hive 4.2.0 metastore on PostgreSQL, with its listener: use a unique_name in it."""
    return bed.shared("hive42")


@pytest.fixture
def hms40(bed: Bed) -> Metastore:
    """The shared Hive 4.0.0 metastore on PostgreSQL, without a listener: it still answers get_table."""
    return bed.shared("hive40")


@pytest.fixture
def hms31(bed: Bed) -> Metastore:
    """The shared Hive 3.1.3 metastore on PostgreSQL, with its listener."""
    return bed.shared("hive31")


@pytest.fixture
def hms23(bed: Bed) -> Metastore:
    """The shared Hive 2.3.10 metastore on Derby in memory, with its listener."""
    return bed.shared("hive23")


@pytest.fixture(scope="session")
def hms23_sql(bed: Bed) -> Metastore:
    """Hive 2.3.10 with a listener, on PostgreSQL."""
    return bed.shared("hive23-postgresql")


@pytest.fixture
def new_metastore(bed: Bed, request: pytest.FixtureRequest) -> Iterator[Callable[..., Metastore]]:
    """new_metastore(flavour="hive42", **options of Bed.private_metastore): one of the test's own, started."""
    marks = list(request.node.iter_markers("covers"))
    covered = {flavour for mark in marks for flavour in (*mark.args[1:], mark.kwargs.get("oracle"))}
    with ExitStack() as stack:

        def make(flavour: str = "hive42", **options: object) -> Metastore:
            assert not covered or flavour in covered, f"docs/compatibility.md would not say that it runs on {flavour}"
            metastore = bed.private_metastore(flavour, **options)  # type: ignore[arg-type]  # passed on as given
            stack.callback(bed.release, metastore)
            return metastore

        yield make


@pytest.fixture
def new_postgres(bed: Bed) -> Iterator[Callable[[], LocalPostgres]]:
    """new_postgres(): a cluster of the test's own, to stop, kill and restart."""
    with ExitStack() as stack:

        def make() -> LocalPostgres:
            server = bed.private_postgres()
            stack.callback(bed.release, server)
            return server

        yield make


@pytest.fixture
def fault_proxy() -> Iterator[Callable[[str, int], FaultProxy]]:
    """fault_proxy(host, port): a TCP proxy before it that can cut, delay, stall and refuse."""
    with ExitStack() as stack:
        yield lambda host, port: stack.enter_context(FaultProxy(host, port))


@pytest.fixture
def client42(hms42: Metastore) -> Iterator[MetastoreClient]:
    """A client of the shared Hive 4.2.0."""
    with MetastoreClient(*hms42.address) as client:
        yield client


@pytest.fixture
def unique_name() -> str:
    """A database name no other test of this run uses."""
    return f"db_{os.getpid()}_{next(_numbers)}"
