"""A fleet on which one play is given: every step waits for what the last one has done, none for a time.

Proxy 0 writes, proxy 1 reads; between each two is a TCP proxy. Their processes come to points
(tests/history/planted/fleet_points.py), where the play can hold them, with or without a planted bug. The fleet's times
are so long that a lease runs out, or a slow machine is taken for a lost one, only where a play wants it.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from hive_metastore.ttypes import NoSuchObjectException
from thrift.transport.TTransport import TTransportException

from hms_cache_proxy.cache.state import Slot
from tests.history.fleet import fleet, leased
from tests.history.registers import TableParameter
from tests.history.test_history import told_hits
from tests.proxy import PLANTED, Proxy
from tests.testbed.client import MetastoreClient
from tests.testbed.fault_proxy import Direction, FaultProxy
from tests.testbed.metastore import Metastore

PROXIES = 3
SECOND = 1_000_000_000
PATIENT = {"WORKERS": "1", "MAX_UNCONFIRMED_MS": "600000"}
STEPS = 3
"""So many steps of a follower lift every fence that has a ticket."""

REQUEST_BYTES = 300
"""A write has more, what a proxy asks a metastore about itself less."""

UNTIL_S = 120.0
WRITER, READER, THIRD = 0, 1, 2
LONG_S = 180.0
"""A lease that outlasts a play."""


def times(lease_s: float = LONG_S, **others: float) -> dict[str, int]:
    """Of a fleet, in ns. Nobody is slow, or silent."""
    seconds = {"lease_ns": lease_s, "slow_ns": 600.0, "silence_ns": 600.0, "list_lag_ns": 0.0, **others}
    return {name: int(value * SECOND) for name, value in seconds.items()}


def alive(pid: int) -> bool:
    """Does this process run? One that has ended has no command line, if it is still there."""
    try:
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())
    except (FileNotFoundError, ProcessLookupError):
        return False


class Stage:
    """One play's. `planted`: the bug in all of its proxies."""

    def __init__(self, stack: ExitStack, metastore: Metastore, directory: Path, planted: str | None) -> None:
        self.metastore, self.planted = metastore, planted
        self._directory = directory
        self._stack = stack
        self._threads = stack.enter_context(ThreadPoolExecutor(4))
        self._starters = [stack.enter_context(ThreadPoolExecutor(1)) for _ in range(PROXIES)]
        """A process ends with the thread that has started it (tests/proxy.py)."""

        self._before = stack.enter_context(FaultProxy(*metastore.address))
        self._fleet = fleet(stack, PROXIES)
        self._proxies: dict[int, Proxy] = {}
        self._starting: dict[int, Future[Proxy]] = {}
        self.register = TableParameter("default", "shown")
        stack.callback(self._end)

    # proxies

    def pair(self, fleet_times: dict[str, int], *, holds: bool = False) -> tuple[Proxy, Proxy]:
        """A writer and a reader that answers from its cache. `holds`: the writer's calls can be held on their way."""
        a = self.enter(WRITER, fleet_times, holds=holds)
        b = self.enter(READER, fleet_times)
        self.ready(a, b)
        leased([a, b])
        self.create(a)
        self.answers(b)
        return a, b

    def enter(
        self,
        own: int,
        fleet_times: dict[str, int],
        listed: Sequence[int] = (WRITER, READER),
        *,
        older_s: float = 0.0,
        holds: bool = False,
        says: str = "",
    ) -> Proxy:
        """Begin to start one proxy. `listed`: its list; `older_s`: by how much it is older than it is; `says`: the
        address in its hello."""
        play = {"directory": str(self._directory), "times": fleet_times, "older_s": older_s, "says": says}
        database = self.metastore.database
        assert database is not None
        proxy = self._proxies[own] = Proxy(
            self._directory / f"proxy{own}",
            upstream=f"thrift://127.0.0.1:{self._before.port}" if holds else self.metastore.uri,
            store_url=database.reader_url,
            settings={**PATIENT, **self._fleet.settings[own], "PEERS": self.list_of(own, listed)},
            command=("env", f"FLEET_PLAY={json.dumps(play)}", f"PYTHONPATH={PLANTED}", *Proxy.command),
            planted=self.planted,
        )
        self.again(own)
        return proxy

    def again(self, own: int) -> None:
        """Begin to start it."""
        proxy = self._proxies[own]
        self._starting[proxy.port] = self._starters[own].submit(lambda: proxy.start(prewarmed=True))

    def kill(self, proxy: Proxy) -> None:
        """With SIGKILL, until all of its processes have ended: the workers have its port, too."""
        children = [pid for pids in proxy.children().values() for pid in pids]
        proxy.kill()
        self.until(lambda: not any(alive(pid) for pid in children), "ended")

    def ready(self, *proxies: Proxy) -> None:
        """Until they are ready, which they are when those in their lists have answered."""
        for proxy in proxies:
            self._starting[proxy.port].result()

    def answers(self, proxy: Proxy) -> None:
        """Until it answers from its cache."""
        self.until(lambda: self.read(proxy) == 0 and told_hits([proxy]) > 0, "answering from its cache")

    def listens(self, proxy: Proxy) -> None:
        """Until it accepts clients."""

        def accepts() -> bool:
            with suppress(TTransportException), MetastoreClient(*proxy.address):
                return True
            return False

        self.until(accepts, "accepting clients")

    def list_of(self, own: int, listed: Sequence[int]) -> str:
        ports = [self._fleet.ports[one] if one == own else self._fleet.ways[own, one].port for one in listed]
        return ",".join(f"127.0.0.1:{port}" for port in ports)

    def way(self, dials: int, dialled: int) -> FaultProxy:
        """Messages of who is dialled go DOWN; acknowledgements, and questions for leases, UP."""
        return self._fleet.ways[dials, dialled]

    def part(self) -> list[FaultProxy]:
        """Nothing passes between the writer and the reader, who notice it. Returns the ways."""
        ways = [self.way(WRITER, READER), self.way(READER, WRITER)]
        for way in ways:
            way.refuse()
        return ways

    # what happens

    def create(self, proxy: Proxy) -> None:
        """Version 0."""
        with MetastoreClient(*proxy.address) as client:
            self.register.create(client)

    def create_another(self, proxy: Proxy) -> None:
        """Something that a step of each follower reads."""
        with MetastoreClient(*proxy.address) as client:
            TableParameter("default", "another").create(client)

    def write(self, proxy: Proxy, version: int = 1) -> Future[None]:
        """Begin to write. It is over when this is done."""
        return self._threads.submit(self._write, proxy, version)

    def write_up_to(self, proxy: Proxy, point: str) -> Future[None]:
        """Begin to write; it is held at this point."""
        before = self.hold(proxy, point)
        written = self.write(proxy)
        self.visited(proxy, point, before)
        return written

    def reading(self, proxy: Proxy) -> Future[int]:
        """Begin to read."""
        return self._threads.submit(self.read, proxy)

    def _write(self, proxy: Proxy, version: int) -> None:
        with MetastoreClient(*proxy.address) as client:
            self.register.write(client, version)

    def goes_or_waits(self, proxy: Proxy) -> Future[None]:
        """Begin to write, until that is over or has to wait for the others."""
        waited = self.visits(proxy, "waits")
        written = self.write(proxy)
        self.until(lambda: written.done() or self.visits(proxy, "waits") > waited, "written or waiting")
        return written

    def written_or_reunited(self, proxy: Proxy, ways: Sequence[FaultProxy]) -> None:
        """Write through one that starts. If that has to wait for the others, they can be reached again."""
        self.listens(proxy)
        if self.planted is not None:
            self.until(lambda: proxy.word(Slot.PEERS_SETTLED) == 1, "letting its writes leave")
        written = self.goes_or_waits(proxy)
        if not written.done():
            for way in ways:
                way.restore()
        written.result()

    def leave_for_nowhere(self, proxy: Proxy) -> None:
        """Write. The request has left the proxy, and has not arrived at the metastore."""
        client = self._stack.enter_context(MetastoreClient(*proxy.address))
        self.register.by_capabilities(client)  # it is connected
        leaves = self.hold(proxy, "leaves")
        self._threads.submit(self.register.write, client, 1)
        self.visited(proxy, "leaves", leaves)
        self._before.stall(Direction.UP)
        taken = self._before.bytes_taken[Direction.UP]
        self.let_on(proxy, "leaves")
        self.until(lambda: self._before.bytes_taken[Direction.UP] - taken > REQUEST_BYTES, "under way")

    def write_past_all(self) -> None:
        """At the metastore itself."""
        with MetastoreClient(*self.metastore.address) as client:
            self.register.write(client, 1)

    @staticmethod
    def hand_out_events(proxy: Proxy) -> None:
        """Its client learns the last event's id."""
        with MetastoreClient(*proxy.address) as client:
            client.get_current_notificationEventId()

    @contextmanager
    def no_room(self, proxy: Proxy) -> Iterator[None]:
        """Its worker can write no file meanwhile."""
        (worker,) = proxy.children()["worker"]
        _, most = resource.prlimit(worker, resource.RLIMIT_FSIZE)
        resource.prlimit(worker, resource.RLIMIT_FSIZE, (0, most))
        yield
        resource.prlimit(worker, resource.RLIMIT_FSIZE, (most, most))

    def carried_out(self) -> None:
        """It arrives, and the metastore carries it out."""
        self._before.restore()
        self.until(lambda: self.at_metastore() == 1, "carried out")

    def read(self, proxy: Proxy) -> int:
        """What a new connection is shown, by a request that the cache can answer; -1: no table."""
        with MetastoreClient(*proxy.address) as client:
            try:
                return self.register.by_get_table_req(client)
            except NoSuchObjectException:
                return -1

    def relayed(self, proxy: Proxy) -> int:
        """... by a request that the metastore answers."""
        with MetastoreClient(*proxy.address) as client:
            return self.register.by_capabilities(client)

    def at_metastore(self) -> int:
        with MetastoreClient(*self.metastore.address) as client:
            return self.register.by_get_table_req(client)

    @staticmethod
    def stop(proxy: Proxy, role: str = "follower") -> None:
        """Without its follower, its cache keeps what it has now."""
        for pid in proxy.children()[role]:
            os.kill(pid, signal.SIGSTOP)

    # points

    def visits(self, proxy: Proxy, point: str) -> int:
        file = self._file(proxy, point, "visits")
        return file.stat().st_size if file.exists() else 0

    def visited(self, proxy: Proxy, point: str, since: int, times: int = 1) -> None:
        """Until the point was visited so many times more."""
        self.until(lambda: self.visits(proxy, point) >= since + times, f"at {point}")

    def hold(self, proxy: Proxy, point: str) -> int:
        """From now on, whoever comes there is held. Returns the visits until then."""
        self._file(proxy, point, "closed").touch()
        return self.visits(proxy, point)

    def let_on(self, proxy: Proxy, point: str) -> None:
        self._file(proxy, point, "closed").unlink()

    def _file(self, proxy: Proxy, point: str, kind: str) -> Path:
        return self._directory / f"{proxy.port}.{point}.{kind}"

    def steps(self, proxy: Proxy) -> None:
        """Until its follower has made some."""
        self.visited(proxy, "step_begins", self.visits(proxy, "step_begins"), STEPS + 1)

    # the words of the page

    @staticmethod
    def leases(proxy: Proxy) -> int:
        """How many others it has a lease of."""
        return sum(one["lease_ms"] > 0 for one in proxy.status()["peers"])

    def leases_are_out(self, proxy: Proxy) -> bool:
        """Have all leases run out that it has given?"""
        return proxy.word(Slot.GIVEN_UNTIL_NS) < time.clock_gettime_ns(time.CLOCK_BOOTTIME)

    def _end(self) -> None:
        """Whatever has happened in the play."""
        starting = True
        while starting:
            starting = not all(one.done() for one in self._starting.values())
            for proxy in self._proxies.values():
                if proxy.process is not None:
                    proxy.kill()
            time.sleep(0.01)

    @staticmethod
    def until(condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + UNTIL_S
        while not condition():
            assert time.monotonic() < deadline, f"not {what} after {UNTIL_S} s"
            time.sleep(0.01)
