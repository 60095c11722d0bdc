"""`python -m tests.differential`: compare a running proxy with its metastore. Exit code 1 on any difference."""

from __future__ import annotations

import argparse
import itertools
import sys
import time

from tests.differential.changes import Changes
from tests.differential.compare import compare
from tests.differential.contents import KINDS, KINDS_23, fill
from tests.differential.reads import METHODS_23, OldReads, Reads
from tests.testbed.client import MetastoreClient
from tests.testbed.raw import RawConnection


def address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.differential", description=__doc__)
    parser.add_argument("--direct", type=address, required=True, help="the metastore, HOST:PORT")
    parser.add_argument("--proxy", type=address, required=True, help="the proxy before it, HOST:PORT")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--reads", type=int, default=2000, help="in all")
    parser.add_argument("--rounds", type=int, default=5, help="reads are split into rounds with changes between them")
    parser.add_argument("--changes", type=int, default=60, help="per round")
    parser.add_argument("--prefix", default=f"df{int(time.time()) % 100000}")
    parser.add_argument("--settle", type=float, default=2.0, help="seconds to wait after changes")
    parser.add_argument("--hive23", action="store_true", help="only what Hive 2.3 has")
    parser.add_argument("--latin1", action="store_true", help="names and values in latin1 alone: Hive's own on MySQL")
    options = parser.parse_args()
    failed = False
    with MetastoreClient(*options.direct) as client, RawConnection(*options.direct) as direct:
        kinds = KINDS_23 if options.hive23 else KINDS
        world = fill(client, options.prefix, options.seed, kinds=kinds, latin1=options.latin1)
        print(f"filled {len(world.databases)} databases, {len(world.tables)} tables", flush=True)
        changes = Changes(world, client)
        for number in range(options.rounds):
            began = time.monotonic()
            if number:
                for _ in range(options.changes):
                    changes.one()
            time.sleep(options.settle)
            seed = options.seed * 1000 + number
            every = OldReads(world, seed, METHODS_23) if options.hive23 else Reads(world, seed)
            reads = itertools.islice(every, options.reads // options.rounds)
            with RawConnection(*options.proxy) as proxied:
                report = compare(direct, proxied, reads)
            print(f"round {number}: {report.summary()}, {time.monotonic() - began:.1f} s", flush=True)
            for difference in report.differences[:10]:
                print("  ", difference)
            failed = failed or bool(report.differences)
        print("changes:", dict(changes.done))
        for name in world.databases:
            client.drop_database(name, False, True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
