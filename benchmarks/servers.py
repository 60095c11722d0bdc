"""Start what is measured: a Hive 4.2 metastore, the same with CachedStore, proxies, a bare server.

All answer from one PostgreSQL database. Only one is under load at a time; the others idle.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure import Server
from tests.proxy import Proxy
from tests.testbed.bed import Bed
from tests.testbed.hive import HIVES, JAVA_OPTIONS
from tests.testbed.metastore import Metastore
from tests.testbed.processes import free_port

HIVE, CACHED_STORE, MISS, HIT, BARE = "Hive 4.2", "CachedStore", "proxy miss", "proxy hit", "bare uvloop"
SERVERS = [HIVE, CACHED_STORE, MISS, HIT, BARE]
CACHED_FLAVOUR = "hive42-cached"
REFRESH = HIVES[CACHED_FLAVOUR].settings["metastore.cached.rawstore.cache.update.frequency"]
"""How often CachedStore reads everything again."""


@dataclass(slots=True)
class Stage:
    """The servers of one run; `postgres` is the database server's process id."""

    bed: Bed
    metastore: Metastore
    directory: Path
    postgres: int
    stack: ExitStack

    def hive(self) -> Server:
        return Server(HIVE, self.metastore.port, (self.metastore.process.id.pid, self.postgres))

    def cached_store(self) -> Server:
        """Hive's own cache, on the same database; it answers only once it has loaded everything."""
        cached = self.bed.private_metastore(CACHED_FLAVOUR, database=self.metastore.database, java_options=JAVA_OPTIONS)
        self.stack.callback(self.bed.release, cached)
        return Server(CACHED_STORE, cached.port, (cached.process.id.pid, self.postgres))

    def proxy(self, name: str, *, store: bool = True, settings: Mapping[str, str] | None = None) -> Proxy:
        """One worker, not started; stopped at the end. `settings`: as environment variables have them."""
        database = self.metastore.database
        assert database is not None
        url = database.reader_url if store else None
        given = {**({} if store else {"STORE": "none"}), **(settings or {})}
        proxy = Proxy(self.directory / name, self.metastore.uri, url, given)
        self.stack.callback(proxy.close)
        return proxy

    @contextmanager
    def bare(self, reply: bytes) -> Iterator[Server]:
        """A uvloop server that answers every request with these bytes."""
        path, port = self.directory / "reply.bin", free_port()
        path.write_bytes(reply)
        script = Path(__file__).with_name("bare_server.py")
        process = subprocess.Popen(
            [sys.executable, str(script), "--port", str(port), "--reply", str(path)], stdout=subprocess.PIPE
        )
        with process:
            try:
                assert process.stdout is not None
                process.stdout.readline()
                yield Server(BARE, port, (process.pid,))
            finally:
                process.terminate()


def server_of(label: str, proxy: Proxy) -> Server:
    """A running proxy's worker; its follower does not answer calls."""

    def outcomes() -> dict[str, int]:
        found: Counter[str] = Counter()
        for (_, outcome, _), count in proxy.requests().items():
            found[outcome] += int(count)
        return dict(found)

    return Server(label, proxy.port, tuple(proxy.children()["worker"]), outcomes)


def called(server: str, counted: Mapping[str, int]) -> str:
    """A row's name. Of a proxy: what its counters say of the row's calls, so that no relayed answer is called a hit."""
    if not counted:
        return server
    hits, calls = counted.get("hit", 0), sum(counted.values())
    if hits == calls:
        return HIT
    return f"proxy, {hits:,} of {calls:,} hits" if hits else MISS


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
