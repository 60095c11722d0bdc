"""`python -m tests.differential`: compare a proxy with its metastore. Exit code 1 on any difference.

Starts both itself (--upstream), or takes two that are running (--direct, --proxy).
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.differential import at_once
from tests.differential.all_reads import ONE_TRY, AllReads, AllReads23, AllReads31, AllReads40
from tests.differential.changes import AllChanges
from tests.differential.compare import Report, compare
from tests.differential.contents import KINDS, KINDS_23, add_large, fill
from tests.differential.mutations import Mutations
from tests.differential.reads import Request
from tests.proxy import Proxy
from tests.testbed.bed import Bed
from tests.testbed.client import MetastoreClient
from tests.testbed.flavours import FLAVOURS
from tests.testbed.mariadb import MariaDatabase
from tests.testbed.raw import RawConnection

Address = tuple[str, int]


@dataclass(frozen=True)
class Upstream:
    """What is made of reads and contents for a flavour of the test bed; `trailing_s`: its log is read again so long.

    `latin1`: names and values are, as Hive's own script on MySQL has it. `logs`: what it changes; 4.0
    does not, as its listener is not published: for TTL mode only.
    """

    reads: Callable[..., Iterator[Request]]
    kinds: tuple[str, ...] = tuple(KINDS)
    statistics_are_logged: bool = True
    trailing_s: float = 0
    latin1: bool = False
    logs: bool = True


READS_PER_CHANGE = 20
"""Compared right after a change that went through the proxy."""
SHOWN = 30
"""Differences of a round."""

STORES: dict[str, dict[str, str]] = {
    "sql": {},
    "thrift": {"STORE": "thrift"},
    "ttl": {"STORE": "none", "TTL_ENABLED": "true", "TTL_TTL": "1h", "TTL_CACHE_MISSING": "true"},
}
"""How the cache is filled. `ttl`: by what clients ask; all changes then go through the proxy."""

UPSTREAMS = {
    "hive42": Upstream(AllReads),
    "hive42-mariadb": Upstream(AllReads, latin1=True),
    "embedded": Upstream(AllReads),
    "embedded-postgresql": Upstream(AllReads),
    "hive31": Upstream(AllReads31, statistics_are_logged=False),
    "hive40": Upstream(AllReads40, logs=False),
    "hive23": Upstream(AllReads23, tuple(KINDS_23), statistics_are_logged=False, trailing_s=3),
    "hive23-postgresql": Upstream(AllReads23, tuple(KINDS_23), statistics_are_logged=False),
}


def address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    return host, int(port)


def start(stack: ExitStack, flavour: str, store: str, settings: Mapping[str, str]) -> tuple[Address, Proxy]:
    """A metastore of this flavour and a proxy before it, both ended with the stack: its address, the proxy."""
    bed = Bed()
    stack.callback(bed.close)
    metastore = bed.private_metastore(flavour, settings=ONE_TRY)
    if isinstance(metastore.database, MariaDatabase):
        metastore.database.widen()
    url = metastore.database.reader_url if store == "sql" and metastore.database is not None else None
    directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hms-differential-")))
    proxy = Proxy(directory=directory, upstream=metastore.uri, store_url=url, settings={**STORES[store], **settings})
    stack.callback(proxy.close)
    proxy.start()
    print(f"{flavour} at {metastore.uri}, proxy at {proxy.uri}, cache filled over {store}", flush=True)
    return metastore.address, proxy


def summaries(reports: list[Report]) -> Iterator[str]:
    """What was compared in all, and each difference, those of reads right after a change marked."""
    methods = set[str]().union(*(report.methods for report in reports))
    differences = [
        (("", "an odd request: ", "right after a change: ")[min(at, 2)], each)
        for at, report in enumerate(reports)
        for each in report.differences
    ]
    count = sum(report.requests for report in reports)
    yield f"{count} reads of {len(methods)} methods, {len(differences)} differences"
    for when, difference in differences[:SHOWN]:
        yield when + difference


def run(options: argparse.Namespace, direct_at: Address, proxy: Proxy | None) -> bool:
    """All rounds; True if nothing differed."""
    upstream, version = UPSTREAMS[options.upstream], FLAVOURS[options.upstream].version
    equal = True
    with ExitStack() as stack:
        client = stack.enter_context(MetastoreClient(*direct_at))
        direct = stack.enter_context(RawConnection(*direct_at))
        world = fill(client, options.prefix, options.seed, kinds=upstream.kinds, latin1=upstream.latin1, wide=True)
        if options.large:
            add_large(world, client, options.large)
        print(f"filled {len(world.databases)} databases, {len(world.tables)} tables", flush=True)
        proxy_at = options.proxy if proxy is None else proxy.address
        through = stack.enter_context(MetastoreClient(*proxy_at))
        writer = through if options.store == "ttl" else client
        logged = upstream.statistics_are_logged
        changes = AllChanges(world, writer, through, statistics_are_logged=logged, version=version)
        for number in range(options.rounds):
            began = time.monotonic()
            if number:
                for _ in range(options.changes):
                    changes.one()
            time.sleep(options.settle + upstream.trailing_s)
            reads = upstream.reads(world, options.seed * 1000 + number)
            in_all = options.reads // options.rounds
            with RawConnection(*proxy_at) as proxied:
                at_once = in_all // 4 if number else 0
                some = itertools.islice(reads, in_all - at_once)
                reports = [compare(direct, proxied, some, version=version)]
                odd = itertools.islice(reads, options.mutated // options.rounds)
                changed = Mutations(world, options.seed * 1000 + number).encode
                reports.append(compare(direct, proxied, odd, encoded=changed, version=version, well_formed=False))
                for begin in range(0, at_once, READS_PER_CHANGE):
                    changes.one(through=True)
                    some = itertools.islice(reads, min(READS_PER_CHANGE, at_once - begin))
                    reports.append(compare(direct, proxied, some, version=version))
            for text in summaries(reports):
                print(f"round {number}: {text}, {time.monotonic() - began:.1f} s", flush=True)
            equal = equal and not any(report.differences for report in reports)
        print("changes:", dict(changes.done), changes.writer.summary(), sep="\n")
        for name in world.databases if options.direct else ():
            client.drop_database(name, False, True)
    return equal


def run_at_once(options: argparse.Namespace, direct_at: Address, proxy: Proxy) -> bool:
    """Writes, each followed by reads of all that there is; True if nothing differed."""
    upstream, version = UPSTREAMS[options.upstream], FLAVOURS[options.upstream].version
    with ExitStack() as stack:
        client = stack.enter_context(MetastoreClient(*direct_at))
        direct = stack.enter_context(RawConnection(*direct_at))
        through = stack.enter_context(MetastoreClient(*proxy.address))
        sizes: dict[str, Any] = {"databases": 2, "tables": len(at_once.KINDS), "partitions": 3}
        world = fill(client, options.prefix, options.seed, kinds=at_once.KINDS, latin1=upstream.latin1, **sizes)
        world.kinds = upstream.kinds
        logged, follows = upstream.statistics_are_logged, options.store != "ttl"
        if follows:
            proxy.wait_event(int(client.get_current_notificationEventId().eventId))
        changes = at_once.ChangesAtOnce(world, through, statistics_are_logged=logged, version=version)
        each = at_once.AtOnce(proxy, direct, world, changes, version, follows)
        stack.callback(lambda: print(each.summary(), f"changes: {dict(changes.done)}", sep="\n", flush=True))
        for number in range(options.at_once):
            if number % SHOWN == 0:
                print(f"{number} changes, {each.reads} reads, {len(each.differences)} differences", flush=True)
            for difference in each.one().differences[:3]:
                print(f"write {number}: {each.differences[-1].partition(': ')[0]}: {difference:.1500}", flush=True)
    return not each.differences


def shares(proxy: Proxy) -> str:
    """How much of what was asked came from the cache, and why the rest did not."""
    outcomes: Counter[str] = Counter()
    for (_, outcome, reason), count in proxy.requests().items():
        outcomes["hit" if outcome == "hit" else reason or outcome] += int(count)
    return ", ".join(f"{name} {count / outcomes.total():.1%}" for name, count in outcomes.most_common())


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.differential", description=__doc__)
    parser.add_argument("--upstream", choices=UPSTREAMS, default="hive42", help="what metastore it is, or is started")
    parser.add_argument("--store", choices=STORES, default="sql", help="how a started proxy fills its cache")
    parser.add_argument("--direct", type=address, help="a running metastore, HOST:PORT")
    parser.add_argument("--proxy", type=address, help="the proxy before it, HOST:PORT")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--reads", type=int, default=2000, help="in all")
    parser.add_argument("--mutated", type=int, default=500, help="further reads, in all, with odd requests")
    parser.add_argument("--rounds", type=int, default=5, help="reads are split into rounds with changes between them")
    parser.add_argument(
        "--at-once", type=int, default=0, help="instead: so many writes, each followed by reads of all that there is"
    )
    parser.add_argument("--changes", type=int, default=60, help="per round")
    parser.add_argument(
        "--large", type=int, help="partitions of a table for filters alone; 0: none [5000, none with --store ttl]"
    )
    parser.add_argument("--prefix", default=f"df{int(time.time()) % 100000}")
    parser.add_argument("--settle", type=float, default=2.0, help="seconds to wait after changes")
    options = parser.parse_args()
    if (options.direct is None) != (options.proxy is None):
        parser.error("--direct and --proxy go together")
    if options.at_once and options.direct is not None:
        parser.error("--at-once stops a process of the proxy, so it starts one")
    if not UPSTREAMS[options.upstream].logs and options.store != "ttl":
        parser.error(f"{options.upstream} logs nothing: --store ttl")
    if options.large is None:
        options.large = 0 if options.store == "ttl" else 5000  # TTL mode walks and indexes nothing
    with ExitStack() as stack:
        if options.direct is not None:
            return 0 if run(options, options.direct, None) else 1
        settings = at_once.SETTINGS if options.at_once else {}
        direct_at, proxy = start(stack, options.upstream, options.store, settings)
        equal = (run_at_once if options.at_once else run)(options, direct_at, proxy)
        print("from the cache:", shares(proxy))
        return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
