"""Filters on a table of about a million partitions, by its first key, by its last one, and wide: a metastore and the
proxy's cache, another literal with every call. `python -m benchmarks --only filters` measures these alone.

The table (`vast`) has 10,000 days and a hundred values of `n` for each; some values of `n` have one partition only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from hive_metastore.ttypes import GetTableRequest

from benchmarks import contents, single
from benchmarks.measure import Result, Server
from tests.testbed import objects
from tests.testbed.client import MetastoreClient
from tests.testbed.raw import encode_call

METHOD = "get_partitions_by_filter"
DAYS = 10_000
RARE = 1000
"""The first of the values of `n` that one partition has."""
ASKED = 12
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


def add_rare(client: MetastoreClient) -> None:
    """The partitions whose value of `n` no other has; to be called before the cache is filled."""
    table = client.get_table_req(GetTableRequest(dbName=contents.DATABASE, tblName="vast")).table
    rows = ([f"d{97 * at:05d}", str(RARE + at)] for at in range(1, 2 * ASKED + 1))
    objects.add_partitions(client, table, rows)


def measured(generator: Path, hive: Server, proxy: Server) -> dict[str, dict[str, Result]]:
    """By row and server; both have answered as many calls with other literals before."""
    found: dict[str, dict[str, Result]] = {}
    for row in ROWS:
        row_of = found[row.label] = {}
        for server in (hive, proxy):
            single.varied(generator, server, calls(row, ASKED + 1, 2 * ASKED))
            result = row_of[server.label] = single.varied(generator, server, calls(row, 1, ASKED))
            figures = f"p50 {result.p50_ms:9.2f} ms {result.cpu_us:10.0f} us CPU"
            print(f"{row.label:34} {server.label:10} {figures}", flush=True)
    return found


def calls(row: Row, first: int, last: int) -> Iterator[bytes]:
    """With these literals."""
    return (encode_call(METHOD, contents.DATABASE, "vast", row.text(at), -1) for at in range(first, last + 1))
