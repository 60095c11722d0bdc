"""A standalone cluster of Spark: a master and two workers, each a process with a directory of its own, whose executors
have a Python of their own."""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from tests.testbed import artifacts
from tests.testbed.processes import free_port, wait_until

STARTED_S = 180.0
MEMORY = "512m"
EXECUTORS = artifacts.PackageSet(
    "spark-executors", ("SQLAlchemy", "psycopg2-binary", "thrift", "lmdb", "pyarrow", "structlog")
)
"""What the tasks import, as docs/pipeline.md says."""


def spark_home() -> Path:
    """Where PySpark's programs and jars are."""
    spec = find_spec("pyspark")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent


def environment() -> dict[str, str]:
    """The environment without what only the driver may use."""
    kept = ("PATH", "JAVA_HOME", "HOME", "LANG", "TMPDIR")
    return {**{key: os.environ[key] for key in kept if key in os.environ}, "SPARK_HOME": str(spark_home())}


def python_archive(path: Path) -> None:
    """An archive with `bin/python`, as of an environment that was packed: the base Python with the executors' packages,
    and without those of the driver."""
    packages = artifacts.install_packages(EXECUTORS)
    base = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    script = path.with_name("python")
    script.write_text(f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{packages}" exec {shlex.quote(str(base))} -s "$@"\n')
    script.chmod(0o755)
    with tarfile.open(path, "w:gz") as archive:
        archive.add(script, "bin/python")


class Cluster:
    """The master's address, and the workers' processes with their directories."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        port = free_port()
        self.master = f"spark://127.0.0.1:{port}"
        self._processes: list[subprocess.Popen[bytes]] = []
        self._start("master", "master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0")
        assert wait_until(lambda: _listens(port), STARTED_S), self.log("master")
        self.workers: dict[str, subprocess.Popen[bytes]] = {}
        for name in ("one", "two"):
            work = self.work(name)
            options = ("--cores", "1", "--memory", MEMORY, "--webui-port", "0", "--work-dir", str(work))
            self.workers[name] = self._start(name, "worker.Worker", "--host", "127.0.0.1", *options, self.master)
        for name in self.workers:
            assert wait_until(lambda name=name: "registered with master" in self.log(name), STARTED_S), self.log(name)

    def work(self, name: str) -> Path:
        """A worker's directory."""
        return self._directory / name / "work"

    def log(self, name: str) -> str:
        """What a process has said."""
        return (self._directory / name / "log").read_text()

    def kill(self, name: str) -> None:
        """Kill a worker, with its executor."""
        os.killpg(self.workers[name].pid, signal.SIGKILL)
        self.workers[name].wait()

    def close(self) -> None:
        """Kill what is left."""
        for process in reversed(self._processes):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def _start(self, name: str, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        directory = self._directory / name
        directory.mkdir()
        command = [str(spark_home() / "bin" / "spark-class"), f"org.apache.spark.deploy.{program}", *arguments]
        settings = {**environment(), "SPARK_DAEMON_MEMORY": "256m", "SPARK_LOCAL_IP": "127.0.0.1"}
        settings["SPARK_DAEMON_JAVA_OPTS"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
        with open(directory / "log", "wb") as log:
            process = subprocess.Popen(
                command, env=settings, cwd=directory, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
        self._processes.append(process)
        return process


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def cluster(directory: Path) -> Iterator[Cluster]:
    """One for the block."""
    started = Cluster(directory)
    try:
        yield started
    finally:
        started.close()
