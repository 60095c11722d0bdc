"""Start what is measured: a Hive 4.2 metastore, the same with CachedStore, proxies, a bare server.

All answer from one PostgreSQL database. Only one is under load at a time; the others idle.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure import Server
from tests.proxy import Proxy
from tests.testbed.bed import Bed
from tests.testbed.hive import JAVA_OPTIONS, Metastore
from tests.testbed.processes import free_port


@dataclass(slots=True)
class Stage:
    """The servers of one run; `postgres` is the database server's process id."""

    bed: Bed
    metastore: Metastore
    directory: Path
    postgres: int
    stack: ExitStack

    def hive(self) -> Server:
        return Server("Hive 4.2", self.metastore.port, (self.metastore.process.id.pid, self.postgres))

    def cached_store(self) -> Server:
        """Hive's own cache, on the same database; give it time to warm up."""
        cached = self.bed.private_metastore(
            "hive42-cached", database=self.metastore.database, java_options=JAVA_OPTIONS
        )
        self.stack.callback(self.bed.release, cached)
        time.sleep(15)
        return Server("CachedStore", cached.port, (cached.process.id.pid, self.postgres))

    def proxy(self, label: str, *, store: bool) -> tuple[Server, Proxy]:
        database = self.metastore.database
        assert database is not None
        url = database.reader_url if store else None
        settings = {} if store else {"STORE": "none"}
        proxy = Proxy(self.directory / label.replace(" ", "-"), self.metastore.uri, url, settings)
        proxy.start(prewarmed=store)
        self.stack.callback(proxy.close)
        assert proxy.process is not None
        workers = tuple(proxy.children()["worker"])
        return Server(label, proxy.port, workers), proxy

    def bare(self, reply: bytes) -> Server:
        """A uvloop server that answers every request with these bytes."""
        path, port = self.directory / f"reply-{len(reply)}.bin", free_port()
        path.write_bytes(reply)
        command = [
            sys.executable,
            str(Path(__file__).with_name("bare_server.py")),
            "--port",
            str(port),
            "--reply",
            str(path),
        ]
        process = subprocess.Popen(command)
        self.stack.callback(end, process)
        time.sleep(1)
        return Server("bare uvloop", port, (process.pid,))


def end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    process.wait(10)


@contextmanager
def stage(directory: Path) -> Iterator[Stage]:
    bed = Bed()
    try:
        with ExitStack() as stack:
            metastore = bed.private_metastore("hive42", java_options=JAVA_OPTIONS)
            stack.callback(bed.release, metastore)
            server = bed.postgres
            yield Stage(bed, metastore, directory, postgres_pid(server), stack)
    finally:
        bed.close()


def postgres_pid(server: object) -> int:
    process = getattr(server, "process", None)
    if process is None:
        raise SystemExit("the benchmark needs a PostgreSQL of its own: unset HMS_TESTBED_CONTAINERS")
    return int(process.id.pid)
