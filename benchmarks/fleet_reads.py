"""`python -m benchmarks.fleet_reads`: reads through another proxy than the write before them: how many are old?

Three proxies with `peers`, and three without, in front of one embedded metastore each. Between two peers, a TCP proxy
holds every message for up to 5 ms. External tables are created, altered, renamed and dropped in turn, each time through
a proxy at random. Then the table is read once through another one, on a new connection; it is known what that must
show. Other tables are read through any proxy: no write precedes these reads, and most should be hits. Must not know:
how peers agree.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any, Final

from hive_metastore.ttypes import GetTableRequest, NoSuchObjectException, Table

from benchmarks import kept
from tests.history.fleet import fleet, leased
from tests.proxy import Proxy
from tests.testbed import objects
from tests.testbed.bed import Bed
from tests.testbed.client import MetastoreClient
from tests.testbed.metastore import Metastore

DATABASE: Final = "fleet"
PROXIES: Final = 3
STILL: Final = 5
"""Tables that nobody writes."""
HOW: Final = ("hit", "miss", "relay", "error")
HEAD: Final = ["proxies", "reads after a write", "old", "a write, median, ms", "other reads", "hits of these"]


class Experiment:
    """One table at a time: created, altered, renamed, dropped."""

    def __init__(self, proxies: Sequence[Proxy], metastore: Metastore) -> None:
        self.proxies, self._metastore = proxies, metastore
        self.old: list[str] = []
        self.writes_ms: list[float] = []
        with MetastoreClient(*proxies[0].address) as client:
            objects.create_database(client, DATABASE)
            for number in range(STILL):
                objects.create_table(client, objects.table(DATABASE, f"still{number}"))

    def run(self, reads: int, others: int) -> None:
        """`others`: reads that follow no write, after each one that does."""
        for number in range(reads):
            kind, table = number % 4, self._after(number)
            writer, reader = random.sample(self.proxies, 2)
            with MetastoreClient(*writer.address) as client:
                began = time.perf_counter()
                _write(client, kind, table)
                self.writes_ms.append((time.perf_counter() - began) * 1e3)
            found, expected = _shown(reader, table.tableName), None if kind == 3 else str(number)
            before = _shown(reader, table.tableName + "_old") if kind == 2 else None
            if (found, before) != (expected, None):
                self.old.append(f"{number}: {found} and {before} in place of {expected}")
            for _ in range(others):
                with MetastoreClient(*random.choice(self.proxies).address) as client:
                    client.get_table_req(GetTableRequest(DATABASE, f"still{random.randrange(STILL)}"))

    def _after(self, number: int) -> Table:
        """The table after the write."""
        name, old = f"t{number // 4}", f"t{number // 4}_old"
        if number % 4 == 0:
            return objects.table(DATABASE, old, parameters={"n": str(number)})
        with MetastoreClient(*self._metastore.address) as client:
            table = client.get_table(DATABASE, name if number % 4 == 3 else old)
        table.parameters["n"] = str(number)
        if number % 4 == 2:
            table.tableName = name
        return table

    def row(self, name: str) -> list[Any]:
        found = [pair for one in Proxy.requests_of(self.proxies) for pair in one.items()]
        of = {how: sum(n for (method, one, _), n in found if (method, one) == ("get_table_req", how)) for how in HOW}
        hits = f"{of['hit'] / sum(of.values()):.1%}"
        return [name, len(self.writes_ms), len(self.old), median(self.writes_ms), int(sum(of.values())), hits]


def _write(client: MetastoreClient, kind: int, table: Table) -> None:
    if kind == 0:
        client.create_table(table)
    elif kind == 3:
        client.drop_table(DATABASE, table.tableName, False)
    else:
        client.alter_table(DATABASE, table.tableName.removesuffix("_old") + "_old", table)


def _shown(proxy: Proxy, name: str) -> str | None:
    """The table's parameter, on a new connection; None: there is no such table."""
    with MetastoreClient(*proxy.address) as client:
        try:
            return str(client.get_table(DATABASE, name).parameters["n"])
        except NoSuchObjectException:
            return None


def row(bed: Bed, directory: Path, reads: int, others: int, *, peers: bool) -> list[Any]:
    """One experiment."""
    with ExitStack() as stack:
        metastore = bed.private_metastore("embedded")
        stack.callback(bed.release, metastore)
        assert metastore.database is not None
        settings = fleet(stack, PROXIES).settings if peers else [dict[str, str]()] * PROXIES
        proxies = []
        for number, each in enumerate(settings):
            place = directory / f"{number}-{peers}"
            proxy = Proxy(place, metastore.uri, metastore.database.reader_url, each)
            stack.callback(proxy.close)
            proxies.append(proxy.start(prewarmed=True))
        if peers:
            leased(proxies)
        experiment = Experiment(proxies, metastore)
        experiment.run(reads, others)
        for one in experiment.old[:5]:
            print(one, flush=True)
        return experiment.row("with `peers`" if peers else "without")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fleet_reads", description=__doc__)
    parser.add_argument("--reads", type=int, default=1000)
    parser.add_argument("--without", type=int, default=100, help="reads through proxies without peers")
    parser.add_argument("--others", type=int, default=3, help="reads that follow no write, after each that does")
    kept.option(parser)
    options = parser.parse_args()
    of = kept.origin()
    bed = Bed()
    try:
        with tempfile.TemporaryDirectory(prefix="hms-bench-") as directory:
            rows = ((True, options.reads), (False, options.without))
            found = [row(bed, Path(directory), reads, options.others, peers=peers) for peers, reads in rows]
    finally:
        bed.close()
    for each in found:
        print(*each, sep=" | ")
    if options.keep:
        title = f"{PROXIES} proxies, with up to 5 ms between peers."
        table = kept.table(title, HEAD, found, text=1)
        kept.keep("single/fleet_reads", table, command="python -m benchmarks.fleet_reads --keep", of=of)


if __name__ == "__main__":
    main()
