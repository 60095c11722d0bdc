"""PyIceberg: its own catalog integration tests through the proxy, and concurrent appends of which none may be lost."""

from __future__ import annotations

import gc
import os
import random
import re
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.hive import HiveCatalog
from pyiceberg.exceptions import CommitFailedException, WaitingForLockException

from tests.lengths import by_tier
from tests.ops.test_peers import fleet
from tests.proxy import Proxy
from tests.testbed.artifacts import cache_directory
from tests.testbed.bed import Bed
from tests.testbed.client import MetastoreClient
from tests.testbed.metastore import Metastore
from tests.testbed.packages import required

SUITE_S = 600
APPENDS = int(os.environ.get("LOST_COMMITS_APPENDS", by_tier(test=24, all=150, every=1000)))
APPENDS_ANYWHERE = int(os.environ.get("FLEET_APPENDS", by_tier(test=24, all=48, every=1000)))
TABLES = 4
APPENDS_OF_A_TABLE = 50
"""PyIceberg copies all of a table's snapshots some twenty times for one append."""


@pytest.fixture(scope="session")
def pyiceberg_sources() -> Path:
    """PyIceberg's source distribution, of the version that is installed; it contains its integration tests.

    They name databases and tables with hyphens, which Hive 2.3 refuses: here with underscores.
    """
    required("moto", "boto3", "fastavro", "pytest_lazy_fixtures", "pytest_mock")
    name = f"pyiceberg-{version('pyiceberg')}"
    directory = cache_directory() / "sdist"
    if not (directory / name).is_dir():
        directory.mkdir(parents=True, exist_ok=True)
        arguments = ["download", "--quiet", "--no-deps", "--no-binary", "pyiceberg", "--dest", str(directory)]
        subprocess.run([sys.executable, "-m", "pip", *arguments, name.replace("-", "==")], check=True, timeout=300)
        with tarfile.open(directory / f"{name}.tar.gz") as archive:
            archive.extractall(directory, filter="data")
    tests = directory / name / "tests"
    (tests / "__init__.py").touch()  # else another package `tests` on the path comes first
    for path in (tests / "conftest.py", tests / "integration" / "test_catalog.py"):
        text = path.read_text()
        plain = re.sub(r"(my_iceberg_database|my_iceberg_table|rename)-", r"\1_", text)
        if plain != text:
            path.write_text(plain)
    return directory / name


def run_suite(
    sources: Path, uri: str, warehouse: Path, more: Mapping[str, str] | None = None, report: Path | None = None
) -> tuple[int, int, str]:
    """(passed, failed, output) of the catalog integration tests on one metastore. `more`: of their environment;
    `report`: where pytest writes what became of each test (JUnit's XML)."""
    environment = {
        **os.environ,
        **(more or {}),
        "PYICEBERG_TEST_CATALOG": "metastore",
        "PYICEBERG_CATALOG__METASTORE__TYPE": "hive",
        "PYICEBERG_CATALOG__METASTORE__URI": uri,
        "PYICEBERG_CATALOG__METASTORE__WAREHOUSE": warehouse.as_uri(),
    }
    command = ["-m", "pytest", "-q", "-p", "no:randomly", "-p", "no:cacheprovider", "-o", "addopts=", "-W", "ignore"]
    command.append("--tb=native")  # the default parses the generated client for each line of a traceback: 40 s
    command += [f"--junit-xml={report}"] if report is not None else []
    finished = subprocess.run(
        [sys.executable, *command, "-k", "rest_test_catalog", "tests/integration/test_catalog.py"],
        cwd=sources,
        env=environment,
        capture_output=True,
        text=True,
        timeout=SUITE_S,
    )
    counts = {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|error)", finished.stdout)}
    return counts.get("passed", 0), counts.get("failed", 0) + counts.get("error", 0), finished.stdout[-3000:]


@pytest.mark.real
@pytest.mark.timeout(3 * SUITE_S)
@pytest.mark.covers("PyIceberg's own catalog tests", "hive42", cache="SQL")
def test_own_catalog_tests_cold_and_warm(
    new_metastore: Callable[..., Metastore],
    new_proxy: Callable[..., Proxy],
    pyiceberg_sources: Path,
    tmp_path: Path,
) -> None:
    proxy = new_proxy(new_metastore("hive42"), prewarmed=False)
    for attempt in ("cold", "warm"):
        passed, failed, output = run_suite(pyiceberg_sources, proxy.uri, tmp_path)
        assert (passed, failed) == (32, 0), f"{attempt}: {output}"
        proxy.wait_prewarmed()
    hits = sum(count for (_, outcome, _), count in proxy.requests().items() if outcome == "hit")
    assert hits > 100


def catalog(uri: str, warehouse: Path) -> HiveCatalog:
    settings = {"uri": uri, "warehouse": warehouse.as_uri()}
    waits = {"lock-check-min-wait-time": "0.01", "lock-check-max-wait-time": "0.2", "lock-check-retries": "60"}
    return HiveCatalog("appends", **settings, **waits)


@pytest.fixture
def collected() -> Iterator[None]:
    """Sockets that PyIceberg leaves open are closed with this test, whose filter ignores them, and not in another."""
    yield
    gc.collect()


def append(uris: Sequence[str], warehouse: Path, number: int) -> None:
    """One appended row, retried as a writer would until it is committed."""
    for attempt in range(200):
        table = catalog(uris[(number + attempt) % len(uris)], warehouse).load_table(("lost", f"t{number % TABLES}"))
        try:
            return table.append(pa.table({"n": pa.array([number], pa.int64())}))
        except (CommitFailedException, WaitingForLockException):
            continue
    raise AssertionError(f"append {number} was refused 200 times")


def followed(metastore: Metastore, proxies: Sequence[Proxy]) -> None:
    """Until the proxies have seen all that the metastore has logged."""
    with MetastoreClient(*metastore.address) as client:
        event_id = client.get_current_notificationEventId().eventId
    for proxy in proxies:
        proxy.wait_event(event_id)


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.timeout(1500)
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.usefixtures("collected")
@pytest.mark.covers("PyIceberg: concurrent appends through two proxies, none lost", "hive42", cache="SQL")
def test_no_lost_commits(
    new_metastore: Callable[..., Metastore], new_proxy: Callable[..., Proxy], tmp_path: Path
) -> None:
    """Concurrent appends through two proxies and the bare relay: every one is in its table at the end."""
    metastore = new_metastore("hive42")
    relay = new_proxy(metastore, store=False, settings={"STORE": "none"})  # the metastore itself lacks get_table
    proxies = [new_proxy(metastore) for _ in range(2)]
    uris = [relay.uri, *(proxy.uri for proxy in proxies)]
    direct = catalog(relay.uri, tmp_path)
    direct.create_namespace("lost")
    for index in range(TABLES):
        direct.create_table(("lost", f"t{index}"), pa.schema([pa.field("n", pa.int64())]))
    followed(metastore, proxies)
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda number: append(uris, tmp_path, number), range(APPENDS)))
    followed(metastore, proxies)
    for uri in uris:
        found: list[int] = []
        for index in range(TABLES):
            found += catalog(uri, tmp_path).load_table(("lost", f"t{index}")).scan().to_arrow()["n"].to_pylist()
        lost, twice = set(range(APPENDS)) - set(found), len(found) - len(set(found))
        assert not lost and not twice, f"{uri} of {uris}: lost {sorted(lost)}, {twice} twice"


class AnyProxy:
    """In the place of a catalog's client: every single call goes through one of these, at random, which is connected
    for its first call."""

    def __init__(self, clients: Sequence[Any]) -> None:
        self._clients = clients
        self._open: dict[int, Any] = {}
        self._stack = ExitStack()

    def __enter__(self) -> AnyProxy:
        return self

    def __exit__(self, *error: object) -> None:
        self._open.clear()
        self._stack.close()

    def __getattr__(self, method: str) -> Any:
        number = random.randrange(len(self._clients))
        if number not in self._open:
            self._open[number] = self._stack.enter_context(self._clients[number])
        return getattr(self._open[number], method)


def anywhere(proxies: Sequence[Proxy], warehouse: Path) -> HiveCatalog:
    """A catalog whose calls go through any proxy."""
    catalogs = [catalog(proxy.uri, warehouse) for proxy in proxies]
    catalogs[0]._client = AnyProxy([one._client for one in catalogs])  # type: ignore[assignment]
    return catalogs[0]


def append_anywhere(proxies: Sequence[Proxy], warehouse: Path, number: int, tables: int) -> None:
    """Every table has two writers at a time."""
    for _ in range(200):
        table = anywhere(proxies, warehouse).load_table(("fleet", f"t{number // 2 % tables}"))
        try:
            return table.append(pa.table({"n": pa.array([number], pa.int64())}))
        except (CommitFailedException, WaitingForLockException):
            continue
    raise AssertionError(f"append {number} was refused 200 times")


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.timeout(1500)
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.usefixtures("collected")
def test_every_call_through_any_proxy_of_a_fleet(bed: Bed, new_proxy: Callable[..., Proxy], tmp_path: Path) -> None:
    """Eight writers. Nothing is lost, and no call finds a table missing that another proxy has just made or changed
    (NoSuchTableError would end the test)."""
    proxies, tables = fleet(new_proxy, bed.shared("embedded"), 3), max(TABLES, APPENDS_ANYWHERE // APPENDS_OF_A_TABLE)
    anywhere(proxies, tmp_path).create_namespace("fleet")
    for index in range(tables):
        anywhere(proxies, tmp_path).create_table(("fleet", f"t{index}"), pa.schema([pa.field("n", pa.int64())]))
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: append_anywhere(proxies, tmp_path, number, tables), range(APPENDS_ANYWHERE)))
    found: list[int] = []
    for index in range(tables):
        table = anywhere(proxies, tmp_path).load_table(("fleet", f"t{index}"))
        found += table.scan().to_arrow()["n"].to_pylist()
    assert sorted(found) == list(range(APPENDS_ANYWHERE))
