"""One worker as a process of its own, and a scripted metastore for what a real one never does."""

from __future__ import annotations

import re
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from hms_cache_proxy.config import load, to_json
from tests.server.scripted import ScriptedMetastore
from tests.testbed import ledger, metric_files, objects
from tests.testbed.client import MetastoreClient
from tests.testbed.metastore import Metastore
from tests.testbed.processes import Process, free_port, wait_until
from tests.testbed.raw import RawConnection

READY_TIMEOUT_S = 60


@dataclass
class Worker:
    """A running worker."""

    process: Process
    port: int
    directory: Path

    host = "127.0.0.1"

    def raw(self, *, framed: bool = False, timeout_s: float = 60.0) -> RawConnection:
        """A connection that speaks bytes."""
        return RawConnection(self.host, self.port, framed=framed, timeout_s=timeout_s)

    def client(self, *, framed: bool = False) -> MetastoreClient:
        """A connection that speaks Thrift."""
        return MetastoreClient(self.host, self.port, framed=framed)

    def memory_bytes(self, field: str = "VmRSS") -> int:
        """A line of /proc/PID/status; VmHWM is the highest resident size so far."""
        status = Path(f"/proc/{self.process.id.pid}/status").read_text()
        found = re.search(rf"^{field}:\s+(\d+) kB", status, re.MULTILINE)
        assert found is not None
        return int(found[1]) * 1024

    def log(self) -> str:
        """What it has logged."""
        return self.process.log.read_text()

    def logged(self, text: str) -> bool:
        """Has it logged this, or does it soon?"""
        return wait_until(lambda: text in self.log())

    def metric(self, name: str, **labels: str) -> float:
        """The value of a metric now, summed over the labels that are not given."""
        return metric_files.value(self.directory / "metrics", name, **labels)

    def counted(self, number: float, name: str, **labels: str) -> bool:
        """Does the metric reach this value at the next flush?"""
        return wait_until(lambda: self.metric(name, **labels) >= number)


def accepts(port: int) -> bool:
    """Does somebody listen?"""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


@pytest.fixture
def new_worker(tmp_path: Path) -> Iterator[Callable[..., Worker]]:
    """new_worker((host, port), ..., interface=, **settings): a worker before these metastores."""
    with ExitStack() as stack:

        def make(*upstreams: tuple[str, int], interface: str = "127.0.0.1", **settings: object) -> Worker:
            port = free_port()
            directory = tmp_path / f"worker-{port}"
            (directory / "metrics").mkdir(parents=True)
            config = {
                "listen": f"{interface}:{port}",
                "upstream": [f"thrift://{host}:{number}" for host, number in upstreams],
                "data_dir": str(directory),
                "store": "none",
                **settings,
            }
            process = Process(
                "worker",
                [sys.executable, "-m", "tests.server.one_worker", to_json(load(cli=config))],
                directory / "worker.log",
                cwd=Path(__file__).parents[2],
            )
            with ledger.starting(ledger.WORKER):
                process.start()
                stack.callback(process.stop)
                process.wait_ready(lambda: accepts(port), READY_TIMEOUT_S)
            return Worker(process, port, directory)

        yield make


@pytest.fixture
def relay(hms42: Metastore, new_worker: Callable[..., Worker]) -> Worker:
    """A worker before Hive 4.2.0."""
    return new_worker(hms42.address)


@pytest.fixture
def scripted() -> Iterator[ScriptedMetastore]:
    """A metastore that answers as it is told."""
    with ScriptedMetastore() as metastore:
        yield metastore


@pytest.fixture
def passing_database(hms42: Metastore, unique_name: str) -> Iterator[str]:
    """A database of the shared metastore that is dropped after the test: what is huge slows every later follower."""
    with MetastoreClient(*hms42.address) as client:
        objects.create_database(client, unique_name)
    yield unique_name
    with MetastoreClient(*hms42.address) as client:
        client.drop_database(unique_name, False, True)
