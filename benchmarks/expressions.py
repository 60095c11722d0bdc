"""`python -m benchmarks.expressions [--keep]`: what a condition of Hive's planner costs a worker, in CPU time.

A table of 100,000 partitions by day and number, and a condition that selects one of them, as Hive's own classes wrote
it: to read its bytes, the same when they are remembered, and to answer `get_partitions_by_expr`, another one each time,
as a metastore does that pushes conditions down. Each is the median of many. Then the same call to a proxy, to Hive 4.2
and to its CachedStore (expressions_beside.py). Must not know: sockets.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import Final

from benchmarks import kept
from benchmarks.cache_size import SD_TAIL, columns, string
from benchmarks.contents import expression
from benchmarks.expressions_beside import beside
from benchmarks.filled import filled, load
from hms_cache_proxy.cache.changes import Changes
from hms_cache_proxy.cache.reader import CacheReader
from hms_cache_proxy.cache.writer import CacheWriter
from hms_cache_proxy.expressions.decode import decode
from hms_cache_proxy.methods.expression_routes import ROUTES, ExpressionRoutes
from hms_cache_proxy.methods.proof import Proof
from hms_cache_proxy.methods.readers import expressions
from hms_cache_proxy.methods.readers.base import Context, Slices
from hms_cache_proxy.methods.readers.part_names import DEFAULT_PARTITION
from hms_cache_proxy.store.protocol import DatabaseRecord, PartitionRecord, TableRecord
from hms_cache_proxy.wire import spec

METHOD: Final = "get_partitions_by_expr"
KEYS: Final = ((b"day", b"string"), (b"n", b"int"))
TIMES: Final = 500
BESIDE: Final = (
    "The same call, another condition each time, over one connection: CPU time of the server and of its database."
)
COMMAND: Final = "python -m benchmarks.expressions --keep"


def records() -> Iterator[PartitionRecord]:
    """100,000 partitions, in the order of their names."""
    head = columns(0, 0)
    for at in range(100_000):
        values = b"d%05d" % (at // 10), b"%d" % (at % 10)
        name = b"/".join(key + b"=" + value for (key, _), value in zip(KEYS, values, strict=True))
        yield PartitionRecord(
            name=name,
            values=b"\x0f\x00\x01\x0b\x00\x00\x00\x02" + b"".join(map(string, values)),
            times=b"\x08\x00\x04" + bytes(4) + b"\x08\x00\x05" + bytes(4),
            location=b"s3://lake/huge/" + name,
            parameters=b"\x0d\x00\x07\x0b\x0b\x00\x00\x00\x01" + string(b"numRows") + string(b"1234567"),
            tail=b"\x02\x00\x0b\x00",
            sd_head=head,
            sd_tail=SD_TAIL,
        )


def fill(writer: CacheWriter) -> None:
    """The table, in chunks."""
    place = (b"hive", b"big")
    table = TableRecord(*place, b"huge", 1, b"MANAGED_TABLE", b"body", False, False, KEYS, b"s3://lake/huge")
    writer.commit(
        Changes(cursor=1, databases={place: DatabaseRecord(*place, b"body", False)}, tables={(*place, b"huge"): table})
    )
    load(writer, 1, records(), cursor=1)


def timed(work: Callable[[int], object]) -> float:
    """The median of the CPU time of many calls, in microseconds; each has another number."""
    took = []
    for at in range(TIMES):
        began = time.thread_time_ns()
        work(at)
        took.append((time.thread_time_ns() - began) / 1000)
    return median(took)


def measured(reader: CacheReader) -> dict[str, float]:
    """Each step by its name, in microseconds."""
    written = [expression(197 * at) for at in range(2 * TIMES)]
    routes = ExpressionRoutes()
    for route in ROUTES:
        routes.went(route, time.monotonic_ns())
    request = spec.struct("PartitionsByExprRequest")

    def answer(at: int) -> None:
        named = request(
            dbName=b"big",
            tblName=b"huge",
            expr=written[TIMES + at],
            maxParts=-1,
            defaultPartitionName=DEFAULT_PARTITION,
        )
        with reader.snapshot() as snapshot:
            proof = Proof("passthrough", exact=False)
            context = Context(snapshot, METHOD, by_name=True, proof=proof, routes=routes)
            found = expressions.get_partitions_by_expr(context, spec.args(METHOD)(req=named))
            body = b"".join(found.pieces) if isinstance(found, Slices) else found
        assert isinstance(body, bytes) and body.count(b"s3://lake/huge/") == 1, "one partition, in one turn"

    decode(expression(99_999))  # what is done once
    return {
        "read the bytes": timed(lambda at: decode(written[at])),
        "read bytes that are remembered": timed(lambda at: decode(written[TIMES - 1])),
        "one of 100,000 partitions, another one each time": timed(answer),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    kept.option(parser)
    options = parser.parse_args()
    of = kept.origin()
    with filled(fill) as reader:
        found = measured(reader)
    for what, took in found.items():
        print(f"{what:<50}{took:>10.1f} us", flush=True)
    rows = beside()
    if options.keep:
        steps = kept.table("", ["step", "CPU time, us"], [[what, took] for what, took in found.items()], text=1)
        servers = kept.table(
            BESIDE,
            ["answered by", "calls", "CPU time, us", "times the proxy's", "p50, ms"],
            [[who, calls, cpu_us, cpu_us / rows[0][2], p50_ms] for who, calls, cpu_us, p50_ms in rows],
            text=1,
        )
        kept.keep("single/expressions", steps, servers, command=COMMAND, of=of)


if __name__ == "__main__":
    main()
