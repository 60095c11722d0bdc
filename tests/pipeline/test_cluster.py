"""A standalone cluster: the package is sent to executors that do not have it, and a worker that is killed in the middle
of a build costs nothing but time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hms_cache_proxy.snapshots.place import Place
from tests.pipeline import cluster as clusters
from tests.pipeline.cluster import Cluster
from tests.store import bulk
from tests.testbed.postgres import Postgres
from tests.testbed.processes import wait_until

pytestmark = [pytest.mark.real, pytest.mark.timeout(1800), pytest.mark.usefixtures("pipeline_extra")]
PARTITIONS = 25_500
"""Two stretches, so two tasks."""

WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted"
ENDED_S = 900.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A master and two workers."""
    with clusters.cluster(tmp_path_factory.mktemp("cluster")) as started:
        yield started


@pytest.fixture(scope="module")
def executors(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The settings for executors that have a Python of their own."""
    archive = tmp_path_factory.mktemp("python") / "environment.tar.gz"
    clusters.python_archive(archive)
    settings = {
        "spark.archives": f"{archive}#environment",
        "spark.pyspark.python": "./environment/bin/python",
        "spark.pyspark.driver.python": sys.executable,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "512m",
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    return [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]


def test_a_worker_is_killed(
    cluster: Cluster, executors: list[str], postgres: Postgres, unique_name: str, tmp_path: Path
) -> None:
    """The build is submitted. Both executors wait for a locked table when one worker is killed; then the other reads
    what both were to read. Each partition is in the snapshot once."""
    database = postgres.create_metastore_database(unique_name)
    bulk.fill(database, PARTITIONS)
    package = tmp_path / "package"
    subprocess.run([sys.executable, "-m", "hms_cache_proxy", "spark-package", str(package)], check=True)
    zipped, job = package / "hms_cache_proxy.zip", package / "hms_cache_proxy_job.py"
    submit = [str(clusters.spark_home() / "bin" / "spark-submit"), "--master", cluster.master, *executors]
    build = ["snapshot", "build", "--out", str(tmp_path / "s"), "--connections", "2"]
    settings = {**clusters.environment(), "HMS_CACHE_PROXY_STORE_URL": database.reader_url}
    log = tmp_path / "log"
    with database.connect() as connection, connection.cursor() as cursor, open(log, "wb") as said:
        cursor.execute('BEGIN; LOCK TABLE "PARTITION_PARAMS"')
        process = subprocess.Popen(
            [*submit, "--py-files", str(zipped), str(job), *build], env=settings, stdout=said, stderr=said
        )

        def both_wait() -> bool:
            assert process.poll() is None, log.read_text()
            cursor.execute(WAITING)
            return bool(cursor.fetchone()[0] == 2)

        try:
            assert wait_until(both_wait, ENDED_S), log.read_text()
            cluster.kill("one")
            cursor.execute("COMMIT")
            assert process.wait(ENDED_S) == 0, log.read_text()
        finally:
            process.kill()
    made = Place(str(tmp_path / "s")).manifest()
    assert made is not None and made.exact and made.counts["partitions"] == PARTITIONS, log.read_text()
    for name in cluster.workers:
        assert list(cluster.work(name).glob("app-*/*/hms_cache_proxy.zip")), "the executors were sent the package"
    asked = subprocess.run(
        [sys.executable, "-m", "hms_cache_proxy", "snapshot", "query", "--json", "--uri", str(tmp_path / "s")]
        + ["--master", cluster.master, *executors, "SELECT count(DISTINCT name) AS n FROM partitions"],
        env={**os.environ, "PYTHONPATH": ""},
        capture_output=True,
        text=True,
        timeout=ENDED_S,
    )
    assert asked.returncode == 0, asked.stderr
    assert json.loads(asked.stdout) == {"n": PARTITIONS}, "a command that is not submitted sends the package itself"
