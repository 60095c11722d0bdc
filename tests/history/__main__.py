"""Histories by hand, one line each; the exit status is 1 if one of them has a violation.

    python -m tests.history embedded thrift --runs 10 --seconds 60 --seed 1
    python -m tests.history embedded sql --peers 3 --seconds 600
    python -m tests.history 127.0.0.1:9083 --seconds 60

The first starts a metastore of the test bed for each run, and two proxies that read its database (`sql`) or only ask it
(`thrift`). The second has three proxies with `peers`, and a fourth one that leaves and joins; every operation goes
through any of them. The third is a check of the workload itself, on a metastore alone: every port is the metastore's.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from tests.history.fleet import fleet, leased
from tests.history.run import BOUND_S, SETTINGS, HistoryKind, Outcome, run_history
from tests.proxy import Proxy
from tests.testbed.bed import Bed


def alone(address: str, seconds: float) -> Outcome:
    """On a metastore that runs."""
    host, _, port = address.rpartition(":")
    prefix = f"hi{int(time.time()) % 100000}"
    return run_history((host, int(port)), [], prefix=prefix, seconds=seconds, bound_s=1, chaos=False)


def with_proxies(flavour: str, store: str, seconds: float, peers: int) -> Outcome:
    """On a new metastore and two proxies, or so many that are peers."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="history-")))
        bed = Bed()
        stack.callback(bed.close)
        metastore = bed.private_metastore(flavour)
        over_sql = store == "sql" and metastore.database is not None
        proxies = []
        of = fleet(stack, peers, spare=True) if peers else None
        for number in range(2 if of is None else len(of.ports)):
            settings = {**SETTINGS, **of.settings[number]} if of is not None else SETTINGS
            proxy = Proxy(
                directory / f"proxy{number}",
                metastore.uri,
                metastore.database.reader_url if over_sql and metastore.database is not None else None,
                settings if over_sql else {**settings, "STORE": "thrift"},
            )
            stack.callback(proxy.close)
            proxies.append(proxy.start(prewarmed=over_sql))
        if of is not None:
            leased(proxies)
        outcome = run_history(
            metastore.address,
            proxies,
            prefix="history",
            seconds=seconds,
            bound_s=BOUND_S,
            version=metastore.flavour.version,
            kind=HistoryKind() if of is None else of.kind,
        )
        if of is not None:
            outcome.counts["hits"] = int(of.hits(proxies))
        return outcome


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.history")
    parser.add_argument("metastore", help="a flavour of the test bed, or HOST:PORT")
    parser.add_argument(
        "store", nargs="?", choices=("sql", "thrift"), help="what two proxies read; without: no proxies"
    )
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument(
        "--peers", type=int, default=0, help="so many proxies that are peers, and a spare one, instead of two"
    )
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1, help="of the first run; each has the next one")
    given = parser.parse_args()
    bad = 0
    for seed in range(given.seed, given.seed + given.runs):
        random.seed(seed)
        if given.store is None:
            outcome = alone(given.metastore, given.seconds)
        else:
            outcome = with_proxies(given.metastore, given.store, given.seconds, given.peers)
        bad += bool(outcome.violations or outcome.errors)
        print(f"seed {seed}: {outcome.summary()}", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
