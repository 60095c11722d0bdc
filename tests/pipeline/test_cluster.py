"""A standalone cluster: the package is sent to executors that do not have it, and a worker that is killed in the middle
of a build costs nothing but time, on files and on an object store."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hms_cache_proxy.snapshots import rows
from hms_cache_proxy.snapshots.place import Place
from tests.follower.harness import Comparison
from tests.pipeline import cluster as clusters
from tests.pipeline.cluster import Cluster, Submit
from tests.pipeline.conftest import Follow, World
from tests.pipeline.test_bootstrap import bootstrapped, same
from tests.pipeline.test_increment import CHANGES, Published, equal, manifest_of
from tests.store import bulk
from tests.testbed.http_faults import Fault, HttpFaults, nothing
from tests.testbed.postgres import Postgres
from tests.testbed.processes import wait_until
from tests.testbed.s3 import S3Server

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(1800),
    pytest.mark.usefixtures("pipeline_extra"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
PARTITIONS = 25_500
"""Two stretches, so two tasks."""

SHORT = """
from hms_cache_proxy.pipeline import ranges
ranges.PARTITIONS_PER_STRETCH = 40
"""
"""At the beginning of a job: a small catalog has several stretches, too."""

WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted"
ENDED_S = 900.0


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A master without workers."""
    with clusters.cluster(tmp_path_factory.mktemp("cluster")) as made:
        yield made


@pytest.fixture
def cluster(started: Cluster) -> Cluster:
    """A master and two workers."""
    started.complete()
    return started


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


@pytest.fixture
def submit(cluster: Cluster, executors: list[str], tmp_path: Path) -> Submit:
    """The package, to be submitted."""
    package = tmp_path / "package"
    subprocess.run([sys.executable, "-m", "hms_cache_proxy", "spark-package", str(package)], check=True)
    return Submit(cluster, executors, package)


def kill_when(
    cluster: Cluster, process: subprocess.Popen[bytes], both: Callable[[], bool], go_on: Callable[[], None], log: Path
) -> None:
    """Kill a worker when both executors wait; then let the other one go on, until the command ends."""

    def both_wait() -> bool:
        assert process.poll() is None, log.read_text()
        return both()

    assert wait_until(both_wait, ENDED_S), log.read_text()
    cluster.kill("one")
    go_on()
    assert process.wait(ENDED_S) == 0, log.read_text()


def test_a_worker_is_killed(
    cluster: Cluster, submit: Submit, executors: list[str], postgres: Postgres, unique_name: str, tmp_path: Path
) -> None:
    """The build is submitted. Both executors wait for a locked table when one worker is killed; then the other reads
    what both were to read. Each partition is in the snapshot once."""
    database = postgres.create_metastore_database(unique_name)
    bulk.fill(database, PARTITIONS)
    before = {name: cluster.sent(name) for name in cluster.workers}
    build, log = ["snapshot", "build", "--out", str(tmp_path / "s"), "--connections", "2"], tmp_path / "log"
    with database.connect() as connection, connection.cursor() as cursor:

        def both() -> bool:
            cursor.execute(WAITING)
            return bool(cursor.fetchone()[0] == 2)

        cursor.execute('BEGIN; LOCK TABLE "PARTITION_PARAMS"')
        with submit.running(build, database.reader_url, log) as process:
            kill_when(cluster, process, both, lambda: cursor.execute("COMMIT"), log)
    made = Place(str(tmp_path / "s")).manifest()
    assert made is not None and made.exact and made.counts["partitions"] == PARTITIONS, log.read_text()
    for name in cluster.workers:
        assert cluster.sent(name) - before[name], "the executors were sent the package"
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


def end_of_partitions(method: str, path: str, _before: int) -> Fault | None:
    """The end of each upload of partitions is held: the store has the file, and the task does not know it."""
    return Fault.HELD if method == "POST" and "/partitions/round-" in path and "uploadId=" in path else None


def test_a_worker_is_killed_that_has_written_to_an_object_store(
    cluster: Cluster,
    submit: Submit,
    world: World,
    store: S3Server,
    faults: HttpFaults,
    bucket: str,
    follow: Follow,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its file is in the store, and in no manifest. The snapshot has the records of one that is built in this process,
    and so has its increment after changes of every kind. A follower fills its cache from that, where no Java is."""
    job, local, log = tmp_path / "job.py", Published(world, tmp_path / "local", []), tmp_path / "log"
    job.write_text(SHORT + submit.job.read_text())
    url, account = world.config.store_url, store.environment(faults.port)
    publish = ["snapshot", "publish", "--out", bucket.replace("s3://", "s3a://"), "--connections", "2"]
    faults.choose = end_of_partitions
    with submit.running(publish, url, log, account=account, job=job) as process:
        kill_when(cluster, process, lambda: len(faults.held) == 2, faults.release.set, log)
    faults.choose = nothing
    (full,) = Place(bucket).snapshots()
    made, partitions = manifest_of(full.uri), f"{rows.PARTITIONS}/round-00000"
    named = {file.name for file in made.of_kind(rows.PARTITIONS)}
    written = {f"{partitions}/{name}" for name in full.below(partitions).names()}
    assert made.exact and len(named) == 2 and named < written, log.read_text()
    assert equal(local, full.uri) > 200

    for _ in range(CHANGES):
        world.changes.one()
    with submit.running([*publish, "--increment"], url, log, account=account) as process:
        assert process.wait(ENDED_S) == 0, log.read_text()
    later = Place(bucket).snapshots()[0]
    assert manifest_of(later.uri).elsewhere == {full.uri.rpartition("/")[2]}, log.read_text()
    assert equal(local, later.uri) > 200

    for _ in range(CHANGES):
        world.changes.one()
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert shutil.which("java") is None
    filled = follow(world.metastore, bootstrap=bucket)
    assert same(follow(world.metastore), filled) > 500
    assert bootstrapped(filled)["uri"] == later.uri and filled.report()["last_reset"] is None
    Comparison(filled, world.oracle, "random_").all()
