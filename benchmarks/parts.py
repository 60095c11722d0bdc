"""Parts that are measured apart, each on servers of its own: `python -m benchmarks --only listing,constraints`.

What planners ask beside tables and partitions, of a metastore and of the proxy's cache, on one connection: listings of
50,000 tables, constraints, aggregate statistics, filters on a million partitions. A part gives rows of a table that
stands in docs/benchmarks.md with the date and the machine's load. Must not know: the run of `make bench`.
"""

from __future__ import annotations

import os
import random
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from hive_metastore.ttypes import (
    AddDefaultConstraintRequest,
    AddNotNullConstraintRequest,
    AddPrimaryKeyRequest,
    AllTableConstraintsRequest,
    PartitionsStatsRequest,
    SQLDefaultConstraint,
    SQLNotNullConstraint,
    SQLPrimaryKey,
)

from benchmarks import contents, filters, single
from benchmarks.filters import PREWARM_TIMEOUT_S
from benchmarks.measure import Result, Server, build_load_generator
from benchmarks.servers import HIT, HIVE, Stage, server_of, stage
from benchmarks.statistics import add_statistics
from tests.proxy import Proxy
from tests.store import bulk
from tests.testbed import objects
from tests.testbed.client import MetastoreClient
from tests.testbed.postgres import MetastoreDatabase
from tests.testbed.raw import RawConnection, encode_call
from tests.testbed.untyped import decode_message

DOCS = Path(__file__).parents[1] / "docs" / "benchmarks.md"
BEGIN, END = "<!-- begin {} -->", "<!-- end {} -->"
TABLES = 50_000
CONSTRAINED = 40
PARTITIONS, COLUMNS = 10_000, 20
HEAD = ["call", "server", "median ms", "99 % ms", "CPU ms per call", "bytes", "from the cache"]


@dataclass(frozen=True, slots=True)
class Asked:
    """One row: `message` gives a call for each number; so many calls of the proxy, and of Hive."""

    label: str
    method: str
    message: Callable[[int], bytes]
    of_proxy: int = 200
    of_hive: int = 20


def listing(bench: Stage, database: MetastoreDatabase) -> list[Asked]:
    """50,000 tables of one database."""
    with MetastoreClient(*bench.metastore.address) as client:
        objects.create_database(client, contents.DATABASE)
        made = objects.create_table(client, objects.table(contents.DATABASE, "t", objects.wide_columns(20)))
    with database.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")  # the rows are right: no look-up of foreign keys
        cursor.execute(Path(__file__).with_name("tables.sql").read_text(), {"count": TABLES, "table": made.id})
        cursor.execute("VACUUM ANALYZE")
    everything = encode_call("get_all_tables", contents.DATABASE)
    many = f"{TABLES:,} tables"
    return [
        Asked(f"get_all_tables, {many}", "get_all_tables", lambda _: everything, 100, 10),
        Asked(
            f"get_tables, 10 of {many}, others every time",
            "get_tables",
            lambda at: encode_call("get_tables", contents.DATABASE, f"t_{at:05d}*"),
        ),
        Asked(
            f"get_table_meta, {many}",
            "get_table_meta",
            lambda _: encode_call("get_table_meta", contents.DATABASE, "*", None),
            50,
            5,
        ),
    ]


def constraints(bench: Stage, database: MetastoreDatabase) -> list[Asked]:
    """A primary key, a NOT NULL and a DEFAULT on each of some tables."""
    switches = {"enable_cstr": True, "validate_cstr": False, "rely_cstr": True, "catName": "hive"}
    with MetastoreClient(*bench.metastore.address) as client:
        objects.create_database(client, contents.DATABASE)
        columns = objects.wide_columns(20)
        for number in range(CONSTRAINED):
            name = f"t{number:02d}"
            objects.create_table(client, objects.table(contents.DATABASE, name, columns))
            row = {"table_db": contents.DATABASE, "table_name": name, "column_name": columns[0][0], **switches}
            client.add_primary_key(AddPrimaryKeyRequest([SQLPrimaryKey(**row, key_seq=1, pk_name=f"pk_{name}")]))
            client.add_not_null_constraint(
                AddNotNullConstraintRequest([SQLNotNullConstraint(**row, nn_name=f"nn_{name}")])
            )
            client.add_default_constraint(
                AddDefaultConstraintRequest([SQLDefaultConstraint(**row, default_value="0", dc_name=f"dc_{name}")])
            )

    def asked(number: int) -> bytes:
        request = AllTableConstraintsRequest(contents.DATABASE, f"t{number % CONSTRAINED:02d}", "hive")
        return encode_call("get_all_table_constraints", request)

    method = "get_all_table_constraints"
    return [Asked(f"{method}, {CONSTRAINED} tables in turn", method, asked, 1000, 200)]


def aggregates(bench: Stage, database: MetastoreDatabase) -> list[Asked]:
    """Of all partitions of a table and all of their columns, in another order every time."""
    bulk.fill(database, PARTITIONS)
    add_statistics(database, COLUMNS)
    place = {"dbName": bulk.DATABASE.decode(), "tblName": bulk.TABLE.decode()}
    with RawConnection(*bench.metastore.address) as client:
        reply = client.call(encode_call("get_partition_names", place["dbName"], place["tblName"], -1))
    names = [name.decode() for name in decode_message(reply).fields[0][1]]
    columns = [f"col_{number}" for number in range(COLUMNS)]

    def asked(some: int, of: int) -> Callable[[int], bytes]:
        def message(number: int) -> bytes:
            chosen = random.Random(number).sample(names, some)
            request = PartitionsStatsRequest(**place, colNames=columns[:of], partNames=chosen)
            return encode_call("get_aggr_stats_for", request)

        return message

    method = "get_aggr_stats_for"
    return [
        Asked(f"{method}, {some:,} partitions x {of} columns", method, asked(some, of), 20, 5)
        for some, of in ((1000, 5), (PARTITIONS, 5), (PARTITIONS, COLUMNS))
    ]


def _filters(bench: Stage, database: MetastoreDatabase) -> list[Asked]:
    with MetastoreClient(*bench.metastore.address) as client:
        objects.create_database(client, contents.DATABASE)
        contents.fill_by_sql(client, database, "vast", 1_000_000)
        filters.add_rare(client)

    def asked(row: filters.Row) -> Callable[[int], bytes]:
        return lambda at: encode_call(method, contents.DATABASE, "vast", row.text(at), -1)

    method, counts = filters.METHOD, (filters.ASKED_OF_PROXY, filters.ASKED_OF_HIVE)
    return [Asked(f"{method}, {row.label}", method, asked(row), *counts) for row in filters.ROWS]


PARTS: dict[str, Callable[[Stage, MetastoreDatabase], list[Asked]]] = {
    "listing": listing,
    "constraints": constraints,
    "aggregates": aggregates,
    "filters": _filters,
}


def measured(part: str) -> Iterator[list[str]]:
    """The rows of a part."""
    generator = build_load_generator()
    with tempfile.TemporaryDirectory(prefix="hms-bench-") as directory, stage(Path(directory)) as bench:
        database = bench.metastore.database
        assert database is not None
        rows = PARTS[part](bench, database)
        proxy = bench.proxy(part)
        proxy.start()
        proxy.wait_prewarmed(PREWARM_TIMEOUT_S)
        for row in rows:
            yield _cells(row, HIVE, _asked(generator, bench.hive(), row, row.of_hive), "")
            before = _hits(proxy, row.method)
            result = _asked(generator, server_of(HIT, proxy), row, row.of_proxy)
            yield _cells(row, HIT, result, f"{_hits(proxy, row.method) - before} of {result.replies}")
        proxy.stop()


def _asked(generator: Path, server: Server, row: Asked, count: int) -> Result:
    return single.varied(generator, server, (row.message(at) for at in range(1, count + 1)))


def _cells(row: Asked, server: str, result: Result, hits: str) -> list[str]:
    figures = [f"{ms:.2f}" for ms in (result.p50_ms, result.p99_ms, result.cpu_us / 1000)]
    return [row.label, server, *figures, f"{result.reply_bytes:,.0f}", hits]


def _hits(proxy: Proxy, asked: str) -> int:
    counts = proxy.requests().items()
    return int(sum(count for (method, outcome, _), count in counts if (method, outcome) == (asked, "hit")))


def page_with(text: str, part: str, lines: Iterable[str]) -> str:
    """The page with these lines between the part's marks. Raises ValueError if it has no such marks."""
    begin, end = BEGIN.format(part), END.format(part)
    before, found, rest = text.partition(begin + "\n")
    old, ended, after = rest.partition(end)
    if not found or not ended:
        raise ValueError(f"the page has no marks for {part}")
    return "\n".join([before + begin, "", *lines, "", end]) + after


def run(parts: list[str], *, write: bool) -> None:
    """Measure these parts, print their rows, and `write` them to the page."""
    for part in parts:
        began = time.strftime("%Y-%m-%d")
        rows = []
        for cells in measured(part):
            rows.append("| " + " | ".join(cells) + " |")
            print(rows[-1], flush=True)
        load = os.getloadavg()[2]
        lines = [f"Measured on {began}, on {os.cpu_count()} cores with a load of {load:.0f} (15 minutes' mean).", ""]
        lines += ["| " + " | ".join(HEAD) + " |", "|---|---|" + "---:|" * (len(HEAD) - 2), *rows]
        if write:
            DOCS.write_text(page_with(DOCS.read_text(), part, lines))
