"""Conditions by chance, as Hive's planner writes them: what the cache answers is what a running Hive 4.2 says.

Job: the bytes of conditions by Hive's own classes (Conditions.java), their tables in a metastore, where partitions come
and go, and `compare`, which asks a dispatcher and the metastore. Conditions over tables of ANSWERED consist of forms
that are answered; over others an answer is compared if there is one. Must not know: how expressions are read.
`python -m tests.differential.conditions` compares 20,000.
"""

from __future__ import annotations

import argparse
import base64
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from hms_cache_proxy.methods.readers.part_names import DEFAULT_PARTITION
from hms_cache_proxy.metrics import WorkerMetrics
from tests import figures
from tests.clients.hive_classes import JARS, HiveClasses
from tests.differential.condition_tables import (
    ANSWERED,
    EVERY,
    ODD,
    ConditionTable,
    Row,
    condition,
    some_row,
    some_table,
)
from tests.follower.harness import Followed
from tests.methods.local import Local
from tests.methods.structs import descriptor
from tests.testbed.bed import Bed
from tests.testbed.metastore import Metastore
from tests.testbed.objects import ORC, PROCESSOR_CAPABILITIES, PROCESSOR_IDENTIFIER
from tests.write_ids.transactions import Transactions, struct

SOURCE = Path(__file__).with_name("Conditions.java")
MANY = 20_000
NAMES: Final = "get_partition_names_req"
WHOLE: Final = ("get_partitions_by_expr", "get_partitions_spec_by_expr")
WHOLE_EVERY: Final = 10
"""Of so many conditions one is also asked for partitions; the others for names, which cost the metastore less."""
CHANGE_EVERY: Final = 10
"""Conditions between two changes of partitions."""
SHARE_OF_HITS: Final = 0.9
CHUNK: Final = 500
"""Conditions between two lines of figures."""


class Planner(HiveClasses):
    """The JVM that makes bytes of conditions."""

    def __init__(self, directory: Path, hive: str = "4.0.1") -> None:
        super().__init__(SOURCE, directory, hive)

    def planned(self, table: ConditionTable, condition: str) -> bytes | None:
        """The bytes; None if the planner makes no condition of keys of it."""
        answer = self.ask(keys=[list(key) for key in table.keys.items()], sql=condition)
        return base64.b64decode(answer.rows[0]) if answer.rows else None


# -- tables ----------------------------------------------------------------------------------------------------------


class Tables:
    """Those of EVERY in a database of a metastore: what is there, and what a reader of now sends with a request."""

    def __init__(self, metastore: Transactions, database: str) -> None:
        self._metastore = metastore
        self._database = database
        self._there: dict[str, set[Row]] = {}
        self._proofs: dict[str, dict[str, Any]] = {name: {} for name in EVERY}

    def create(self) -> None:
        """The database, the tables and their rows."""
        self._metastore.create_database(self._database)
        for name, table in EVERY.items():
            self._create(name, table)
            self._there[name] = set()
            self._write(name, going=set(), coming=set(table.rows))

    def drop(self) -> None:
        self._metastore.call("drop_database", name=self._database, deleteData=True, cascade=True)

    def change(self, rng: random.Random) -> None:
        """Some partitions of some table come, or go if they are there."""
        name = some_table(rng)
        rows = {some_row(rng, EVERY[name]) for _ in range(rng.randint(1, 3))}
        self._write(name, going=rows & self._there[name], coming=rows - self._there[name])

    def asked_for(self, name: str, expression: bytes) -> Any:
        """As Hive 4's planner does."""
        place = {"dbName": self._database, "tblName": name, "expr": expression, **self._proofs[name]}
        return struct("PartitionsByExprRequest", **place, defaultPartitionName=DEFAULT_PARTITION, maxParts=-1)

    def _create(self, name: str, table: ConditionTable) -> None:
        keys = [struct("FieldSchema", name=key, type=kind) for key, kind in table.keys.items()]
        made: dict[str, Any] = {"dbName": self._database, "tableName": name, "partitionKeys": keys}
        if table.transactional is None:
            made |= {"parameters": {"EXTERNAL": "TRUE"}, "tableType": "EXTERNAL_TABLE"}
            self._metastore.call("create_table", tbl=struct("Table", sd=descriptor(location=None), **made))
            return
        properties = {"transactional": "true", "transactional_properties": table.transactional}
        whole = struct("Table", sd=_orc(), parameters=properties, tableType="MANAGED_TABLE", **made)
        capable = {"processorCapabilities": PROCESSOR_CAPABILITIES, "processorIdentifier": PROCESSOR_IDENTIFIER}
        self._metastore.call("create_table_req", request=struct("CreateTableRequest", table=whole, **capable))

    def _write(self, name: str, *, going: set[Row], coming: set[Row]) -> None:
        """In a transaction, if the table is transactional; readers then have another list."""
        metastore, database = self._metastore, self._database
        if EVERY[name].transactional is None:
            self._move(name, going, coming, descriptor(location=None))
            return
        transaction = metastore.open()
        write_id = metastore.allocate(transaction, database, name)
        self._move(name, going, coming, _orc(), writeId=write_id)
        metastore.commit(transaction)
        table_id = int(metastore.table(database, name).id)
        self._proofs[name] = {"validWriteIdList": metastore.valid(database, name), "id": table_id}

    def _move(self, name: str, going: set[Row], coming: set[Row], sd: Any, **more: Any) -> None:
        """Drop partitions, and add others in directories of their own below the table's."""
        for row in going:
            place = {"db_name": self._database, "tbl_name": name, "part_vals": list(row)}
            self._metastore.call("drop_partition", **place, deleteData=False)
        where = {"dbName": self._database, "tableName": name, "sd": sd, "parameters": {}, **more}
        if coming:
            rows = [struct("Partition", values=list(row), **where) for row in sorted(coming)]
            self._metastore.call("add_partitions", new_parts=rows)
        self._there[name] = self._there[name] - going | coming


def _orc() -> Any:
    input_format, output_format, library = ORC
    serde = struct("SerDeInfo", serializationLib=library, parameters={})
    return descriptor(location=None, inputFormat=input_format, outputFormat=output_format, serdeInfo=serde)


@dataclass(frozen=True, slots=True)
class Bench:
    """A dispatcher over a cache of the tables."""

    local: Local
    tables: Tables

    def change(self, rng: random.Random) -> None:
        """Partitions come and go, and the cache follows."""
        self.tables.change(rng)
        self.local.followed.confirmed()


@contextmanager
def bench(metastore: Metastore, database: str, directory: Path) -> Iterator[Bench]:
    """The tables in this database, and a follower of them."""
    assert metastore.database is not None
    with Transactions(*metastore.address) as client:
        tables = Tables(client, database)
        tables.create()
        settings = {"store_url": metastore.database.reader_url, "include": [f"{database}.*"]}
        with Followed(directory, upstream=metastore.uri, **settings) as followed:
            followed.loaded()
            address = "{}:{}".format(*metastore.address)
            with closing(Local.connect(followed, address, WorkerMetrics())) as local:
                yield Bench(local, tables)
        tables.drop()


# -- comparison ------------------------------------------------------------------------------------------------------


@dataclass
class Compared:
    """`refused`: the planner made no condition of keys. `by` table, who answered: hits that were compared, misses."""

    refused: int = 0
    whole: int = 0
    changes: int = 0
    by: dict[str, Counter[str]] = field(default_factory=lambda: {name: Counter() for name in EVERY})
    different: list[str] = field(default_factory=list)
    misses: Counter[str] = field(default_factory=Counter)

    def counts(self) -> dict[str, Counter[str]]:
        """By table; those of ODD together."""
        odd = sum((self.by[name] for name in ODD), Counter[str]())
        return {**{name: self.by[name] for name in EVERY if name not in ODD}, "odd": odd}

    def share(self) -> float:
        """Of hits, where every form is one that is answered."""
        counts = sum((self.by[name] for name in ANSWERED), Counter[str]())
        return counts["hit"] / max(1, counts.total())

    def figures(self) -> dict[str, Any]:
        """For docs/figures/. `compared`: answers from the cache, of names and of partitions."""
        counts = self.counts()
        answered = sum((counts[name] for name in ANSWERED), Counter[str]())
        return {
            "changes": self.changes,
            "answered_forms": [answered["hit"], answered.total()],
            "others": [sum(counts[name][how] for name in counts if name not in ANSWERED) for how in ("hit", "miss")],
            "compared": sum(each["hit"] for each in counts.values()) + self.whole,
            "whole": self.whole,
            "different": len(self.different),
            "refused": self.refused,
        }

    def add(self, other: Compared) -> None:
        """What was found after this."""
        self.refused, self.whole = self.refused + other.refused, self.whole + other.whole
        self.changes += other.changes
        for name, counts in other.by.items():
            self.by[name] += counts
        self.different += other.different
        self.misses += other.misses


def compare(planner: Planner, bench: Bench, rng: random.Random, count: int) -> Compared:
    """So many conditions; also their differences from the metastore's own answers."""
    found = Compared()
    _open_both_ways(planner, bench)
    for at in range(count):
        if at % CHANGE_EVERY == CHANGE_EVERY - 1:
            bench.change(rng)
            found.changes += 1
        name = some_table(rng)
        text = condition(rng, EVERY[name])
        data = planner.planned(EVERY[name], text)
        if data is None:
            found.refused += 1
            continue
        request = bench.tables.asked_for(name, data)
        for method in (NAMES, rng.choice(WHOLE)) if at % WHOLE_EVERY == 0 else (NAMES,):
            local = bench.local.another()  # the floor that a miss sets is its connection's
            asked = local.ask(method, req=request)
            hit = asked.by in ("hit", "hot")
            if method == NAMES:
                found.by[name]["hit" if hit else "miss"] += 1
            if not hit:
                found.misses[f"{name} {asked.reason}: {text}"] += name in ANSWERED
                continue
            found.whole += method != NAMES
            own = bench.local.oracle.read(method, req=request)
            if (asked.reply.type, asked.reply.plain) != (own.type, own.plain):
                found.different.append(f"{method} of {name}: {text}")
    return found


def _open_both_ways(planner: Planner, bench: Bench) -> None:
    """The first expression that a metastore evaluates in each way is relayed."""
    for text in ("ds IS NULL", "NOT (ds IS NULL)"):
        data = planner.planned(EVERY["texts"], text)
        assert data is not None
        bench.local.another().ask(NAMES, req=bench.tables.asked_for("texts", data))


def main() -> int:
    """Exit code 1 on any difference, or if too few are hits."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--count", type=int, default=MANY)
    arguments.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    arguments.add_argument(
        "--planner", choices=[*JARS], default="4.0.1", help="Hive whose classes write the conditions"
    )
    arguments.add_argument(
        "--figures", action="store_true", help="keep the figures in docs/figures/conditions/SEED.json"
    )
    given = arguments.parse_args()
    print(f"seed {given.seed}, planner {given.planner}", flush=True)
    of = figures.origin("hms_cache_proxy", "tests/differential")
    found, started_s = Compared(), time.monotonic()
    with tempfile.TemporaryDirectory() as scratch, closing(Bed()) as bed:
        directory = Path(scratch)
        metastore = bed.shared("hive42")
        database = f"conditions_{os.getpid()}"
        with (
            Planner(directory / "planner", given.planner) as planner,
            bench(metastore, database, directory / "data") as over,
        ):
            for begin in range(0, given.count, CHUNK):
                count, began_s = min(CHUNK, given.count - begin), time.monotonic()
                piece = compare(planner, over, random.Random(f"{given.seed} {begin}"), count)
                for line in (*piece.different, *[text for text, times in piece.misses.items() if times][:5]):
                    print(line)
                found.add(piece)
                print(f"{begin + count} conditions, {found.changes} changes, {len(found.different)} differ", end=", ")
                print(f"{found.share():.1%} hits, refused {found.refused}, whole {found.whole}", end=" ")
                print({name: dict(counts) for name, counts in found.counts().items()}, end=" ")
                print(f"{time.monotonic() - began_s:.0f} s", flush=True)
    if given.figures:
        more = {"seed": given.seed, "planner": given.planner, "conditions": given.count}
        kept = {**more, **found.figures(), "seconds": round(time.monotonic() - started_s, 1)}
        command = f"python -m tests.differential.conditions --seed {given.seed} --count {given.count} --figures"
        figures.write(f"conditions/{given.seed}", kept, command=command, of=of)
    return int(bool(found.different) or found.share() < SHARE_OF_HITS)


if __name__ == "__main__":
    sys.exit(main())
