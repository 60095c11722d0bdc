"""The program with the lowest versions that pyproject.toml allows, in an environment without the tests' packages.

What these require themselves is left to pip.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from tests.packaging.environment import INSTALL_S, installed, run
from tests.packaging.requirements import ROOT, extra, lowest, runtime
from tests.proxy import Proxy
from tests.testbed import objects
from tests.testbed.client import MetastoreClient
from tests.testbed.metastore import Metastore

EXTRAS = ("mysql", "bootstrap", "http", "otel", "pipeline")
COMMAND_S = 60
JOB_S = 300
"""For what runs on Spark: 15 s on an idle machine."""

LOCAL = ("--master", "local[2]", "--conf", "spark.driver.memory=1g")
READ = """\
import sys
from hms_cache_proxy.store.sql.store import open_sql_store
database = sys.argv[2].encode()
with open_sql_store(sys.argv[1]).snapshot() as snapshot:
    print(snapshot.databases([(b"hive", database)]))
    (table,) = snapshot.tables(b"hive", database, [b"t"]).values()
    print(table, snapshot.partitions(table))
"""

pytestmark = [
    pytest.mark.timeout(INSTALL_S + 2 * JOB_S),
    pytest.mark.skipif(sys.version_info >= (3, 13), reason="the lowest versions have no wheels for Python 3.13"),
]


@pytest.fixture(scope="session")
def lowest_environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its directory of programs."""
    requirements = [*runtime(), *(one for name in EXTRAS for one in extra(name))]
    return installed(tmp_path_factory.mktemp("lowest"), EXTRAS, *map(lowest, requirements))


@pytest.fixture
def program(lowest_environment: Path) -> str:
    return str(lowest_environment / "hms-cache-proxy")


def test_each_lowest_version_is_installed(lowest_environment: Path) -> None:
    listed = json.loads(run(str(lowest_environment / "python"), "-m", "pip", "list", "--format=json"))
    found = {canonicalize_name(one["name"]): one["version"] for one in listed}
    for requirement in [*runtime(), *(one for name in EXTRAS for one in extra(name))]:
        wanted = lowest(requirement).partition("==")[2]
        assert requirement.specifier.contains(found[canonicalize_name(requirement.name)])
        assert found[canonicalize_name(requirement.name)].startswith(wanted), requirement
    assert found[canonicalize_name("hms-cache-proxy")] == version("hms-cache-proxy")
    assert not found.keys() & {"pytest", "pyiceberg"}


def test_commands_without_a_server(program: str, tmp_path: Path) -> None:
    assert "check-config" in run(program, "--help")
    shown = json.loads(run(program, "check-config", "--json", "--embedded", "--data-dir", str(tmp_path)))
    assert shown["data_dir"] == str(tmp_path), shown
    assert run(program, "check-config", "--embedded", HMS_CACHE_PROXY_TRACES_SAMPLE="1")


@pytest.fixture
def proxy(program: str, tmp_path: Path) -> Iterator[Proxy]:
    started = Proxy(tmp_path, upstream="", settings={"EMBEDDED": "true"}, command=(program, "serve"))
    yield started.start()
    started.close()


def test_serve(program: str, proxy: Proxy) -> None:
    """Tables are made, read and changed through it, with hits; commands ask it; it ends in order, without complaint."""
    proxy.wait_prewarmed()
    with MetastoreClient(*proxy.address) as client:
        objects.create_database(client, "lowest")
        made = objects.create_table(client, objects.table("lowest", "t", partition_keys=[("dt", "string")]))
        objects.add_partitions(client, made, [[f"2024-01-0{day}"] for day in range(1, 9)])
        proxy.wait_event(client.get_current_notificationEventId().eventId)
        for _ in range(3):
            assert client.get_table("lowest", "t").parameters == made.parameters
            assert len(client.get_partitions_by_filter("lowest", "t", "dt >= '2024-01-05'", -1)) == 4
    hits = {method for (method, outcome, _), count in proxy.requests().items() if outcome == "hit" and count}
    assert {"get_table", "get_partitions_by_filter"} <= hits, proxy.requests()
    told = json.loads(run(program, "status", "--json", "--url", f"http://127.0.0.1:{proxy.http_port}"))
    assert told["ready"] and told["objects"]["partitions"] == 8, told
    assert run(program, "status", "--url", f"http://127.0.0.1:{proxy.http_port}")
    assert proxy.stop() == 0
    assert "Traceback" not in proxy.log_tail(1000) and "Warning" not in proxy.log_tail(1000), proxy.log_tail()
    found = json.loads(run(program, "doctor", "--json", "--embedded", "--data-dir", str(proxy.directory / "data")))
    assert found, found


def reads_the_same(programs: Path, metastore: Metastore, database: str) -> None:
    """A database with a table and its partition, as the newest versions read them."""
    assert metastore.database is not None
    with MetastoreClient(*metastore.address) as client:
        objects.create_database(client, database)
        made = objects.create_table(client, objects.table(database, "t", partition_keys=[("dt", "string")]))
        objects.add_partitions(client, made, [["2024-01-01"]])
    newest, told = (
        run(python, "-c", READ, metastore.database.reader_url, database, PYTHONPATH=path)
        for python, path in ((sys.executable, str(ROOT)), (str(programs / "python"), ""))
    )
    assert "2024-01-01" in newest and told == newest


def test_store_on_postgresql(lowest_environment: Path, hms42: Metastore, unique_name: str) -> None:
    reads_the_same(lowest_environment, hms42, unique_name)


def test_store_on_mariadb(lowest_environment: Path, hms42_mariadb: Metastore, unique_name: str) -> None:
    reads_the_same(lowest_environment, hms42_mariadb, unique_name)


def test_jobs_on_spark(program: str, hms42: Metastore, unique_name: str, tmp_path: Path) -> None:
    """A snapshot is made, a proxy begins with it, and its access log gives advice."""
    assert hms42.database is not None
    with MetastoreClient(*hms42.address) as client:
        objects.create_database(client, unique_name)
        made = objects.create_table(client, objects.table(unique_name, "t", partition_keys=[("dt", "string")]))
        objects.add_partitions(client, made, [["2024-01-01"], ["2024-01-02"]])
    place, access = str(tmp_path / "snapshot"), tmp_path / "access"
    run(program, "snapshot", "build", "--store-url", hms42.database.reader_url, "--out", place, *LOCAL, timeout_s=JOB_S)
    settings = {"BOOTSTRAP": place, "ACCESS_LOG_DIRECTORY": str(access)}
    proxy = Proxy(tmp_path / "proxy", hms42.uri, hms42.database.reader_url, settings, command=(program, "serve"))
    try:
        proxy.start(prewarmed=True)
        with MetastoreClient(*proxy.address) as client:
            assert client.get_partition_names(unique_name, "t", -1) == ["dt=2024-01-01", "dt=2024-01-02"]
        assert "bootstrap done" in proxy.log.read_text()
        assert proxy.stop() == 0
    finally:
        proxy.close()
    out = tmp_path / "advice"
    told = json.loads(run(program, "advise", "--json", "--out", str(out), *LOCAL, str(access), timeout_s=JOB_S))
    assert told, told
    assert (out / "report.html").stat().st_size > 0 and list(out.glob("*.png")), list(out.iterdir())
