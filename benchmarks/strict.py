"""`python -m benchmarks.strict`: reads of transactional tables without a proof, answered after a look or relayed.

Two proxies of one worker in front of one metastore: one with `transactional_reads = "strict"`, one with `passthrough`.
`get_table_req` without a list over some connections, each proxy in turn, several times; alone, and while somebody
commits a transaction on one of these tables ten times a second. With `/thrift` after the metastore's name the proxies
read the metastore over Thrift, else its database. Each figure is the median of the rounds, and a ratio
is the median of the ratios of rounds, because the two of a round have the same neighbours. CPU time is that of the
proxy's processes, the metastore's and its database's. Must not know: how the proxy decides.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

import sqlalchemy

from benchmarks import kept
from benchmarks.measure import Load, Result, Server, build_load_generator, measure
from benchmarks.servers import postgres_pid
from tests.proxy import Proxy
from tests.testbed.bed import Bed
from tests.testbed.metastore import Metastore
from tests.write_ids.reads import encode
from tests.write_ids.transactions import CAPABLE, Transactions, struct

DATABASE: Final = "acid"
TABLES: Final = 20
CONNECTIONS: Final = (1, 16, 64)
COMMIT_EVERY_S: Final = 0.1
STRICT, RELAYED = "strict", "passthrough"
TRANSACTIONS: Final = "SELECT sum(xact_commit + xact_rollback) FROM pg_stat_database"
TOLD_S: Final = 1.5
"""PostgreSQL's processes tell what they have counted once a second."""
HEAD: Final = [
    *("metastore", "writes", "connections", "p50, strict / relayed", "p99", "CPU of a read", "reads a second"),
    *("answered by", "looks a second", "database transactions a second, strict", "relayed", "p50 relayed, ms"),
]


@dataclass(frozen=True, slots=True)
class Round:
    """One proxy under load. `answered`: reads by outcome and reason. `looks`, `transactions`: a second."""

    result: Result
    answered: Counter[str]
    looks: float
    transactions: float


@dataclass(slots=True)
class Bench:
    """What is measured. `counted` returns the transactions of the database so far; 0 if it does not count them."""

    generator: Path
    proxies: dict[str, Proxy]
    servers: dict[str, Server]
    messages: list[bytes]
    counted: Callable[[], int]

    def round(self, name: str, connections: int, seconds: float) -> Round:
        proxy = self.proxies[name]
        before, steps, transactions, began_s = proxy.requests(), self._steps(name), self.counted(), time.monotonic()
        result = measure(
            self.generator, self.servers[name], self.messages, Load(connections, seconds, warm=connections)
        )
        time.sleep(TOLD_S)
        took_s = time.monotonic() - began_s
        answered: Counter[str] = Counter()
        for (method, how, why), count in proxy.requests().items():
            if method == "get_table_req":
                answered["hit" if how == "hit" else why] += int(count - before.get((method, how, why), 0))
        looks = (self._steps(name) - steps) / took_s
        return Round(result, answered, looks, (self.counted() - transactions) / took_s)

    def _steps(self, name: str) -> float:
        return self.proxies[name].metric("hms_proxy_follower_steps_total")


@contextmanager
def committing(metastore: Metastore, number: int) -> Iterator[None]:
    """A writer of transactions on the first table; `number` 0: none."""
    stop = threading.Event()

    def commit() -> None:
        with Transactions(*metastore.address) as writer:
            while not stop.wait(COMMIT_EVERY_S):
                transaction = writer.open()
                writer.allocate(transaction, DATABASE, "t0")
                writer.commit(transaction)

    writers = [threading.Thread(target=commit) for _ in range(number)]
    for writer in writers:
        writer.start()
    try:
        yield
    finally:
        stop.set()
        for writer in writers:
            writer.join()


def counter(metastore: Metastore) -> Callable[[], int]:
    """Counts the transactions of the database server, if it is a PostgreSQL."""
    url = metastore.database.reader_url if metastore.database is not None else ""
    if not url.startswith("postgresql"):
        return lambda: 0
    engine = sqlalchemy.create_engine(url.replace("postgresql://", "postgresql+psycopg://", 1))

    def counted() -> int:
        with engine.connect() as connection:
            return int(connection.execute(sqlalchemy.text(TRANSACTIONS)).scalar_one())

    return counted


@contextmanager
def bench(flavour: str, directory: Path) -> Iterator[tuple[Bench, Metastore]]:
    """Both proxies, with the tables in their caches. `flavour`: of the metastore, with `/thrift` if they read that."""
    bed = Bed()
    name, _, over = flavour.partition("/")
    with ExitStack() as stack:
        stack.callback(bed.close)
        metastore = bed.private_metastore(name)
        with Transactions(*metastore.address) as direct:
            direct.create_database(DATABASE)
            for number in range(TABLES):
                direct.create(DATABASE, f"t{number}")
        assert metastore.database is not None
        processes = [metastore.process.id.pid]
        if metastore.database.reader_url.startswith("postgresql"):
            processes.append(postgres_pid(bed.postgres))
        proxies, servers = {}, {}
        for name in (STRICT, RELAYED):
            settings = {"TRANSACTIONAL_READS": name}
            url = "" if over else metastore.database.reader_url
            proxy = Proxy(directory / name, metastore.uri, url, settings)
            stack.callback(proxy.close)
            proxies[name] = proxy.start(prewarmed=True)
            assert proxy.process is not None
            servers[name] = Server(name, proxy.port, (proxy.process.pid, *processes))
        yield (
            Bench(build_load_generator(), proxies, servers, list(map(_asked, range(TABLES))), counter(metastore)),
            metastore,
        )


def _asked(number: int) -> bytes:
    capable = struct("ClientCapabilities", values=CAPABLE)
    wanted = struct("GetTableRequest", dbName=DATABASE, tblName=f"t{number}", capabilities=capable)
    return encode("get_table_req", {"req": wanted}, number)


def rows(flavour: str, made: Bench, metastore: Metastore, seconds: float, rounds: int) -> Iterator[list[Any]]:
    """A row for each number of connections, alone and beside a writer."""
    for writers in (0, 1):
        with committing(metastore, writers):
            for connections in CONNECTIONS:
                pairs = [
                    (made.round(STRICT, connections, seconds), made.round(RELAYED, connections, seconds))
                    for _ in range(rounds)
                ]
                yield [flavour, "10 a second" if writers else "none", connections, *_figures(pairs)]


def _figures(pairs: list[tuple[Round, Round]]) -> list[Any]:
    def ratio(value: Callable[[Result], float]) -> float:
        return median(value(strict.result) / value(relayed.result) for strict, relayed in pairs)

    strict, relayed = ([pair[at] for pair in pairs] for at in (0, 1))
    answered = sum((each.answered for each in strict), Counter[str]())
    return [
        ratio(lambda each: each.p50_ms),
        ratio(lambda each: each.p99_ms),
        ratio(lambda each: each.cpu_us),
        ratio(lambda each: each.rps),
        ", ".join(f"{how} {count / answered.total():.1%}" for how, count in answered.most_common() if count),
        median(each.looks for each in strict),
        median(each.transactions for each in strict),
        median(each.transactions for each in relayed),
        median(each.result.p50_ms for each in relayed),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.strict", description=__doc__)
    parser.add_argument(
        "--metastores", default="embedded-postgresql,hive42,hive42/thrift", help="flavours of the test bed"
    )
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=5)
    kept.option(parser)
    options = parser.parse_args()
    of = kept.origin()
    found: list[list[Any]] = []
    for flavour in options.metastores.split(","):
        with tempfile.TemporaryDirectory(prefix="hms-bench-") as directory:
            with bench(flavour, Path(directory)) as (made, metastore):
                for row in rows(flavour, made, metastore, options.seconds, options.rounds):
                    print(*row, sep=" | ", flush=True)
                    found.append(row)
    title = f"Reads of {TABLES} transactional tables without a list; strict, in relation to relaying."
    if options.keep:
        kept.keep(
            "single/strict", kept.table(title, HEAD, found, text=2), command="python -m benchmarks.strict --keep", of=of
        )


if __name__ == "__main__":
    main()
