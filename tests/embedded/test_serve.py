"""`serve --embedded`: the proxy with its own metastore, and real clients on it without a JVM metastore."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from hms_cache_proxy.config import Address, load
from tests.clients.test_pyiceberg import pyiceberg_sources, run_suite  # noqa: F401  # a fixture
from tests.clients.test_spark import JOB_S, run_job
from tests.embedded.conftest import new_database
from tests.proxy import Proxy
from tests.testbed.bed import Bed
from tests.testbed.client import MetastoreClient
from tests.testbed.metastore import Metastore
from tests.testbed.objects import add_partitions, create_database, create_table, table
from tests.testbed.postgres import OWNER


@pytest.fixture
def embedded_proxy(tmp_path: Path) -> Proxy:
    """A proxy with its own metastore; not started."""
    return Proxy(tmp_path / "proxy", "", settings={"EMBEDDED": "true"})


def metastore_pid(proxy: Proxy) -> int:
    assert proxy.process is not None
    children = Path(f"/proc/{proxy.process.pid}/task/{proxy.process.pid}/children").read_text().split()
    named = [int(pid) for pid in children if b"metastore" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")]
    assert len(named) == 1
    return named[0]


def test_the_metastore_is_an_upstream_like_any_other(embedded_proxy: Proxy) -> None:
    """Prewarmed, answered from the cache, followed; killed it is started again, and what was written is there."""
    proxy = embedded_proxy.start(prewarmed=True)
    try:
        assert proxy.status()["mode"] == "cache", proxy.status()
        started = proxy.log.read_text()
        assert "warning" not in started and "error" not in started, started
        with MetastoreClient(*proxy.address) as client:
            create_database(client, "d")
            made = create_table(client, table("d", "t", partition_keys=[("p", "string")]))
            add_partitions(client, made, [[str(n)] for n in range(20)])
            event = client.get_current_notificationEventId().eventId
            assert event == 3
            proxy.wait_event(event)

            def answered_from_the_cache() -> bool:
                assert client.get_table("d", "t").sd.location == made.sd.location
                assert len(client.get_partition_names("d", "t", -1)) == 20
                return proxy.hits() >= 4

            proxy.wait(answered_from_the_cache, "answered from the cache")
        pid = metastore_pid(proxy)
        os.kill(pid, signal.SIGKILL)
        proxy.wait(lambda: not Path(f"/proc/{pid}").exists(), "no more calls reach the killed one")
        with MetastoreClient(*proxy.address) as client:
            create_database(client, "after")
            assert client.get_all_databases() == ["after", "d", "default"]
        assert metastore_pid(proxy) != pid
        assert proxy.metric("hms_proxy_restarts_total", child="metastore") == 1
        assert proxy.metric("hms_proxy_children", child="metastore") == 1
        assert proxy.stop() == 0, proxy.log_tail()
    finally:
        proxy.close()
    found = sqlite3.connect(proxy.directory / "data" / "metastore" / "metastore.db")
    assert found.execute('SELECT COUNT(*), MAX(EVENT_ID) FROM "NOTIFICATION_LOG"').fetchone() == (4, 4)
    found.close()


@pytest.mark.parametrize(
    ("settings", "source", "read"),
    [
        ({}, "sql", "sqlite:////d"),
        ({"STORE": "sql"}, "sql", "sqlite:////d"),
        ({"STORE": "thrift"}, "thrift", ""),
        ({"STORE": "none"}, "none", ""),
        ({"STORE_URL": "postgresql://h/d"}, "sql", "postgresql://h/d"),
    ],
)
def test_what_is_set_decides_where_the_cache_is_read_from(settings: dict[str, str], source: str, read: str) -> None:
    environment = {f"HMS_CACHE_PROXY_{key}": value for key, value in {"EMBEDDED": "true", **settings}.items()}
    config = load(None, environment, {}).with_embedded(Address("127.0.0.1", 1), "sqlite:////d")
    assert (config.source, config.store_url, config.upstream) == (source, read, (Address("127.0.0.1", 1),))


@pytest.mark.real
@pytest.mark.parametrize("backend", ["sqlite", "postgresql"])
def test_its_database_is_read_by_sql(bed: Bed, tmp_path: Path, backend: str) -> None:
    """The tables are Hive's, so the cache is filled by SQL, without another setting: calls for one partition, and
    functions, are answered from the cache, which is not so over Thrift."""
    url = new_database(bed).url(OWNER) if backend == "postgresql" else ""
    settings = {"EMBEDDED": "true", "METASTORE_URL": url}
    proxy = Proxy(tmp_path / "proxy", "", settings=settings).start(prewarmed=True)
    try:
        with MetastoreClient(*proxy.address) as client:
            create_database(client, "d")
            made = create_table(client, table("d", "t", partition_keys=[("p", "string")]))
            add_partitions(client, made, [["1"], ["2"]])
            proxy.wait_event(client.get_current_notificationEventId().eventId)

            def answered_from_the_cache() -> bool:
                found = client.get_partitions("d", "t", -1)
                assert [partition.values for partition in found] == [["1"], ["2"]]
                assert client.get_partition_by_name("d", "t", "p=1").values == ["1"]
                assert client.get_functions("d", "*") == []
                wanted = {"get_partitions", "get_partition_by_name", "get_functions"}
                return wanted <= {method for method, outcome, _ in proxy.told_requests() if outcome == "hit"}

            proxy.wait(answered_from_the_cache, "answered from the cache")
        assert proxy.status()["mode"] == "cache"
    finally:
        proxy.close()


@pytest.mark.real
def test_pyiceberg(new_metastore: Callable[..., Metastore], pyiceberg_sources: Path, tmp_path: Path) -> None:  # noqa: F811
    """PyIceberg's own catalog tests, straight on the embedded metastore: its locks are Iceberg's."""
    passed, failed, output = run_suite(pyiceberg_sources, new_metastore("embedded").uri, tmp_path)
    assert (passed, failed) == (32, 0), output


@pytest.mark.real
def test_pyiceberg_through_the_proxy(embedded_proxy: Proxy, pyiceberg_sources: Path, tmp_path: Path) -> None:  # noqa: F811
    """The same with the cache before it."""
    proxy = embedded_proxy.start()
    try:
        passed, failed, output = run_suite(pyiceberg_sources, proxy.uri, tmp_path)
        assert (passed, failed) == (32, 0), output
        assert proxy.hits() > 20, proxy.requests()
    finally:
        proxy.close()


@pytest.mark.real
@pytest.mark.timeout(JOB_S + 100)
def test_spark(embedded_proxy: Proxy, tmp_path: Path) -> None:
    """Spark's job; the two steps that fail are those which fail on Hive 4 (tests/clients/test_spark.py)."""
    proxy = embedded_proxy.start()
    try:
        results = run_job(proxy.uri, tmp_path / "spark")
        assert proxy.hits() > 50, proxy.requests()
    finally:
        proxy.close()
    failed = {step for step, text in results.items() if text != "ok"}
    assert failed == {"truncate", "read renamed"}, results
