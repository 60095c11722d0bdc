"""What one run measures, in its order, and the figures it gives.

Must not know: goals, tables, plots.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace

from benchmarks import contents, filters, million, single
from benchmarks.contents import CASES, Case
from benchmarks.freshness import Burst, Freshness, burst, freshness
from benchmarks.measure import Load, NoFigure, Result, Server, build_load_generator, counting, measure, middle
from benchmarks.servers import CACHED_STORE, HIT, MISS, Stage, called, server_of
from tests.proxy import Proxy
from tests.testbed.client import MetastoreClient
from tests.testbed.postgres import MetastoreDatabase
from tests.testbed.raw import RawConnection

HOT_ROUNDS = 3
FEWEST_REPLIES = 16  # of a large case: a metastore may give one a second
HUGE, VAST = 100_000, 900_000
VARIED = 200  # questions of which each is another one, to every server
AGAIN_WARM = 100  # before the later rounds: the server was warm, and others were measured meanwhile
IDLE_PAUSE_S = (2.0, 3.5)  # longer than the follower's longest pause between two looks
BUSY_PAUSE_S = (0.02, 0.12)
LOAD_PER_S = 100.0
PREWARM_TIMEOUT_S = 240.0
RELAY_CASES = ("get_database", "get_table")


@dataclass
class Run:
    """`results[case][server]`; `first[case][server]`: each request for the first time; `half[case]`: the proxy
    at half of its most; `varied[case][server]`: every question another one; `relay[case]`; `beside`: a small call
    beside large replies; `shape`: what `cache_size` prints; `missing`: why a figure is not there.
    """

    results: dict[str, dict[str, Result]] = field(default_factory=dict)
    first: dict[str, dict[str, Result]] = field(default_factory=dict)
    half: dict[str, Result] = field(default_factory=dict)
    varied: dict[str, dict[str, Result]] = field(default_factory=dict)
    relay: dict[str, single.Relay] = field(default_factory=dict)
    beside: Result | None = None
    slow: single.Slow | None = None
    freshness: dict[str, Freshness] = field(default_factory=dict)
    burst: Burst | None = None
    prewarm: million.Prewarm | None = None
    restart: million.Restart | None = None
    filters: dict[str, dict[str, Result]] = field(default_factory=dict)
    shape: dict[str, float] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)


class Runner:
    """One run on a stage; `seconds`: for each figure; `vast`: partitions of the last part, 0 leaves it out."""

    def __init__(self, stage: Stage, *, seconds: float, vast: int) -> None:
        self.run = Run()
        self._stage = stage
        self._seconds = seconds
        self._vast = vast
        self._generator = build_load_generator()
        database = stage.metastore.database
        assert database is not None
        self._database: MetastoreDatabase = database

    def all(self) -> Run:
        with MetastoreClient(*self._stage.metastore.address) as client:
            with self._part("fill 20 tables and 10,000 partitions over Thrift"):
                contents.fill(client)
            with self._part(f"fill {contents.MANY:,} tables by SQL"):
                contents.fill_tables(client, self._database, contents.MANY_DATABASE, contents.MANY)
            with self._part("start CachedStore"):
                cached = self._stage.cached_store()  # before the huge table: it answers when all is in its cache
            with self._part(f"fill {HUGE:,} partitions by SQL"):
                contents.fill_by_sql(client, self._database, "huge", HUGE)
        proxy, relaying = self._stage.proxy("hit"), self._stage.proxy("miss", store=False)
        with self._part("start proxies"):
            proxy.start(prewarmed=True)
            relaying.start()
        servers = [self._stage.hive(), cached, server_of(MISS, relaying), server_of(HIT, proxy)]
        for case in CASES:
            with self._part(case.key):
                self._case(case, servers)
        with self._part("single questions"):
            self._single(servers[0], servers[2], servers[3])
        with self._part("freshness"):
            self._freshness(proxy)
        proxy.stop()
        relaying.stop()
        if self._vast:
            self._million()
        with self._part("size"):
            command = [sys.executable, "-m", "benchmarks.cache_size", "--json"]
            self.run.shape = json.loads(subprocess.run(command, check=True, capture_output=True, timeout=120).stdout)
        return self.run

    # --- calls

    def _case(self, case: Case, servers: list[Server]) -> None:
        hit = servers[-1]
        with RawConnection("127.0.0.1", hit.port) as client:
            reply = client.call(case.messages[-1])
        with self._stage.bare(reply) as bare:
            ready = [server for server in [*servers, bare] if self._warmed(case, server)]
            found: dict[str, list[Result]] = {server.label: [] for server in ready}
            with ExitStack() as stack:
                counts = {server.label: stack.enter_context(counting(server)) for server in ready}
                for _ in range(HOT_ROUNDS if case.hot else 1):
                    for server in ready:
                        if result := self._one(case, server, self._load(case)):
                            found[server.label].append(result)
        row = self.run.results[case.key] = {}
        for label, results in found.items():
            if not results:
                continue
            row[label] = replace(middle(results), counted=counts[label])
            _tell(case.key, label, row[label])
            _check_size(case, label, row[label], len(reply))
        if case.hot and HIT in row:
            half = self._one(case, hit, Load(case.connections, self._seconds, rate=row[HIT].rps / 2))
            assert half is not None, "it has answered at twice the rate"
            self.run.half[case.key] = half
            _tell(case.key, "half load", half)

    def _warmed(self, case: Case, server: Server) -> bool:
        """The server has answered as many of the very calls that are measured as every other server."""
        if case.key in ("filter_huge", "expression_huge") and server.label == CACHED_STORE:
            why = "it answers nobody before the huge table is in its cache, which takes minutes"
            self.run.missing[f"{case.label}, {server.label}"] = why
            return False
        with counting(server) as counted:
            result = self._one(case, server, Load(case.connections, 0, 0, case.warm))
        if result is not None and case.first:
            row = self.run.first.setdefault(case.key, {})
            row[server.label] = replace(result, counted=counted)
            _tell(f"{case.key}, first", server.label, row[server.label])
        return result is not None

    def _load(self, case: Case) -> Load:
        if case.hot:
            return Load(case.connections, self._seconds / 2, warm=AGAIN_WARM)
        return Load(case.connections, self._seconds, warm=0, least=FEWEST_REPLIES)

    def _one(self, case: Case, server: Server, load: Load) -> Result | None:
        try:
            return measure(self._generator, server, case.messages, load)
        except NoFigure as error:
            self.run.missing[f"{case.label}, {server.label}"] = str(error)
            print(f"{case.key:24} {server.label:12} no figure: {error}", flush=True)
            return None

    def _single(self, hive: Server, miss: Server, hit: Server) -> None:
        run, generator = self.run, self._generator
        questions: dict[str, Callable[[int], bytes]] = {
            "by_names_1000": contents.by_names,
            "filter_huge": lambda at: contents.filter_huge(97 * at),
            "expression_huge": lambda at: contents.expression_huge(97 * at),
        }
        for key, question in questions.items():
            run.varied[key] = {
                server.label: single.varied(generator, server, map(question, range(1, VARIED + 1)))
                for server in (hive, hit)
            }
        for key, row in run.varied.items():
            for label, result in row.items():
                _tell(f"{key}, varied", label, result)
        for case in CASES:
            if case.key in RELAY_CASES:
                relay = single.relay(generator, hive, miss, case.messages[0], seconds=self._seconds / 4)
                run.relay[case.key] = relay
                print(f"{case.key:24} {relay}", flush=True)
        large = contents.get_partitions("wide")
        run.beside = single.beside_large(generator, hit, large, CASES[0].messages[0], seconds=self._seconds)
        _tell("beside get_partitions", hit.label, run.beside)
        run.slow = single.slow_client(hit, contents.get_partitions("huge"))
        print(run.slow, flush=True)

    # --- the follower

    def _freshness(self, proxy: Proxy) -> None:
        address = self._stage.metastore.address
        found = self.run.freshness
        found["nothing else changes"] = freshness(address, proxy, samples=12, pause_s=IDLE_PAUSE_S)
        found["under a steady load"] = freshness(
            address, proxy, samples=120, load_per_s=LOAD_PER_S, pause_s=BUSY_PAUSE_S
        )
        self.run.burst = burst(address, proxy, seconds=5)
        for load, one in found.items():
            print(
                f"{load}: median {one.median_ms:.0f}, 95 % {one.p95_ms:.0f}, worst {one.worst_ms:.0f} ms;"
                f" {one.changes_per_s:.0f}/s, hits {one.hit_share:.3f}, polls {one.poll_hit_share:.3f}",
                flush=True,
            )
        print(self.run.burst, flush=True)

    def _million(self) -> None:
        with (
            self._part(f"fill {self._vast:,} partitions by SQL"),
            MetastoreClient(*self._stage.metastore.address) as client,
        ):
            contents.fill_by_sql(client, self._database, "vast", self._vast)
            filters.add_rare(client)
        proxy = self._stage.proxy("million")
        with self._part("prewarm"):
            self.run.prewarm = found = million.prewarm(proxy, self._stage.postgres, timeout_s=PREWARM_TIMEOUT_S)
            print(
                f"{found.partitions / found.seconds:,.0f}/s by the clock,"
                f" {found.partitions / found.follower_cpu_s:,.0f}/s of the follower's CPU,"
                f" {found.partitions / found.database_cpu_s:,.0f}/s of the database's; grew by"
                f" {found.growth_bytes / 1e6:.0f} MB; {found.calls} calls, {found.hits} hits,"
                f" p99 {found.call_p99_ms:.1f} ms",
                flush=True,
            )
        with self._part("restart"):
            self.run.restart = million.restart(proxy)
            print(self.run.restart, flush=True)
        with self._part("filters on these"):
            self.run.filters = filters.measured(self._generator, self._stage.hive(), server_of(HIT, proxy))
        proxy.stop()

    @contextmanager
    def _part(self, what: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        self.run.seconds[what] = time.monotonic() - began
        print(f"--- {what}: {self.run.seconds[what]:.1f} s", flush=True)


def _check_size(case: Case, label: str, result: Result, expected: int) -> None:
    """A declared exception is a short reply."""
    if abs(result.reply_bytes - expected) > expected / 10:
        raise AssertionError(f"{label} answers {case.key} with {result.reply_bytes} bytes, not {expected}")


def _tell(what: str, label: str, result: Result) -> None:
    name = called(label, result.counted)
    print(
        f"{what:24} {name:12} {result.rps:10.1f}/s  p50 {result.p50_ms:8.3f}  p99 {result.p99_ms:8.3f} ms"
        f" {result.cpu_us:10.1f} us CPU ({result.generator_us:.1f})",
        flush=True,
    )
