"""Filters on a table of about a million partitions, by its first key, by its last one, and wide: a metastore and the
proxy's cache, another literal with every call. `python -m benchmarks.filters` measures these alone.

The table (`vast`) has 10,000 days and a hundred values of `n` for each; some values of `n` have one partition only.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from hive_metastore.ttypes import GetTableRequest

from benchmarks import contents, single
from benchmarks.measure import Result, Server, build_load_generator
from benchmarks.servers import HIT, HIVE, server_of, stage
from tests.proxy import Proxy
from tests.testbed import objects
from tests.testbed.client import MetastoreClient
from tests.testbed.raw import encode_call

METHOD = "get_partitions_by_filter"
DAYS = 10_000
RARE = 1000
"""The first of the values of `n` that one partition has."""
ASKED_OF_PROXY, ASKED_OF_HIVE = 40, 8
PREWARM_TIMEOUT_S = 600.0


@dataclass(frozen=True, slots=True)
class Row:
    """A kind of filter; `text` gives one for each number."""

    label: str
    text: Callable[[int], str]


ROWS = [
    Row("both keys: 1 partition", lambda at: f'day = "d{97 * at:05d}" and n = {at}'),
    Row("first key: 1 day", lambda at: f'day = "d{97 * at:05d}"'),
    Row("first key: 10 days", lambda at: f'day >= "d{97 * at:05d}" and day < "d{97 * at + 10:05d}"'),
    Row("last key within 100 days", lambda at: f'day >= "d{97 * at:05d}" and day < "d{97 * at + 100:05d}" and n = 7'),
    Row("last key: 1 partition", lambda at: f"n = {RARE + at}"),
    Row("wide, first key: 50 days", lambda at: f'day between "d{97 * at:05d}" and "d{97 * at + 49:05d}"'),
    Row("wide, last key: 10,000 partitions", lambda at: f"n = {at}"),
]


@dataclass(frozen=True, slots=True)
class Filtered:
    """One row on one server; `hits` of `replies` were from the cache (of Hive: None)."""

    result: Result
    hits: int | None


def add_rare(client: MetastoreClient) -> None:
    """The partitions whose value of `n` no other has; to be called before the cache is filled."""
    table = client.get_table_req(GetTableRequest(dbName=contents.DATABASE, tblName="vast")).table
    rows = ([f"d{97 * at:05d}", str(RARE + at)] for at in range(1, ASKED_OF_PROXY + 1))
    objects.add_partitions(client, table, rows)


def measured(generator: Path, hive: Server, proxy: Proxy) -> dict[str, dict[str, Filtered]]:
    """By row and server."""
    found: dict[str, dict[str, Filtered]] = {}
    for row in ROWS:
        found[row.label] = {
            HIVE: Filtered(single.varied(generator, hive, _calls(row, ASKED_OF_HIVE)), None),
            HIT: _of_proxy(generator, proxy, row),
        }
        for server, one in found[row.label].items():
            result = one.result
            print(f"{row.label:34} {server:10} p50 {result.p50_ms:9.2f} ms {result.cpu_us:10.0f} us CPU", flush=True)
    return found


def table_of(found: dict[str, dict[str, Filtered]]) -> Iterator[list[str]]:
    """Head and rows of the page's table."""
    yield ["filter", "server", "median ms", "99 % ms", "CPU ms per call", "bytes", "from the cache"]
    for label, servers in found.items():
        for server, one in servers.items():
            hits = "" if one.hits is None else f"{one.hits} of {one.result.replies}"
            figures = [f"{ms:.2f}" for ms in (one.result.p50_ms, one.result.p99_ms, one.result.cpu_us / 1000)]
            yield [label, server, *figures, f"{one.result.reply_bytes:,.0f}", hits]


def _of_proxy(generator: Path, proxy: Proxy, row: Row) -> Filtered:
    before = _hits(proxy)
    result = single.varied(generator, server_of(HIT, proxy), _calls(row, ASKED_OF_PROXY))
    return Filtered(result, _hits(proxy) - before)


def _calls(row: Row, count: int) -> Iterator[bytes]:
    return (encode_call(METHOD, contents.DATABASE, "vast", row.text(at), -1) for at in range(1, count + 1))


def _hits(proxy: Proxy) -> int:
    counts = proxy.requests().items()
    return int(sum(count for (method, outcome, _), count in counts if (method, outcome) == (METHOD, "hit")))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.filters", description=__doc__)
    parser.add_argument("--partitions", type=int, default=1_000_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hms-bench-") as directory, stage(Path(directory)) as bench:
        database = bench.metastore.database
        assert database is not None
        with MetastoreClient(*bench.metastore.address) as client:
            objects.create_database(client, contents.DATABASE)
            contents.fill_by_sql(client, database, "vast", options.partitions)
            add_rare(client)
        proxy = bench.proxy("filters")
        proxy.start()
        proxy.wait_prewarmed(PREWARM_TIMEOUT_S)
        for cells in table_of(measured(build_load_generator(), bench.hive(), proxy)):
            print("| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
