"""Parts that are measured apart, each on servers of its own: `python -m benchmarks --only cold,listing,constraints`.

What planners ask beside tables and partitions, of a metastore and of the proxy's cache: listings of up to 50,000 tables
(in the metastore's order, and by name), constraints, aggregate statistics, filters on a million partitions; and what
was never asked before: 20,000 tables, other partitions every time. A part gives the rows of one table, kept in
docs/figures/parts/. All servers are warm: they have answered as many calls of the same kind before (of other objects,
where each call names others). Must not know: the run of `make bench`.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

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

from benchmarks import contents, filters, kept, single
from benchmarks.filters import PREWARM_TIMEOUT_S
from benchmarks.measure import Server, build_load_generator
from benchmarks.servers import HIT, HIVE, Stage, called, server_of, stage
from benchmarks.statistics import add_statistics
from tests.store import bulk
from tests.testbed import objects
from tests.testbed.client import MetastoreClient
from tests.testbed.postgres import MetastoreDatabase
from tests.testbed.raw import RawConnection, encode_call
from tests.testbed.untyped import decode_message

LISTED = (1_000, 10_000, 50_000)
CONSTRAINED = 40
PARTITIONS, COLUMNS = 10_000, 20
COLD_TABLES, COLD_WARM = 20_000, 2_000
BY_NAME = "proxy with list_order = name"
HEAD = ["call", "asked", "connections", "server", "median ms", "99 % ms", "CPU ms per call", "bytes", "hits", "misses"]


def _same(call: bytes, _number: int) -> bytes:
    return call


@dataclass(frozen=True, slots=True)
class Asked:
    """One row; `message` gives a call for each number, which is another one for each, or (`other` False) seldom is.
    `warm`: how many others are asked before, None: as many. `again`: the very same are asked once more. `of_hive`: so
    many are sent to the metastore, whose answers take seconds; None: as many."""

    label: str
    message: Callable[[int], bytes]
    calls: int
    other: bool = True
    warm: int | None = None
    connections: int = 1
    again: bool = True
    of_hive: int | None = None


def listing(bench: Stage, database: MetastoreDatabase) -> list[Asked]:
    """All tables of one database, or some of them, for databases of several sizes."""
    rows = []
    for tables in LISTED:
        name, calls, of_hive = f"listed_{tables}", max(20, 100_000 // tables), max(2, 10_000 // tables)
        with MetastoreClient(*bench.metastore.address) as client:
            contents.fill_tables(client, database, name, tables)
        for label, method, *arguments in (
            ("get_all_tables", "get_all_tables"),
            ("get_table_meta", "get_table_meta", "*", None),
            ("get_tables", "get_tables", "*"),
            ("get_tables_by_type, views", "get_tables_by_type", "*", "VIRTUAL_VIEW"),
        ):
            call = encode_call(method, name, *arguments)
            rows.append(Asked(f"{label}, {tables:,} tables", partial(_same, call), calls, other=False, of_hive=of_hive))
        rows.append(Asked(f"get_tables, 10 of {tables:,} tables", partial(_some, name), min(50, tables // 25)))
    return rows


def _some(database: str, number: int) -> bytes:
    """Ten tables; others for each number."""
    return encode_call("get_tables", database, f"t_{number:05d}*")


def cold(bench: Stage, database: MetastoreDatabase) -> list[Asked]:
    """Nothing that was asked before: each table once on one connection, and once on eight by a request of another form;
    other partitions of 10,000 every time, adjacent ones or some of all."""
    tables = COLD_TABLES + COLD_WARM
    with MetastoreClient(*bench.metastore.address) as client:
        contents.fill_tables(client, database, contents.MANY_DATABASE, tables + 1)
        contents.fill(client)
    in_order = sorted(map(contents.name, range(contents.PARTITIONS)))

    def table(catalog: str | None) -> Callable[[int], bytes]:
        return lambda at: contents.get_table(f"t_{at:06d}", contents.MANY_DATABASE, catalog)

    def stretch(connections: int) -> Callable[[int], bytes]:
        rest = contents.PARTITIONS - contents.NAMES
        return lambda at: contents.named(in_order[(begin := (at * 8 + connections) % rest) : begin + contents.NAMES])

    def scattered(connections: int) -> Callable[[int], bytes]:
        return lambda at: contents.named(random.Random(f"{connections} {at}").sample(in_order, contents.NAMES))

    def everything(connections: int) -> Callable[[int], bytes]:
        return lambda at: contents.get_partitions("wide", contents.PARTITIONS + 100 * connections + at)

    rows: list[tuple[str, Callable[[int], Callable[[int], bytes]], int]] = [
        ("get_partitions_by_names_req, a stretch of 1,000", stretch, 400),
        ("get_partitions_by_names_req, 1,000 of 10,000", scattered, 400),
        ("get_partitions (10,000)", everything, 30),
    ]
    return [
        Asked(f"get_table_req, {COLD_TABLES:,} tables", table(None), COLD_TABLES, warm=COLD_WARM, again=False),
        Asked(
            *(f"get_table_req, {COLD_TABLES:,} tables", table("hive"), COLD_TABLES),
            warm=COLD_WARM,
            connections=8,
            again=False,
        ),
        *(
            Asked(label, message(connections), calls, connections=connections, again=False)
            for label, message, calls in rows
            for connections in (1, 8)
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

    return [Asked(f"get_all_table_constraints, {CONSTRAINED} tables in turn", asked, 10 * CONSTRAINED, other=False)]


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
        Asked(f"{method}, {some:,} partitions x {of} columns", asked(some, of), 10)
        for some, of in ((1000, 5), (PARTITIONS, 5), (PARTITIONS, COLUMNS))
    ]


def _filters(bench: Stage, database: MetastoreDatabase) -> list[Asked]:
    with MetastoreClient(*bench.metastore.address) as client:
        objects.create_database(client, contents.DATABASE)
        contents.fill_by_sql(client, database, "vast", 1_000_000)
        filters.add_rare(client)

    def asked(row: filters.Row) -> Callable[[int], bytes]:
        return lambda at: encode_call(method, contents.DATABASE, "vast", row.text(at), -1)

    method = filters.METHOD
    return [Asked(f"{method}, {row.label}", asked(row), filters.ASKED) for row in filters.ROWS]


PARTS: dict[str, Callable[[Stage, MetastoreDatabase], list[Asked]]] = {
    "cold": cold,
    "listing": listing,
    "constraints": constraints,
    "aggregates": aggregates,
    "filters": _filters,
}


def measured(part: str) -> Iterator[list[Any]]:
    """The rows of a part."""
    generator = build_load_generator()
    with tempfile.TemporaryDirectory(prefix="hms-bench-") as directory, stage(Path(directory)) as bench:
        database = bench.metastore.database
        assert database is not None
        rows = PARTS[part](bench, database)
        proxies = {HIT: bench.proxy(part)}
        if part == "listing":
            proxies[BY_NAME] = bench.proxy(f"{part}-by-name", settings={"LIST_ORDER": "name"})
        for proxy in proxies.values():
            proxy.start()
            proxy.wait_prewarmed(PREWARM_TIMEOUT_S)
        asked = [server_of(label, proxy) for label, proxy in proxies.items()]
        for row in rows:
            with RawConnection("127.0.0.1", proxies[HIT].port) as client:
                reply = client.call(row.message(row.calls + 1))
            with bench.bare(reply) as bare:
                for server in (bench.hive(), *asked, bare):
                    yield from _asked(generator, server, row)
        for proxy in proxies.values():
            proxy.stop()


def _asked(generator: Path, server: Server, row: Asked) -> Iterator[list[Any]]:
    """Warm the server, then measure: calls that were never asked before, and the very same again."""
    if server.label == HIVE and row.of_hive is not None:
        row = replace(row, calls=row.of_hive)
    before = row.calls if row.warm is None else row.warm
    warm = range(row.calls + 1, row.calls + before + 1) if row.other else range(1, row.calls + 1)
    single.varied(generator, server, map(row.message, warm))
    turns = ("for the first time", "again") if row.again else ("for the first time",)
    for asked in turns if row.other else ("again",):
        messages = map(row.message, range(1, row.calls + 1))
        result = single.varied(generator, server, messages, connections=row.connections)
        hits = result.counted.get("hit", 0)
        counts = [hits, sum(result.counted.values()) - hits] if result.counted else [None, None]
        called_by = called(server.label, result.counted) + (", by name" if server.label == BY_NAME else "")
        figures = [result.p50_ms, result.p99_ms, result.cpu_us / 1000, int(result.reply_bytes)]
        yield [row.label, asked, row.connections, called_by, *figures, *counts]


def run(parts: list[str], *, keep: bool) -> None:
    """Measure these parts, print their rows, and keep them."""
    for part in parts:
        of, rows = kept.origin(), []
        for cells in measured(part):
            rows.append(cells)
            print(*cells, sep=" | ", flush=True)
        if keep:
            command = f"python -m benchmarks --only {part}"
            kept.keep(f"parts/{part}", kept.table("", HEAD, rows, text=4), command=command, of=of)
