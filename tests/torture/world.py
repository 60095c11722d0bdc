"""What is tortured: Hive 4.2 on a PostgreSQL of its own, two proxies, and a TCP proxy on each connection between them.

Job: start everything, know every place where a fault can strike, end everything.
Must not know: which faults there are, what clients check.
Invariants: clients of a proxy come through its `front`; a proxy's calls go through its `upstream`, those of the second
one through its `spare`, too; its follower's statements go through its `database`, the metastore's through
`metastore_database`. The metastore's own port is reached directly: what is read there is the truth. As root each proxy
has its data directory on a small file system of its own, in a mount namespace that ends with the world.
"""

from __future__ import annotations

import http.client
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from tests.proxy import Proxy
from tests.testbed.bed import Bed
from tests.testbed.fault_proxy import FaultProxy
from tests.testbed.metastore import Metastore
from tests.testbed.postgres import LocalPostgres
from tests.testbed.processes import signalled
from tests.testbed.small_disk import SmallDisk, can_mount

UNCONFIRMED_S = 2.0
PATIENCE_S, MOST_PATIENCE_S = 120.0, 900.0
"""On a usual machine; on any."""
REQUEST_TIMEOUT_S = 8
HUNG_AFTER_S, WORKER_HUNG_AFTER_S = 15, 8
WORKERS = 2
MAX_UPSTREAM, UPSTREAM_IDLE_S = 60, 2
"""Connections of one worker to the metastore, and for how long an idle one stays."""
MEMORY_BYTES, SPOOL_BYTES = 32 << 20, 64 << 20
"""Of one worker, for requests and replies under way."""
SETTINGS: Mapping[str, str] = {
    "WORKERS": str(WORKERS),
    "MAX_UNCONFIRMED_MS": str(int(UNCONFIRMED_S * 1000)),
    "UPSTREAM_OPTIONS_REQUEST_TIMEOUT_S": str(REQUEST_TIMEOUT_S),
    "UPSTREAM_OPTIONS_CONNECT_TIMEOUT_S": "2",
    "UPSTREAM_OPTIONS_MAX_CONNECTIONS": str(MAX_UPSTREAM),
    "UPSTREAM_OPTIONS_IDLE_TIMEOUT_S": str(UPSTREAM_IDLE_S),
    "LIMITS_MEMORY_BYTES": str(MEMORY_BYTES),
    "LIMITS_SPOOL_BYTES": str(SPOOL_BYTES),
    "FOLLOWER_HUNG_AFTER_S": str(HUNG_AFTER_S),
    "WORKER_HUNG_AFTER_S": str(WORKER_HUNG_AFTER_S),
    "DRAIN_TIMEOUT_S": "5",
}
DISK_BYTES = 512 << 20
NOTICED_S = 1.5
"""After a fault has begun until every proxy knows of it, on a usual machine."""
POOL_TRUSTS_S = 0.6
"""HikariCP takes a connection that was used within the last half second from the pool without a look at it."""


@dataclass
class Side:
    """One proxy and the connections around it."""

    proxy: Proxy
    front: FaultProxy
    upstream: FaultProxy
    database: FaultProxy
    disk: SmallDisk | None
    spare: FaultProxy | None = None
    """Its second way to the metastore, if it has one."""

    @property
    def data(self) -> Path:
        """The data directory, as this process reaches it."""
        data = self.proxy.directory / "data"
        return data if self.disk is None else self.disk.outside(data)

    def cursor(self) -> int | None:
        """The event that its cache is as of, if it tells."""
        try:
            return int(self.proxy.status()["cursor_event_id"])
        except (OSError, ValueError, TypeError, http.client.HTTPException):  # TypeError: it has none
            return None

    @property
    def links(self) -> dict[str, FaultProxy]:
        """By the name of what is broken."""
        links = {"front": self.front, "upstream": self.upstream, "database": self.database}
        return links if self.spare is None else {**links, "spare": self.spare}


@dataclass
class World:
    """Everything that runs; `without_database` are the times in which Hive itself may answer wrongly; `complaints` are
    what a fault found wrong itself.

    Whoever has clients sets `still`, in which they make no call, `restored`, which tells them of an older state, and
    `slowdown`, which is the machine's now.
    """

    server: LocalPostgres
    metastore: Metastore
    metastore_database: FaultProxy
    sides: list[Side]
    without_database: list[list[float]] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    prepared: bool = False  # what clients and faults need beside the clients' own objects is there
    scale: float = 1.0  # of floods
    widened: int = 0  # how often a table was flooded with partitions
    still: Callable[[], AbstractContextManager[None]] = nullcontext
    restored: Callable[[], None] = lambda: None
    slowdown: Callable[[], float] = lambda: 1.0

    @property
    def patience_s(self) -> float:
        """So long is waited for what must come: far longer than it may take, but a planted fault may keep it away."""
        return min(MOST_PATIENCE_S, PATIENCE_S * self.slowdown())

    def last(self, seconds: float) -> None:
        """Sleep while a fault lasts: for so long after every proxy has noticed it."""
        time.sleep(NOTICED_S * self.slowdown() + seconds)

    @property
    def truth(self) -> tuple[str, int]:
        """The metastore's own address."""
        return self.metastore.address

    @property
    def ports(self) -> list[int]:
        """Where clients connect: the metastore's own port, then the proxies' fronts."""
        return [self.metastore.port, *(side.front.port for side in self.sides)]

    @contextmanager
    def database_away(self) -> Iterator[None]:
        """Meanwhile, and until the metastore's pool has noticed, Hive says of what is there that it does not exist."""
        span = [time.monotonic(), float("inf")]
        self.without_database.append(span)
        try:
            yield
        finally:
            span[1] = time.monotonic() + POOL_TRUSTS_S

    def was_without_database(self, began_s: float, ended_s: float) -> bool:
        """At any moment between these two?"""
        return any(away <= ended_s and began_s <= back for away, back in self.without_database)

    def sql(self, statement: str, *parameters: object) -> list[tuple[object, ...]]:
        """Rows of a statement in the metastore's database, if it gives any."""
        assert self.metastore.database is not None
        direct = self.metastore.database.behind(self.server.host, self.server.port)
        with direct.connect() as connection, connection.cursor() as cursor:
            cursor.execute(statement, parameters or None)
            return list(cursor.fetchall()) if cursor.description else []


@contextmanager
def world(directory: Path, bed: Bed, *, planted: str | None = None) -> Iterator[World]:
    """All of it, started; ended with the context."""
    with ExitStack() as stack:
        server = bed.private_postgres()
        stack.callback(bed.release, server)
        # Beside a table of a million partitions, a general plan of a statement of the metastore reads all descriptors.
        server.execute("ALTER SYSTEM SET plan_cache_mode = force_custom_plan")
        server.execute("SELECT pg_reload_conf()")
        behind = stack.enter_context(FaultProxy(server.host, server.port))
        metastore = bed.private_metastore(
            "hive42", postgres=server, via=behind.address, settings={"hikaricp.connectionTimeout": "5000"}
        )
        stack.callback(bed.release, metastore)
        sides = [
            stack.enter_context(_side(directory / f"proxy{n}", metastore, server, planted=planted, spare=n == 1))
            for n in range(2)
        ]
        yield World(server, metastore, behind, sides)


@contextmanager
def _side(
    directory: Path, metastore: Metastore, server: LocalPostgres, *, planted: str | None, spare: bool
) -> Iterator[Side]:
    with ExitStack() as stack:
        upstream = stack.enter_context(FaultProxy(*metastore.address))
        other = stack.enter_context(FaultProxy(*metastore.address)) if spare else None
        ways = [upstream] if other is None else [upstream, other]
        database = stack.enter_context(FaultProxy(server.host, server.port))
        assert metastore.database is not None
        disk = None
        if can_mount():
            disk = stack.enter_context(SmallDisk(directory / "data", DISK_BYTES))
        proxy = Proxy(
            directory,
            ",".join(f"thrift://{way.host}:{way.port}" for way in ways),
            metastore.database.behind(*database.address).reader_url,
            SETTINGS,
            planted=planted,
        )
        if disk is not None:
            proxy.command = [*disk.inside, *proxy.command]
        stack.callback(_end, proxy)
        proxy.start(prewarmed=True)
        front = stack.enter_context(FaultProxy(*proxy.address))
        yield Side(proxy, front, upstream, database, disk, other)


def _end(proxy: Proxy) -> None:
    """Whatever state it was left in."""
    signalled(chain.from_iterable(proxy.children().values()), signal.SIGCONT)
    proxy.kill()
