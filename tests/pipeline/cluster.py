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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType

from hms_cache_proxy.pipeline import package
from tests.testbed import artifacts
from tests.testbed.processes import free_port, wait_until

STARTED_S = 180.0
WORKERS = ("one", "two")
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
        self._port = free_port()
        self.master = f"spark://127.0.0.1:{self._port}"
        self._processes: list[subprocess.Popen[bytes]] = []
        self._start("master", "master.Master", "--host", "127.0.0.1", "--port", str(self._port), "--webui-port", "0")
        self.workers: dict[str, subprocess.Popen[bytes]] = {}

    def complete(self) -> None:
        """Start the workers that do not run: both at first, later the one that was killed."""
        assert wait_until(lambda: _listens(self._port), STARTED_S), self.log("master")
        missing = [name for name in WORKERS if name not in self.workers or self.workers[name].poll() is not None]
        for name in missing:
            work = self.work(name)
            options = ("--cores", "1", "--memory", MEMORY, "--webui-port", "0", "--work-dir", str(work))
            self.workers[name] = self._start(name, "worker.Worker", "--host", "127.0.0.1", *options, self.master)
        for name in missing:
            assert wait_until(partial(self._registered, name), STARTED_S), self.log(name)

    def _registered(self, name: str) -> bool:
        return "registered with master" in self.log(name)

    def work(self, name: str) -> Path:
        """A worker's directory."""
        return self._directory / name / "work"

    def sent(self, name: str) -> set[Path]:
        """The zips that executors of a worker were sent, each of another application."""
        return set(self.work(name).glob(f"app-*/*/{package.ZIP}"))

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
        directory.mkdir(exist_ok=True)
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


@dataclass(frozen=True)
class Submit:
    """spark-submit to a cluster. `options`: of Spark; `package`: what the command `spark-package` has written."""

    cluster: Cluster
    options: Sequence[str]
    package: Path

    @property
    def job(self) -> Path:
        """The command line, as a file for spark-submit."""
        return self.package / package.JOB

    @contextmanager
    def running(
        self,
        command: Sequence[str],
        url: str,
        log: Path,
        *,
        account: Mapping[str, str] = MappingProxyType({}),
        job: Path | None = None,
    ) -> Iterator[subprocess.Popen[bytes]]:
        """A command over the database at `url`, killed if the block leaves it running. `account`: variables for driver
        and executors, `job`: in place of `self.job`."""
        shown = [word for key, value in account.items() for word in ("--conf", f"spark.executorEnv.{key}={value}")]
        submit = [str(spark_home() / "bin" / "spark-submit"), "--master", self.cluster.master, *self.options, *shown]
        submit += ["--py-files", str(self.package / package.ZIP), str(job or self.job), *command]
        variables = {**environment(), "HMS_CACHE_PROXY_STORE_URL": url, **account}
        with open(log, "wb") as said:
            process = subprocess.Popen(submit, env=variables, stdout=said, stderr=said, start_new_session=True)
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
