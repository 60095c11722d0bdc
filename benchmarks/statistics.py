"""`python -m benchmarks.statistics [--partitions N] [--columns N]`: what column statistics cost, and what they give.

A table of partitions, read from PostgreSQL in chunks and written to a cache, without statistics and then with those of
some columns of each partition: partitions a second of this process's CPU time, and bytes. Then a Hive metastore and a
proxy over the same database: the time of a reply about a table of 100 columns, about 1,000 partitions (others every
time) x 5 columns, and of aggregates of as many, of all partitions x 5 columns, and of all of both.
"""

from __future__ import annotations

import argparse
import gc
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hive_metastore.ttypes import PartitionsStatsRequest, TableStatsRequest

from benchmarks import kept
from benchmarks.measure import Server
from benchmarks.servers import HIT, HIVE, called, server_of
from hms_cache_proxy.cache import targets
from hms_cache_proxy.cache.changes import Changes, PartitionChunk
from hms_cache_proxy.cache.state import StatePage
from hms_cache_proxy.cache.writer import CacheWriter
from hms_cache_proxy.store.sql.store import SqlStore, open_sql_store
from tests.proxy import Proxy
from tests.store import bulk
from tests.testbed.bed import Bed
from tests.testbed.metastore import Metastore
from tests.testbed.postgres import MetastoreDatabase
from tests.testbed.raw import RawConnection, encode_call
from tests.testbed.untyped import decode_message

CHUNK = 10_000
WIDE = 100
ASKED_PARTITIONS, ASKED_COLUMNS = 1000, 5
_VALUES = """
  CASE WHEN c %% 4 = 0 THEN id * 7919 END, CASE WHEN c %% 4 = 0 THEN id * 104729 END,
  CASE WHEN c %% 4 = 1 THEN id / 7.0 END, CASE WHEN c %% 4 = 1 THEN id * 3.7 END,
  CASE WHEN c %% 4 = 2 THEN (id / 100.0)::text END, CASE WHEN c %% 4 = 2 THEN (id * 10.5)::text END,
  id %% 100, 1 + id %% 1000, CASE WHEN c %% 4 = 3 THEN id / 9.0 END, CASE WHEN c %% 4 = 3 THEN id %% 40 END,
  1700000000 + id, 'hive'
"""
_COLUMNS = """"CS_ID", "COLUMN_NAME", "COLUMN_TYPE", {owner}, "LONG_LOW_VALUE", "LONG_HIGH_VALUE", "DOUBLE_LOW_VALUE",
  "DOUBLE_HIGH_VALUE", "BIG_DECIMAL_LOW_VALUE", "BIG_DECIMAL_HIGH_VALUE", "NUM_NULLS", "NUM_DISTINCTS", "AVG_COL_LEN",
  "MAX_COL_LEN", "LAST_ANALYZED", "ENGINE" """
_TYPE = "(array['bigint', 'double', 'decimal(18,2)', 'string'])[1 + c %% 4]"
_PARTITIONS = (
    f'INSERT INTO "PART_COL_STATS" ({_COLUMNS.format(owner=chr(34) + "PART_ID" + chr(34))})'
    f" SELECT id * 1000 + c, 'col_' || c, {_TYPE}, id, {_VALUES}"
    ' FROM (SELECT "PART_ID" AS id FROM "PARTITIONS") parts, generate_series(0, %(columns)s - 1) c'
)
_TABLE = (
    f'INSERT INTO "TAB_COL_STATS" ({_COLUMNS.format(owner=chr(34) + "TBL_ID" + chr(34))})'
    f" SELECT c, 'col_' || c, {_TYPE}, id, {_VALUES} FROM (SELECT 10 AS id) t, generate_series(0, {WIDE} - 1) c"
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.statistics", description=__doc__)
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--columns", type=int, default=20, help="with statistics, of each partition")
    parser.add_argument("--calls", type=int, default=200)
    kept.option(parser)
    options = parser.parse_args()
    of = kept.origin()
    bed = Bed()
    try:
        metastore = bed.private_metastore("hive42")
        database = metastore.database
        assert isinstance(database, MetastoreDatabase)
        bulk.fill(database, options.partitions)
        store = open_sql_store(database.reader_url)
        gc.freeze()
        loaded = [["none", *_loaded(store)]]
        add_statistics(database, options.columns)
        loaded.append([f"those of {options.columns} columns", *_loaded(store)])
        store.close()
        served = _served(metastore, options.calls, options.columns)
    finally:
        bed.close()
    head = ["statistics", "partitions/s of CPU time", "reading, s", "writing, s", "longest chunk, s", "bytes each"]
    tables = [
        kept.table(f"A prewarm of {options.partitions:,} partitions:", head, loaded, text=1),
        kept.table("Replies:", ["server", "call", "least ms", "median ms", "bytes", "hits", "misses"], served, text=2),
    ]
    for row in [*loaded, *served]:
        print(*row, sep=" | ")
    if options.keep:
        kept.keep("single/statistics", *tables, command="python -m benchmarks.statistics --keep", of=of)


def add_statistics(database: MetastoreDatabase, columns: int) -> None:
    """Of so many columns of each partition that there is, and of the table's."""
    with database.connect() as connection, connection.cursor() as cursor:
        cursor.execute(_PARTITIONS, {"columns": columns})
        cursor.execute(_TABLE, {})
        cursor.execute("ANALYZE")


def _loaded(store: SqlStore) -> list[Any]:
    """A prewarm of the table into a new cache: rate, seconds of reading, of writing, of a chunk at most, bytes each."""
    with tempfile.TemporaryDirectory(prefix="hms-statistics-") as directory:
        page = StatePage(Path(directory) / "state", create=True)
        writer = CacheWriter.open(Path(directory) / "cache", page, store.identity)
        count, after, read_s, write_s, longest_s = 0, None, 0.0, 0.0, 0.0
        while True:
            began = time.process_time()
            with store.snapshot() as snapshot:
                table = snapshot.tables(b"hive", bulk.DATABASE, [bulk.TABLE])[bulk.TABLE]
                found = snapshot.partitions(table, after=after, limit=CHUNK)
                changes = Changes(cursor=snapshot.event_id)
            middle = time.process_time()
            if not count:
                changes.tables[b"hive", bulk.DATABASE, bulk.TABLE] = table
                changes.complete.add(targets.tables(b"hive", bulk.DATABASE))
            last = len(found) < CHUNK
            changes.chunks.append(PartitionChunk(table.table_id, found, first=not count, last=last))
            writer.commit(changes)
            ended = time.process_time()
            read_s, write_s, longest_s = (
                read_s + middle - began,
                write_s + ended - middle,
                max(longest_s, ended - began),
            )
            count += len(found)
            if last:
                break
            after = found[-1].name
        size = writer.cache_bytes
        writer.close()
        page.close()
    return [count / (read_s + write_s), read_s, write_s, longest_s, round(size / count)]


def _served(metastore: Metastore, calls: int, analyzed: int) -> list[list[Any]]:
    assert metastore.database is not None
    rows = []
    with tempfile.TemporaryDirectory(prefix="hms-statistics-") as directory:
        proxy = Proxy(
            directory=Path(directory),
            upstream=metastore.uri,
            store_url=metastore.database.reader_url,
            settings={"REPLIES_MAX_ENTRY_BYTES": "0"},  # no kept replies: each is made from objects
        )
        try:
            proxy.start()
            proxy.wait_prewarmed()
            for server in (Server(HIVE, metastore.port), server_of(HIT, proxy)):
                with RawConnection("127.0.0.1", server.port) as connection:
                    for make, what, count in _cases(connection, calls, analyzed):
                        rows.append(_timed(server, connection, make, what, count))
            return rows
        finally:
            proxy.close()


Case = tuple[Callable[[], tuple[str, Any]], str, int]


def _cases(connection: RawConnection, calls: int, analyzed: int) -> list[Case]:
    """What makes the next call, what it is, how many of them."""
    rng = random.Random(7)
    database, table = bulk.DATABASE.decode(), bulk.TABLE.decode()
    columns = [f"col_{number}" for number in range(WIDE)]
    some = [f"col_{number}" for number in range(ASKED_COLUMNS)]

    def of_table() -> tuple[str, Any]:
        rng.shuffle(columns)  # another request each time: no kept reply
        return "get_table_statistics_req", TableStatsRequest(dbName=database, tblName=table, colNames=columns)

    listed = connection.call(encode_call("get_partition_names", db_name=database, tbl_name=table, max_parts=-1))
    names = [name for name in _strings(listed) if name.startswith("ds=")]

    def of_partitions() -> tuple[str, Any]:
        chosen = rng.sample(names, min(ASKED_PARTITIONS, len(names)))
        request = PartitionsStatsRequest(dbName=database, tblName=table, colNames=some, partNames=chosen)
        return "get_partitions_statistics_req", request

    def aggregate_of_some() -> tuple[str, Any]:
        return "get_aggr_stats_for", of_partitions()[1]

    def aggregate_of_all() -> tuple[str, Any]:
        rng.shuffle(names)
        request = PartitionsStatsRequest(dbName=database, tblName=table, colNames=some, partNames=names)
        return "get_aggr_stats_for", request

    def aggregate_of_all_columns() -> tuple[str, Any]:
        method, request = aggregate_of_all()
        request.colNames = [f"col_{number}" for number in range(analyzed)]
        return method, request

    few, some_names = max(10, calls // 5), min(ASKED_PARTITIONS, len(names))
    chosen, every = f"{some_names:,} partitions x {ASKED_COLUMNS} columns", f"{len(names):,} partitions"
    return [
        (of_table, f"{WIDE} columns of a table", calls),
        (of_partitions, chosen, few),
        (aggregate_of_some, chosen, few),
        (aggregate_of_all, f"{every} x {ASKED_COLUMNS} columns", calls // 20),
        (aggregate_of_all_columns, f"{every} x {analyzed} columns", calls // 20),
    ]


def _timed(
    server: Server, connection: RawConnection, make: Callable[[], tuple[str, Any]], what: str, count: int
) -> list[Any]:
    """One row: as many calls again before it, which are not measured, make the server warm."""
    taken, method, size = [], "", 0
    for number in range(2 * count):
        if number == count:
            before = server.outcomes() if server.outcomes is not None else {}
        method, request = make()
        message = encode_call(method, request=request)
        size = len(connection.call(message))  # finding the end of a message takes Python as long as the server
        began, left = time.perf_counter(), size
        connection.send(message)
        while left:
            left -= len(connection.socket.recv(left))
        if number >= count:
            taken.append(1000 * (time.perf_counter() - began))
    counts: list[Any] = [None, None]
    grown: dict[str, int] = {}
    if server.outcomes is not None:
        grown = {how: found - before.get(how, 0) for how, found in server.outcomes().items()}
        counts = [grown.get("hit", 0), sum(grown.values()) - grown.get("hit", 0)]
    return [called(server.label, grown), f"{method}: {what}", min(taken), statistics.median(taken), size, *counts]


def _strings(message: bytes) -> list[str]:
    """The strings of a reply that is a list of them."""
    return [name.decode() for name in decode_message(message).fields[0][1]]


if __name__ == "__main__":
    main()
