"""One worker as a process of its own, and a scripted metastore for what a real one never does."""

from __future__ import annotations

import itertools
import re
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from hms_cache_proxy.config import load, to_json
from tests.server.scripted import ScriptedMetastore
from tests.testbed import ledger, metric_files
from tests.testbed.bed import Bed
from tests.testbed.client import MetastoreClient
from tests.testbed.metastore import Metastore
from tests.testbed.processes import Process, free_port, wait_until
from tests.testbed.raw import RawConnection

READY_TIMEOUT_S = 240
_hosts = itertools.count()


@dataclass
class Worker:
    """A running worker. `source`: the address of its raw clients; `skipped`: of its log, what is not looked at."""

    process: Process
    port: int
    directory: Path
    source: str = ""
    skipped: int = 0

    host = "127.0.0.1"

    def raw(self, *, framed: bool = False, timeout_s: float = 60.0) -> RawConnection:
        """A connection that speaks bytes."""
        return RawConnection(self.host, self.port, framed=framed, timeout_s=timeout_s, source=self.source)

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
        return self.process.log.read_text()[self.skipped :]

    def lent(self) -> Worker:
        """The same for one more test: its log from now on, and clients of an address of their own, as what is said of
        one address is not repeated for a while."""
        high, low = divmod(next(_hosts), 250)
        return replace(self, source=f"127.1.{high}.{1 + low}", skipped=self.skipped + len(self.log()))

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


@contextmanager
def started(
    directory: Path, *upstreams: tuple[str, int], interface: str = "127.0.0.1", **settings: object
) -> Iterator[Worker]:
    """A worker before these metastores, until the end."""
    port = free_port()
    home = directory / f"worker-{port}"
    (home / "metrics").mkdir(parents=True)
    config = {
        "listen": f"{interface}:{port}",
        "upstream": [f"thrift://{host}:{number}" for host, number in upstreams],
        "data_dir": str(home),
        "store": "none",
        **settings,
    }
    process = Process(
        "worker",
        [sys.executable, "-m", "tests.server.one_worker", to_json(load(cli=config)).decode()],
        home / "worker.log",
        cwd=Path(__file__).parents[2],
    )
    with ExitStack() as stack:
        with ledger.starting(ledger.WORKER):
            process.start()
            stack.callback(process.stop)
            process.wait_ready(lambda: accepts(port), READY_TIMEOUT_S)
        yield Worker(process, port, home)


@pytest.fixture
def new_worker(tmp_path: Path) -> Iterator[Callable[..., Worker]]:
    """new_worker((host, port), ..., interface=, **settings): a worker before these metastores."""
    with ExitStack() as stack:
        yield lambda *upstreams, **settings: stack.enter_context(started(tmp_path, *upstreams, **settings))


@pytest.fixture(scope="module")
def shared_relay(bed: Bed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    """A worker before Hive 4.2.0."""
    with started(tmp_path_factory.mktemp("relay"), bed.shared("hive42").address) as worker:
        yield worker


@pytest.fixture
def relay(shared_relay: Worker) -> Worker:
    """One that the tests of a module share."""
    return shared_relay.lent()


@pytest.fixture
def own_relay(hms42: Metastore, new_worker: Callable[..., Worker]) -> Worker:
    """One of the test's own, whose memory and connections are measured."""
    return new_worker(hms42.address)


@pytest.fixture
def scripted() -> Iterator[ScriptedMetastore]:
    """A metastore that answers as it is told."""
    with ScriptedMetastore() as metastore:
        yield metastore
