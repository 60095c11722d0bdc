"""Aggregates out of columns held in memory: the same as out of rows, whatever was asked before."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from struct import pack
from typing import Any

import pytest

from hms_cache_proxy.cache.changes import Changes, PartitionChange
from hms_cache_proxy.cache.reader import CacheReader
from hms_cache_proxy.cache.state import StatePage
from hms_cache_proxy.cache.writer import CacheWriter
from hms_cache_proxy.methods.proof import Proof
from hms_cache_proxy.methods.readers import aggregates, column_arrays, statistics_data
from hms_cache_proxy.methods.readers.base import Context, Decline, Unfinished
from hms_cache_proxy.methods.readers.column_arrays import Memory
from hms_cache_proxy.store.protocol import ColumnStatistics, StatisticsHead
from hms_cache_proxy.wire import spec
from tests.cache.conftest import Shelf
from tests.cache.records import IDENTITY, TABLE, TABLE_ID, Part, table
from tests.chance import chance
from tests.methods.test_filter_spans import finished

NAMES = [b"dt=%03d" % number for number in range(120)]
ANALYZED = [name for number, name in enumerate(NAMES) if number % 10 != 3]
ENGINES = (b"hive", b"impala")
KINDS = {b"bo": 1, b"lo": 2, b"do": 3, b"st": 4, b"bi": 5, b"de": 6, b"da": 7, b"ti": 8}
EVERYWHERE = (b"lo", b"do", b"st", b"da")
"""Columns that all partitions with statistics have, with all their fields; of the others some are missing."""


def column(rng: random.Random, name: bytes, engine: bytes, *, whole: bool = True) -> ColumnStatistics:
    values: dict[str, Any] = {}
    for field, form in statistics_data.KINDS[KINDS[name]].fields:
        number = rng.randint(1, 1000)
        values[field] = {"f64": number / 7, "decimal": Decimal(number).scaleb(-2)}.get(form, number)
    if "low" in values and values["low"] > values["high"]:
        values["low"], values["high"] = values["high"], values["low"]
    if not whole or ("low" in values and name not in EVERYWHERE and rng.random() < 0.02):
        values["low"] = None
    number = KINDS[name]
    prefix = b"\x0b\0\1" + pack(">i", 2) + name + b"\x0b\0\2\0\0\0\1x\x0c\0\3\x0c\0" + bytes((number,))
    return ColumnStatistics(StatisticsHead(engine, name, prefix), 1, statistics_data.write(number, values))


def record(rng: random.Random, name: bytes, analyzed: bool, odd: bytes = b"") -> Any:
    statistics = [
        column(rng, each, engine)
        for engine in ENGINES
        for each in KINDS
        if each in EVERYWHERE or rng.random() < (1 if engine == b"hive" and each == b"de" else 0.97)
    ]
    if name == NAMES[0]:
        statistics = [each for each in statistics if each.head.column != odd or each.head.engine != b"hive"]
        if odd == b"ti":
            statistics.append(column(rng, odd, b"hive", whole=False))
    part = Part(name, (name[3:],), width=1).record()
    return part._replace(statistics=tuple(statistics if analyzed else ()))


@contextmanager
def shelf_of(rng: random.Random, odd: bytes = b"") -> Iterator[Shelf]:
    """`odd`: a column of which the first partition has no statistics, or lacks a field of them."""
    keys = ((b"dt", b"string"),)
    with tempfile.TemporaryDirectory() as root, StatePage(Path(root) / "state", create=True) as page:
        writer = CacheWriter.open(Path(root) / "cache", page, IDENTITY)
        shelf = Shelf(Path(root), page, writer, CacheReader(Path(root) / "cache", page))
        shelf.fill([])
        records = [record(rng, name, name in ANALYZED, odd) for name in NAMES]
        shelf.writer.commit(
            Changes(
                cursor=11,
                tables={TABLE: replace(table(), partition_keys=keys, statistics=())},
                partitions=[PartitionChange(TABLE_ID, records, replace_all=True)],
            )
        )
        yield shelf
        shelf.reader.close()
        shelf.writer.close()


def asked(shelf: Shelf, memory: Memory | None, names: Sequence[bytes], columns: Sequence[bytes], engine: bytes) -> Any:
    """The result, decoded; None where the metastore would be asked."""
    method = "get_aggr_stats_for"
    request = spec.struct("PartitionsStatsRequest")(
        dbName=b"sales", tblName=b"orders", partNames=list(names), colNames=list(columns), engine=engine
    )
    with shelf.reader.snapshot() as snapshot:
        proof = Proof("passthrough", exact=False)
        context = Context(snapshot, method, by_name=True, proof=proof, statistics=memory)
        try:
            found = aggregates.get_aggr_stats_for(context, spec.args(method)(request=request))
        except Decline:
            return None
    try:
        body = finished(found.work) if isinstance(found, Unfinished) else found
    except Decline:
        return None
    assert isinstance(body, bytes)
    return body


@pytest.fixture
def from_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """However little is asked for; slices and runs are small."""
    monkeypatch.setattr(aggregates, "FEW", -1)
    monkeypatch.setattr(aggregates, "RUN", 7)
    monkeypatch.setattr(column_arrays, "SLICE", 100)


@pytest.mark.parametrize("seed", range(6))
def test_the_same_as_out_of_rows(from_memory: None, seed: int) -> None:
    rng = chance(seed)
    memory = Memory(1 << 20)
    answered = held = 0
    with shelf_of(rng) as shelf:
        for _ in range(150):
            names = rng.sample(NAMES, rng.choice((1, 2, 30, len(NAMES))))
            if rng.random() < 0.1:
                names += rng.choice(([names[0]], [b"dt=none"]))
            columns = rng.sample(list(KINDS) if rng.random() < 0.3 else EVERYWHERE, rng.randint(1, len(EVERYWHERE)))
            if rng.random() < 0.05:
                columns.append(rng.choice((columns[0], b"nope")))
            engine = rng.choice(ENGINES)
            expected = asked(shelf, None, names, columns, engine)
            found = asked(shelf, memory, names, columns, engine)
            if found is not None or expected is None:
                assert found == expected, (names, columns, engine)
                answered += found is not None
        held = sum(column is not None for rows in memory._tables.values() for column in rows.columns.values())
    assert answered > 75 and held >= len(EVERYWHERE), (answered, held)


@pytest.mark.parametrize("first", [b"bo", b"ti"])
def test_a_column_that_cannot_be_held_leaves_the_others(from_memory: None, first: bytes) -> None:
    """Though it was the first that was asked for: a partition has no statistics of it, or they lack a field."""
    memory = Memory(1 << 20)
    with shelf_of(chance(first), odd=first) as shelf:
        for columns in ([first], [first], [first], *([[name] for name in EVERYWHERE] * 2)):
            for names in (NAMES[:40], NAMES):
                found, expected = (asked(shelf, held, names, columns, b"hive") for held in (memory, None))
                assert found is None or found == expected
        (rows,) = memory._tables.values()
        assert {name for name, column in rows.columns.items() if column is not None} == {*EVERYWHERE}
        assert rows.count == len(ANALYZED)


def test_a_change_of_the_table_is_seen(from_memory: None) -> None:
    rng = chance(1)
    memory = Memory(1 << 20)
    with shelf_of(rng) as shelf:
        for _ in range(3):
            before = asked(shelf, memory, ANALYZED[:20], [b"lo"], b"hive")
        shelf.writer.commit(
            Changes(cursor=12, partitions=[PartitionChange(TABLE_ID, [record(chance(99), ANALYZED[5], True)])])
        )
        for _ in range(3):
            after = asked(shelf, memory, ANALYZED[:20], [b"lo"], b"hive")
            assert after == asked(shelf, None, ANALYZED[:20], [b"lo"], b"hive") != before


def test_what_is_held_is_bounded(from_memory: None) -> None:
    memory = Memory(30_000)
    with shelf_of(chance(2)) as shelf:
        for _ in range(3):
            assert asked(shelf, memory, ANALYZED, [b"lo", b"do"], b"hive") is not None
            assert asked(shelf, memory, ANALYZED, [b"lo", b"do"], b"impala") is not None
        sizes = [rows.size_bytes for rows in memory._tables.values()]
        assert 0 < sum(sizes) <= 30_000 and len(sizes) == 1


def test_a_client_that_leaves_while_columns_are_read(from_memory: None) -> None:
    memory = Memory(1 << 20)
    method = "get_aggr_stats_for"
    request = spec.struct("PartitionsStatsRequest")(
        dbName=b"sales", tblName=b"orders", partNames=ANALYZED, colNames=[b"lo"], engine=b"hive"
    )
    with shelf_of(chance(3)) as shelf:
        expected = asked(shelf, memory, ANALYZED, [b"lo"], b"hive")
        with shelf.reader.snapshot() as snapshot:
            proof = Proof("passthrough", exact=False)
            context = Context(snapshot, method, by_name=True, proof=proof, statistics=memory)
            found = aggregates.get_aggr_stats_for(context, spec.args(method)(request=request))
        assert isinstance(found, Unfinished)
        assert asked(shelf, memory, ANALYZED, [b"lo"], b"hive") == expected is not None, "beside it, out of rows"
        found.work.close()
        assert not memory._tables
        for _ in range(3):
            assert asked(shelf, memory, ANALYZED, [b"lo"], b"hive") == expected
        assert len(memory._tables) == 1
