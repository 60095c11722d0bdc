"""`python -m tests.differential`: compare a proxy with its metastore. Exit code 1 on any difference.

Starts both itself (--upstream), or takes two that are running (--direct, --proxy).
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from tests.differential.changes import Changes
from tests.differential.compare import compare
from tests.differential.contents import KINDS, KINDS_23, fill
from tests.differential.reads import METHODS_23, OldReads, Reads, Reads31, Request
from tests.proxy import Proxy
from tests.testbed.bed import Bed
from tests.testbed.client import MetastoreClient
from tests.testbed.mariadb import MariaDatabase
from tests.testbed.raw import RawConnection

Address = tuple[str, int]


@dataclass(frozen=True)
class Upstream:
    """What is made of reads and contents for a flavour of the test bed; `trailing_s`: its log is read again so long.

    `latin1`: names and values are, as Hive's own script on MySQL has it.
    """

    reads: Callable[..., Iterator[Request]]
    kinds: tuple[str, ...] = tuple(KINDS)
    statistics_are_logged: bool = True
    trailing_s: float = 0
    latin1: bool = False


def _reads_23(world: object, seed: int) -> Iterator[Request]:
    slow = {"get_databases", "get_tables", "get_tables_by_type"}  # some patterns cost 2.3 20 s of retries
    return OldReads(world, seed, METHODS_23 - slow)  # type: ignore[arg-type]  # a World


STORES: dict[str, dict[str, str]] = {
    "sql": {},
    "thrift": {"STORE": "thrift"},
    "ttl": {"STORE": "none", "TTL_ENABLED": "true", "TTL_TTL": "1h", "TTL_CACHE_MISSING": "true"},
}
"""How the cache is filled. `ttl`: by what clients ask; all changes then go through the proxy."""

UPSTREAMS = {
    "hive42": Upstream(Reads),
    "hive42-mariadb": Upstream(Reads, latin1=True),
    "hive31": Upstream(Reads31, statistics_are_logged=False),
    "hive23": Upstream(_reads_23, tuple(KINDS_23), statistics_are_logged=False, trailing_s=3),
    "hive23-postgresql": Upstream(_reads_23, tuple(KINDS_23), statistics_are_logged=False),
}


def address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    return host, int(port)


def start(stack: ExitStack, flavour: str, store: str) -> tuple[Address, Address]:
    """A metastore of this flavour and a proxy before it, both ended with the stack; their addresses."""
    bed = Bed()
    stack.callback(bed.close)
    metastore = bed.private_metastore(flavour)
    if isinstance(metastore.database, MariaDatabase):
        metastore.database.widen()
    url = metastore.database.reader_url if store == "sql" and metastore.database is not None else None
    directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hms-differential-")))
    proxy = Proxy(directory=directory, upstream=metastore.uri, store_url=url, settings=STORES[store])
    stack.callback(proxy.close)
    proxy.start()
    print(f"{flavour} at {metastore.uri}, proxy at {proxy.uri}, cache filled over {store}", flush=True)
    return metastore.address, proxy.address


def run(options: argparse.Namespace, direct_at: Address, proxy_at: Address) -> bool:
    """All rounds; True if nothing differed."""
    upstream = UPSTREAMS[options.upstream]
    equal = True
    with (
        MetastoreClient(*direct_at) as client,
        MetastoreClient(*proxy_at) as through,
        RawConnection(*direct_at) as direct,
    ):
        world = fill(client, options.prefix, options.seed, kinds=upstream.kinds, latin1=upstream.latin1)
        print(f"filled {len(world.databases)} databases, {len(world.tables)} tables", flush=True)
        writer = through if options.store == "ttl" else client
        changes = Changes(world, writer, through, statistics_are_logged=upstream.statistics_are_logged)
        for number in range(options.rounds):
            began = time.monotonic()
            if number:
                for _ in range(options.changes):
                    changes.one()
            time.sleep(options.settle + upstream.trailing_s)
            reads = itertools.islice(
                upstream.reads(world, options.seed * 1000 + number), options.reads // options.rounds
            )
            with RawConnection(*proxy_at) as proxied:
                report = compare(direct, proxied, reads)
            print(f"round {number}: {report.summary()}, {time.monotonic() - began:.1f} s", flush=True)
            for difference in report.differences[:10]:
                print("  ", difference)
            equal = equal and not report.differences
        print("changes:", dict(changes.done))
        for name in world.databases if options.direct else ():
            client.drop_database(name, False, True)
    return equal


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.differential", description=__doc__)
    parser.add_argument("--upstream", choices=UPSTREAMS, default="hive42", help="what metastore it is, or is started")
    parser.add_argument("--store", choices=STORES, default="sql", help="how a started proxy fills its cache")
    parser.add_argument("--direct", type=address, help="a running metastore, HOST:PORT")
    parser.add_argument("--proxy", type=address, help="the proxy before it, HOST:PORT")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--reads", type=int, default=2000, help="in all")
    parser.add_argument("--rounds", type=int, default=5, help="reads are split into rounds with changes between them")
    parser.add_argument("--changes", type=int, default=60, help="per round")
    parser.add_argument("--prefix", default=f"df{int(time.time()) % 100000}")
    parser.add_argument("--settle", type=float, default=2.0, help="seconds to wait after changes")
    options = parser.parse_args()
    if (options.direct is None) != (options.proxy is None):
        parser.error("--direct and --proxy go together")
    with ExitStack() as stack:
        if options.direct is not None:
            places = options.direct, options.proxy
        else:
            places = start(stack, options.upstream, options.store)
        return 0 if run(options, *places) else 1


if __name__ == "__main__":
    sys.exit(main())
