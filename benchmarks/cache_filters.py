"""What filters on a million partitions cost a worker, whichever keys they name.

Two tables: `hours` by day, hour and region (1,000 x 24 x 42), and `users` by user and month (100,000 x 10). For each
filter: how many partitions it selects, CPU time to find and join them (or that it goes upstream), and the longest slice
that it holds the worker's loop; without an index of the keys, and with it.

    python -m benchmarks.cache_filters [--json]
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from struct import pack
from typing import Any

from benchmarks import kept
from benchmarks.cache_size import SD_TAIL, columns, string
from benchmarks.filled import filled, load
from hms_cache_proxy.cache.changes import Changes
from hms_cache_proxy.cache.entries import TableEntry
from hms_cache_proxy.cache.reader import CacheReader
from hms_cache_proxy.cache.writer import CacheWriter
from hms_cache_proxy.methods.proof import Proof
from hms_cache_proxy.methods.readers import filters
from hms_cache_proxy.methods.readers.base import Context, Decline, Unfinished
from hms_cache_proxy.methods.readers.key_index import KeyIndexes
from hms_cache_proxy.store.protocol import DatabaseRecord, PartitionRecord, TableRecord
from hms_cache_proxy.wire import spec
from tests.figures import Origin

METHOD = "get_partitions_by_filter"
REPEATED = 5

TABLES: dict[bytes, tuple[tuple[bytes, bytes], ...]] = {
    b"hours": ((b"day", b"string"), (b"hour", b"int"), (b"region", b"string")),
    b"users": ((b"user", b"int"), (b"month", b"string")),
}
FILTERS = [
    ("all keys", b"hours", "day = '2024-07-15' and hour = 3 and region = 'r07'"),
    ("first key", b"hours", "day = '2024-07-15'"),
    ("first and last key", b"hours", "day >= '2024-07-01' and day < '2024-07-08' and region = 'r07'"),
    ("second key and first, a range", b"hours", "day >= '2024-07-01' and hour between 3 and 4 and region = 'r07'"),
    ("second and last key", b"hours", "hour = 3 and region = 'r07'"),
    ("last key, one partition", b"hours", "region = 'rare'"),
    ("last key, a range", b"hours", "region > 'r41' and region < 's'"),
    ("first, in parts, and last key", b"hours", "day > '2023-01-01' and (region = 'rare' or region = 'none')"),
    ("last key", b"hours", "region = 'r07'"),
    ("wide: half of the table", b"hours", "day >= '2024-05-15'"),
    ("first key, integers, a range", b"users", "user >= 4000 and user < 4100"),
    ("both keys", b"users", "user = 4711 and month = '2024-05'"),
    ("last key, one partition", b"users", "month = '2023-12'"),
    ("last key", b"users", "month = '2024-05'"),
]

PAYING = {b"hours": "region = 'rare'", b"users": "month = '2023-12'"}
"""Filters whose searches fill the indexes."""


def values(table: bytes) -> Iterator[tuple[bytes, ...]]:
    """Values of each partition, in order of the names."""
    if table == b"hours":
        days = (b"20%02d-%02d-%02d" % (22 + at // 336, at // 28 % 12 + 1, at % 28 + 1) for at in range(1000))
        for day in days:
            for hour in sorted(b"%d" % at for at in range(24)):
                yield from ((day, hour, b"r%02d" % region) for region in range(42))
                if day == b"2024-07-15" and hour == b"3":
                    yield day, hour, b"rare"
    else:
        for user in sorted(b"%d" % at for at in range(100_000)):
            if user == b"70":
                yield user, b"2023-12"
            yield from ((user, b"2024-%02d" % month) for month in range(1, 11))


def records(table: bytes) -> Iterator[PartitionRecord]:
    keys = [key for key, _ in TABLES[table]]
    head = columns(0, 0)
    for row in values(table):
        name = b"/".join(key + b"=" + value for key, value in zip(keys, row, strict=True))
        yield PartitionRecord(
            name=name,
            values=b"\x0f\x00\x01\x0b" + pack(">i", len(row)) + b"".join(map(string, row)),
            times=b"\x08\x00\x04" + pack(">i", 1_680_000_000) + b"\x08\x00\x05" + pack(">i", 0),
            location=b"s3://lake/" + table + b"/" + name,
            parameters=b"\x0d\x00\x07\x0b\x0b" + pack(">i", 1) + string(b"numRows") + string(b"1234567"),
            tail=b"\x0a\x00\x0a" + pack(">q", -1) + b"\x02\x00\x0b\x00",
            sd_head=head,
            sd_tail=SD_TAIL,
        )


def fill(writer: CacheWriter) -> None:
    """Both tables, in chunks."""
    writer.commit(Changes(cursor=1, databases={(b"hive", b"big"): DatabaseRecord(b"hive", b"big", b"body", False)}))
    for number, (table, keys) in enumerate(TABLES.items(), 1):
        record = TableRecord(
            b"hive", b"big", table, number, b"MANAGED_TABLE", b"body", False, False, keys, b"s3://lake"
        )
        writer.commit(Changes(cursor=2, tables={(b"hive", b"big", table): record}))
        load(writer, number, records(table), cursor=2)


def measured(reader: CacheReader, table: bytes, text: str, indexes: KeyIndexes | None) -> dict[str, Any]:
    """One filter: how many it selects (None: the metastore is asked), CPU time, the longest slice; times in ms."""
    best, longest, count = float("inf"), float("inf"), None
    for _ in range(REPEATED):
        slices, count = once(reader, table, text, indexes)
        best, longest = min(best, sum(slices)), min(longest, max(slices))
    return {"partitions": count, "cpu_ms": round(1000 * best, 2), "longest_slice_ms": round(1000 * longest, 2)}


def indexed(reader: CacheReader, table: bytes, text: str) -> tuple[KeyIndexes, dict[str, Any]]:
    """Indexes after as many searches as that takes, and what it took; times in ms."""
    indexes = KeyIndexes(64 << 20)
    cpu, searches, longest = 0.0, 0, 0.0
    while True:
        with reader.snapshot() as snapshot:
            entry = snapshot.table(b"hive", b"big", table)
            assert isinstance(entry, TableEntry)
            index = indexes.of(entry, snapshot.state(entry))
        if index is not None:
            break
        slices, _ = once(reader, table, text, indexes)
        cpu, searches, longest = cpu + sum(slices), searches + 1, max(longest, max(slices))
    times = {"cpu_ms": round(1000 * cpu), "longest_slice_ms": round(1000 * longest, 2)}
    return indexes, {"table": table.decode(), "searches": searches, **times, "bytes": index.size_bytes}


def once(reader: CacheReader, table: bytes, text: str, indexes: KeyIndexes | None) -> tuple[list[float], int | None]:
    args = spec.args(METHOD)(db_name=b"big", tbl_name=table, filter=text.encode(), max_parts=-1)
    slices: list[float] = []
    size: list[bytes] = []

    def timed(step: Any) -> Any:
        began = time.thread_time()
        try:
            return step()
        finally:
            slices.append(time.thread_time() - began)

    with reader.snapshot() as snapshot:
        proof = Proof("passthrough", exact=False)
        context = Context(snapshot, METHOD, by_name=True, proof=proof, indexes=indexes)
        try:
            found = timed(lambda: filters.get_partitions_by_filter(context, args))
            while isinstance(found, Unfinished):
                try:
                    timed(found.work.__next__)
                except StopIteration as done:
                    found = done.value
        except Decline:
            return slices, None
        if isinstance(found, bytes):
            size.append(found)
        else:
            while (part := timed(lambda: next(found.pieces, None))) is not None:
                size.append(part)
    return slices, int.from_bytes(b"".join(size[:2])[4:8], "big")


def keep(rows: list[dict[str, Any]], indexes: list[dict[str, Any]], of: Origin) -> None:
    """Both tables."""
    cells = [
        [row["keys"], f"`{row['filter']}`", "upstream" if row["partitions"] is None else row["partitions"]]
        + [row["cpu_ms"], row["longest_slice_ms"], row["indexed"]["cpu_ms"], row["indexed"]["longest_slice_ms"]]
        for row in rows
    ]
    head = ["keys", "filter", "partitions", "CPU ms", "longest slice, ms", "indexed: CPU ms", "longest slice, ms"]
    paid = [[one["table"], one["searches"], one["cpu_ms"], one["longest_slice_ms"], one["bytes"]] for one in indexes]
    kept.keep(
        "single/cache_filters",
        kept.table("", head, cells, text=2),
        kept.table(
            "What the indexes cost:",
            ["table", "searches that paid for it", "CPU ms in all", "longest slice, ms", "bytes"],
            paid,
            text=1,
        ),
        command="python -m benchmarks.cache_filters --keep",
        of=of,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--json", action="store_true")
    kept.option(parser)
    options = parser.parse_args()
    of = kept.origin()
    with filled(fill) as reader:
        full = {table: indexed(reader, table, PAYING[table]) for table in TABLES}
        rows = []
        for keys, table, text in FILTERS:
            held = measured(reader, table, text, full[table][0])
            rows.append({"filter": text, "keys": keys, **measured(reader, table, text, None), "indexed": held})
    if options.keep:
        keep(rows, [paid for _, paid in full.values()], of)
    if options.json:
        print(json.dumps({"filters": rows, "indexes": [paid for _, paid in full.values()]}))
        return
    for _, paid in full.values():
        print(
            f"index of {paid['table']}: {paid['bytes']:,} bytes after {paid['searches']} searches,"
            f" {paid['cpu_ms']} ms in all, longest slice {paid['longest_slice_ms']} ms"
        )
    for row in rows:
        found = "upstream" if row["partitions"] is None else f"{row['partitions']:,}"
        times = "".join(
            f"{each['cpu_ms']:>10.2f} ms{each['longest_slice_ms']:>8.2f} ms" for each in (row, row["indexed"])
        )
        print(f"{row['keys']:32}{found:>12}{times}  {row['filter']}")


if __name__ == "__main__":
    main()
