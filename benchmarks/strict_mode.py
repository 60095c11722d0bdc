"""`python -m benchmarks.strict_mode`: reads a second that are answered after a look at the database, against `session`.

Three proxies of one worker in front of one embedded metastore: `session`, `strict`, and one with `peers` whose list
names an address where nobody answers, so that each of its reads needs a look for want of a lease. The same `get_table`
over some connections, the three in turn, several times. A ratio is the median of the ratios of rounds. Must not know:
how looks are shared.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

from benchmarks import kept
from benchmarks.measure import Load, build_load_generator, measure
from benchmarks.measure import Server as Measured
from tests.proxy import Proxy
from tests.testbed import objects
from tests.testbed.bed import Bed
from tests.testbed.client import MetastoreClient
from tests.testbed.processes import free_port
from tests.testbed.raw import encode_call

DATABASE: Final = "looks"
SESSION: Final = "session"
CONNECTIONS: Final = (1, 16, 64)
HEAD: Final = [
    *("connections", "a read waits for a look", "reads a second / `session`", "CPU of a read / `session`"),
    *("looks a second", "hits", "reads a second, `session`"),
]


@dataclass(frozen=True, slots=True)
class Round:
    """One proxy under load; `looks`: a second; `cpu_us`: of its worker and its follower, for one read."""

    rps: float
    cpu_us: float
    looks: float
    hits: float


def load(generator: Path, proxy: Proxy, connections: int, seconds: float) -> Round:
    before, looks, began_s = proxy.requests(), _looks(proxy), time.monotonic()
    message = encode_call("get_table", DATABASE, "t")
    children = proxy.children()
    under = Measured("", proxy.port, (*children["worker"], *children["follower"]))
    result = measure(generator, under, [message], Load(connections, seconds, warm=connections))
    looked, took_s = _looks(proxy) - looks, time.monotonic() - began_s
    found = {key: count - before.get(key, 0) for key, count in proxy.requests().items() if key[0] == "get_table"}
    hits = sum(count for (_, how, _), count in found.items() if how == "hit")
    return Round(result.rps, result.cpu_us, looked / took_s, hits / sum(found.values()))


def _looks(proxy: Proxy) -> float:
    return proxy.metric("hms_proxy_follower_steps_total")


def proxies(bed: Bed, directory: Path, stack: ExitStack) -> dict[str, Proxy]:
    """By the reason of their looks."""
    metastore = bed.private_metastore("embedded")
    stack.callback(bed.release, metastore)
    assert metastore.database is not None
    with MetastoreClient(*metastore.address) as client:
        objects.create_database(client, DATABASE)
        objects.create_table(client, objects.table(DATABASE, "t"))
    own, nobody = free_port(), free_port()
    peers = {"PEERS": f"127.0.0.1:{own},127.0.0.1:{nobody}", "PEER_LISTEN": f"127.0.0.1:{own}", "PEER_SECRET": "s"}
    found: dict[str, Proxy] = {}
    for name, settings in {SESSION: {}, "`strict`": {"CONSISTENCY": "strict"}, "a peer is missing": peers}.items():
        place = directory / f"proxy{len(found)}"
        found[name] = Proxy(place, metastore.uri, metastore.database.reader_url, settings)
        stack.callback(found[name].close)
        found[name].start(prewarmed=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.strict_mode", description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=5)
    kept.option(parser)
    options = parser.parse_args()
    of, bed, found = kept.origin(), Bed(), list[list[Any]]()
    try:
        with tempfile.TemporaryDirectory(prefix="hms-bench-") as directory, ExitStack() as stack:
            under, generator = proxies(bed, Path(directory), stack), build_load_generator()
            for connections in CONNECTIONS:
                rounds = [
                    {name: load(generator, proxy, connections, options.seconds) for name, proxy in under.items()}
                    for _ in range(options.rounds)
                ]
                for name in list(under)[1:]:
                    found.append([connections, name, *_figures(rounds, name)])
                    print(*found[-1], sep=" | ", flush=True)
    finally:
        bed.close()
    if options.keep:
        title = f"Reads of one table, {options.rounds} rounds of {options.seconds:g} s."
        table = kept.table(title, HEAD, found, text=0)
        kept.keep("single/strict_mode", table, command="python -m benchmarks.strict_mode --keep", of=of)


def _figures(rounds: list[dict[str, Round]], name: str) -> list[Any]:
    return [
        median(one[name].rps / one[SESSION].rps for one in rounds),
        median(one[name].cpu_us / one[SESSION].cpu_us for one in rounds),
        median(one[name].looks for one in rounds),
        f"{median(one[name].hits for one in rounds):.1%}",
        median(one[SESSION].rps for one in rounds),
    ]


if __name__ == "__main__":
    main()
