"""`python -m benchmarks.fleet`: what peers add to the time of a write, and to that of a read that is a hit.

For each number of members: proxies that are peers, and a proxy without peers, all of one worker, in front of one
embedded metastore. Writes (`alter_table`) and reads (`get_table`) go through the first member and through the proxy
without peers in turn, in rounds of a few calls, so that both have the same neighbours. Median and 99th percentile are
those of all writes; the ratio of the reads is the median of the ratios of rounds. The CPU time of reads does not depend
on what else the machine does. Then one member is killed, and others write. Must not know: how peers agree.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

from hive_metastore.ttypes import Table

from benchmarks import kept
from benchmarks.measure import Load, Result, Server, build_load_generator, measure
from tests.proxy import Proxy
from tests.testbed import objects
from tests.testbed.bed import Bed
from tests.testbed.client import MetastoreClient
from tests.testbed.processes import free_port
from tests.testbed.raw import encode_call

DATABASE: Final = "fleet"
MEMBERS: Final = (2, 4, 8)
LEASED_S: Final = 600.0
WRITES: Final = 20
"""In a round, through each of the two."""
HEAD: Final = [
    *("members", "a write without peers, median, ms", "with peers / without", "99 %, ms", "with peers / without"),
    *("answered by the peers' process", "a read, p50 / without peers", "CPU of its worker / without peers", "hits"),
]
KILLED: Final = ["members", "the first write waits for the others, ms", "each later one, mean, ms"]


@dataclass(slots=True)
class Fleet:
    """`member`: one with peers; `alone`: one without."""

    member: Proxy
    alone: Proxy
    generator: Path
    number: int = 0

    def writes(self, proxy: Proxy, table: Table, number: int = WRITES) -> list[float]:
        """How long each of some writes takes, in ms."""
        took = []
        with MetastoreClient(*proxy.address) as client:
            for _ in range(number):
                self.number += 1
                table.parameters["number"] = str(self.number)
                began = time.perf_counter()
                client.alter_table(DATABASE, table.tableName, table)
                took.append((time.perf_counter() - began) * 1e3)
        return took

    def reads(self, proxy: Proxy, seconds: float) -> Result:
        """... of the same table, one after the other."""
        message = encode_call("get_table", DATABASE, "t")
        server = Server("", proxy.port, tuple(proxy.children()["worker"]))
        return measure(self.generator, server, [message], Load(1, seconds, warm=100))


def leased(proxies: Sequence[Proxy]) -> None:
    """Every member has a lease of every other one."""
    for proxy in proxies:
        proxy.wait(lambda proxy=proxy: all(one["lease_ms"] for one in proxy.status()["peers"]), "leased", LEASED_S)


def rows(bed: Bed, directory: Path, members: int, rounds: int, seconds: float) -> tuple[list[Any], list[Any]]:
    """One number of members: as they are, and when one of them has been killed."""
    ports = [free_port() for _ in range(members)]
    common = {"PEERS": ",".join(f"127.0.0.1:{port}" for port in ports), "PEER_SECRET": "s"}
    with ExitStack() as stack:
        metastore = bed.private_metastore("embedded")
        stack.callback(bed.release, metastore)
        with MetastoreClient(metastore.host, metastore.port) as client:
            objects.create_database(client, DATABASE)
            table = objects.create_table(client, objects.table(DATABASE, "t"))
        assert metastore.database is not None
        url = metastore.database.reader_url
        settings = [{}, *({**common, "PEER_LISTEN": f"127.0.0.1:{port}"} for port in ports)]
        proxies = []
        for number, each in enumerate(settings):
            proxy = Proxy(directory / f"{members}-{number}", metastore.uri, url, each)
            stack.callback(proxy.close)
            proxies.append(proxy.start(prewarmed=True))
        leased(proxies[1:])
        fleet = Fleet(proxies[1], proxies[0], build_load_generator())
        figures = [members, *_figures(fleet, table, proxies[1:], rounds, seconds)]
        return figures, [members, *_without_one(fleet, table, proxies[1:])]


def _figures(fleet: Fleet, table: Table, members: Sequence[Proxy], rounds: int, seconds: float) -> Iterator[Any]:
    member, alone = fleet.member, fleet.alone
    with_peers: list[float] = []
    without: list[float] = []
    reads: list[tuple[Result, Result]] = []
    for proxy in (member, alone):
        fleet.writes(proxy, table)
    before = _waits(member)
    for _ in range(rounds):
        leased(members)
        with_peers += fleet.writes(member, table)
        without += fleet.writes(alone, table)
    answered = _waits(member)
    for _ in range(rounds):
        leased(members)
        reads.append((fleet.reads(member, seconds), fleet.reads(alone, seconds)))
    yield median(without)
    yield median(with_peers) / median(without)
    yield _late(without)
    yield _late(with_peers) / _late(without)
    counted = {by: answered[by] - before[by] for by in answered}
    yield f"{counted['process'] / sum(counted.values()):.0%}"
    yield median(one.p50_ms / other.p50_ms for one, other in reads)
    yield _cpu_us([one for one, _ in reads]) / _cpu_us([other for _, other in reads])
    found = member.requests()
    hits = sum(count for (method, outcome, _), count in found.items() if (method, outcome) == ("get_table", "hit"))
    yield f"{hits / sum(count for (method, _, _), count in found.items() if method == 'get_table'):.1%}"


def _without_one(fleet: Fleet, table: Table, members: Sequence[Proxy]) -> Iterator[Any]:
    """One is killed: how long writes wait until they may leave."""
    leased(members)
    before_s = _waited_s(fleet.member)
    members[-1].kill()
    for writes in (1, WRITES):
        fleet.writes(fleet.member, table, writes)
        waited_s = _waited_s(fleet.member) - before_s
        before_s += waited_s
        yield 1e3 * waited_s / writes


def _waited_s(proxy: Proxy) -> float:
    proxy.requests()  # everything is added up
    return proxy.metric("hms_proxy_peer_wait_seconds_sum")


def _late(times: list[float]) -> float:
    """The 99th percentile."""
    return sorted(times)[int(0.99 * (len(times) - 1))]


def _cpu_us(results: Sequence[Result]) -> float:
    """Of the worker, for one read. Its clock is coarse, so one round says little."""
    return sum(one.cpu_us * one.replies for one in results) / sum(one.replies for one in results)


def _waits(proxy: Proxy) -> dict[str, float]:
    proxy.requests()  # everything is added up
    return {by: proxy.metric("hms_proxy_peer_wait_seconds_count", by=by) for by in ("process", "page")}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fleet", description=__doc__)
    parser.add_argument("--members", default=",".join(map(str, MEMBERS)))
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=0.4, help="of reads, in each round and through each proxy")
    kept.option(parser)
    options = parser.parse_args()
    of = kept.origin()
    found: list[tuple[list[Any], list[Any]]] = []
    bed = Bed()
    try:
        with tempfile.TemporaryDirectory(prefix="hms-bench-") as directory:
            for members in map(int, options.members.split(",")):
                found.append(rows(bed, Path(directory), members, options.rounds, options.seconds))
                print(*found[-1], sep="\n", flush=True)
    finally:
        bed.close()
    title = (
        f"{options.rounds * WRITES} writes and {options.rounds} rounds of reads through a member and past the fleet."
    )
    if options.keep:
        tables = [
            kept.table(title, HEAD, [one for one, _ in found], text=0),
            kept.table("One member is killed.", KILLED, [other for _, other in found], text=0),
        ]
        kept.keep("single/fleet", *tables, command="python -m benchmarks.fleet --keep", of=of)


if __name__ == "__main__":
    main()
