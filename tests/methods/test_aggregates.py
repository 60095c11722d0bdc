"""Aggregates of random statistics, from the cache and from a metastore: equal, or asked of the metastore."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hms_cache_proxy.methods.decision import ClientCall, Forward, Work
from hms_cache_proxy.methods.readers import aggregates, portions
from hms_cache_proxy.methods.readers.column_arrays import ROW, SLICE
from hms_cache_proxy.metrics import WorkerMetrics
from hms_cache_proxy.wire import spec
from hms_cache_proxy.wire.message import Header, parse_header
from tests.chance import chance
from tests.follower.harness import Followed
from tests.methods.analyzed import TYPES, Analyzed, column, decimal, every_type
from tests.methods.filled import Filled
from tests.methods.local import Local
from tests.methods.oracle import Oracle, plain, request
from tests.methods.structs import struct
from tests.methods.world import World

pytestmark = pytest.mark.real

PARTITIONS = 16
NAMES = [b"dt=%d/h=x" % number for number in range(PARTITIONS)]
COLUMNS = [name for name in TYPES if name not in (b"ar", b"mixed")]
INTEGERS = (b"i", b"big", b"small", b"tiny")
QUESTIONS = 400
TABLE = b"random"
ENGINES = (b"hive", b"impala")
EXACT = tuple(name for name in COLUMNS if name not in (b"big", b"vc"))
"""Columns whose statistics by `every_type` a metastore adds up."""


class Statistics:
    """Random ones, with what is rare in them often enough to matter: ties, gaps, extremes, nothing at all."""

    def __init__(self, seed: int) -> None:
        self.rng = chance("statistics", seed)

    def column(self, name: bytes) -> Any:
        """Of one column of one partition."""
        if name in (b"s", b"vc", b"ch", b"bi"):
            kind = "binary" if name == b"bi" else "string"
            counts = {} if name == b"bi" else {"numDVs": self.count()}
            lengths = {"maxColLen": self.count(), "avgColLen": abs(self.double())}
            return column(name, kind, **lengths, numNulls=self.count(), **counts)
        if name == b"bo":
            trues, falses, nulls = (self.count() for _ in range(3))
            return column(name, "boolean", numTrues=trues, numFalses=falses, numNulls=nulls)
        counts = {"numNulls": self.count(), "numDVs": self.distinct()}
        if name in INTEGERS:
            return column(name, "long", **self.bounds(self.integer), **counts)
        if name in (b"d", b"fl"):
            return column(name, "double", **self.bounds(self.double), **counts)
        if name == b"dec":
            return column(name, "decimal", **{end: self.decimal() for end in self.bounds(self.double)}, **counts)
        kind, field = ("Date", "daysSinceEpoch") if name == b"da" else ("Timestamp", "secondsSinceEpoch")
        bounds = {end: struct(kind, **{field: value}) for end, value in self.bounds(self.integer).items()}
        return column(name, kind.lower(), **bounds, **counts)

    def bounds(self, make: Callable[[], Any]) -> dict[str, Any]:
        """Either may be missing, and rarely they are the wrong way round."""
        low, high = sorted((make(), make()), reverse=self.rng.random() < 0.1)
        ends = {"lowValue": low, "highValue": high}
        return {end: value for end, value in ends.items() if self.rng.random() < 0.95}

    def integer(self) -> int:
        """Few different ones, many, or large ones."""
        large = (1 << 63) - 1 if self.rng.random() < 0.05 else 1 << 61
        return self.rng.choice(
            (self.rng.randint(-3, 3), self.rng.randint(-(10**6), 10**6), self.rng.randint(-large, large))
        )

    def double(self) -> float:
        """The same, and zeros of both signs."""
        rng = self.rng
        wide = rng.gauss(0, 1) * 10.0 ** rng.randint(-30, 40)
        return rng.choice(
            (float(rng.randint(-3, 3)), rng.uniform(-1e3, 1e3), wide, -0.0 if rng.random() < 0.2 else 2.5)
        )

    def decimal(self) -> Any:
        """Of any scale; equal ones of several scales."""
        rng = self.rng
        wide = decimal(rng.randint(-(10**30), 10**30), rng.randint(-6, 20))
        zeros = rng.randint(0, 2)
        return rng.choice(
            (decimal(rng.randint(-(10**4), 10**4), 2), wide, decimal(rng.randint(-3, 3) * 10**zeros, zeros))
        )

    def count(self) -> int:
        """Of rows."""
        return self.rng.choice((self.rng.randint(0, 9), self.rng.randint(0, 10**9), self.rng.randint(0, 1 << 62)))

    def distinct(self) -> int:
        """Of values; 0 makes the metastore's database divide by it."""
        return 0 if self.rng.random() < 0.01 else 1 + self.count()

    def question(self) -> dict[str, Any]:
        """Names in any order, some repeated or unknown; columns likewise."""
        rng = self.rng
        names = rng.sample(NAMES, rng.choice((1, 2, 3, rng.randint(1, PARTITIONS))))
        if rng.random() < 0.5:
            names.sort()
        if rng.random() < 0.05:
            names.insert(rng.randint(0, len(names)), rng.choice((*names, b"dt=none/h=x")))
        columns = rng.sample(COLUMNS, rng.choice((1, 1, 2, rng.randint(1, len(COLUMNS)))))
        if rng.random() < 0.05:
            columns.append(rng.choice((*columns, b"nope")))
        return {"partNames": names, "colNames": columns, "engine": rng.choice(ENGINES)}


def fill(world: World, some: Statistics, name: str) -> bytes:
    """A table with statistics by two engines; the full name of its database."""
    database = f"{world.prefix}{name}".encode()
    with Oracle(world.address) as hms:
        hms.do("create_database", database=struct("Database", name=database, locationUri=b"file:/tmp/" + database))
        analyzed = Analyzed(hms, database)
        analyzed.table(TABLE, keyed=True)
        analyzed.partitions(TABLE, [[b"%d" % number, b"x"] for number in range(PARTITIONS)])
        for engine, chance in ((b"hive", 1.0), (b"impala", 0.85)):
            for number, partition in enumerate(NAMES):
                present = [each for each in COLUMNS if some.rng.random() < chance or number == 0]
                analyzed.update(TABLE, [some.column(each) for each in present], partition=partition, engine=engine)
    return database


def followed_of(local: Local) -> Followed:
    assert isinstance(local.followed, Followed)
    return local.followed


def by_column(value: Any) -> Any:
    found = plain(value)
    aggregate = found[1].get("success")
    if aggregate is not None:
        aggregate[1]["colStats"].sort(key=repr)
    return found


def same(world: World, local: Local, some: Statistics, database: bytes) -> tuple[Counter[str], int]:
    """Asks both; how often an answer came from the cache, or why not, and how many columns were held at most."""
    reasons: Counter[str] = Counter()
    most_held = 0
    with Oracle(world.address) as hms:
        for _ in range(QUESTIONS):
            question = struct("PartitionsStatsRequest", dbName=database, tblName=TABLE, **some.question())
            own = hms.ask("get_aggr_stats_for", request=question)
            local.session.floors = None
            asked = local.ask("get_aggr_stats_for", request=question)
            assert repr(by_column(asked.reply.value)) == repr(by_column(own.value)), question
            reasons[asked.reason if asked.by == "miss" else "hit"] += 1
            most_held = max(most_held, held(local, database))
    return reasons, most_held


@pytest.fixture(scope="module")
def sliced(world42: World, local42: Local) -> spec.Struct:
    """A request that takes several turns of the loop, of a table that is in the cache."""
    database = f"{world42.prefix}stat".encode()
    names = [b"dt=%d/h=x" % number for number in range(3 * SLICE // (len(EXACT) + ROW))]
    with Oracle(world42.address) as hms:
        analyzed = Analyzed(hms, database)
        analyzed.table(b"sliced", keyed=True)
        analyzed.partitions(b"sliced", [[b"%d" % number, b"x"] for number in range(len(names))])
        statistics = [
            struct(
                "ColumnStatistics",
                statsDesc=struct("ColumnStatisticsDesc", dbName=database, tableName=b"sliced", partName=name),
                statsObj=[each for each in every_type(seed) if each.colName in EXACT],
                engine=b"hive",
            )
            for seed, name in enumerate(names)
        ]
        for each in statistics:
            each.statsDesc.isTblLevel = False
        hms.do("set_aggr_stats_for", request=struct("SetPartitionsStatsRequest", colStats=statistics, engine=b"hive"))
    followed_of(local42).loaded()
    return struct("PartitionsStatsRequest", dbName=database, tblName=b"sliced", colNames=list(EXACT), partNames=names)


def test_several_turns_of_the_loop(
    world42: World, local42: Local, sliced: spec.Struct, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(portions, "TURN_NS", 0)
    with Oracle(world42.address) as hms:
        own = hms.ask("get_aggr_stats_for", request=sliced)
    local42.session.floors = None
    asked = local42.ask("get_aggr_stats_for", request=sliced)
    assert (asked.by, repr(by_column(asked.reply.value))) == ("hit", repr(by_column(own.value)))
    assert own.value.success.partsFound == len(sliced.partNames)


def test_a_table_that_changes_between_turns(
    world42: World, local42: Local, sliced: spec.Struct, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither what was nor what is, but a bit of both, would be the answer."""
    monkeypatch.setattr(portions, "TURN_NS", 0)
    sliced.colNames = sliced.colNames[::-1]  # not the question that was answered above
    message = request("get_aggr_stats_for", {"request": sliced}, 1)
    header = parse_header(message)
    assert isinstance(header, Header)
    local42.session.floors = None
    work = local42.dispatcher.decide(ClientCall.of(local42.session, header, message, time.monotonic_ns()))
    assert isinstance(work, Work)
    assert work.step() is None
    with Oracle(world42.address) as hms:
        changed = [column(b"i", "long", lowValue=-9, highValue=9, numNulls=0, numDVs=1)]
        Analyzed(hms, sliced.dbName).update(b"sliced", changed, partition=sliced.partNames[-1])
    followed_of(local42).loaded()
    decision = work.step()
    assert isinstance(decision, Forward)
    assert decision.reason == "statistics"


@pytest.fixture(params=["rows", "held"])
def source(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What answers are made from; large tables' columns are held, here those of any."""
    if request.param == "held":
        monkeypatch.setattr(aggregates, "FEW", -1)
        monkeypatch.setattr(aggregates, "RUN", 3)
    source: str = request.param
    return source


def held(local: Local, database: bytes) -> int:
    """Columns of the database's tables in the dispatcher's memory."""
    tables = [rows for place, rows in local.dispatcher._statistics._tables.items() if place[1] == database]
    return sum(column is not None for rows in tables for column in rows.columns.values())


def test_as_hive_4_2(world42: World, local42: Local, source: str) -> None:
    """4.2 refuses much of what is incomplete."""
    some = Statistics(1)
    database = fill(world42, some, source)
    followed_of(local42).loaded()
    reasons, most_held = same(world42, local42, some, database)
    assert set(reasons) <= {"hit", "statistics"}
    assert reasons["hit"] > QUESTIONS / 3, reasons
    assert most_held >= 3 if source == "held" else most_held == 0


def test_as_hive_4_0(world40: World, tmp_path: Path, source: str) -> None:
    """4.0 answers what is incomplete, too."""
    some = Statistics(2)
    database = fill(world40, some, source)
    with Filled(tmp_path / "data", world40.store_url, world40.prefix.encode()) as filled:
        with closing(Local.connect(filled, world40.address, WorkerMetrics())) as local:
            reasons, most_held = same(world40, local, some, database)
            assert most_held >= 3 if source == "held" else most_held == 0
    assert set(reasons) <= {"hit", "statistics", "arguments"}
    assert reasons["hit"] > QUESTIONS / 3, reasons
