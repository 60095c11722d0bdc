"""Statistics added up, without a metastore; what one answers is asked by tests/methods/test_aggregates.py."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from decimal import Decimal
from struct import pack
from typing import Any

import pytest

from hms_cache_proxy.cache.statistics import Gathered
from hms_cache_proxy.methods.readers import statistics_data
from hms_cache_proxy.methods.readers.aggregation import Total
from hms_cache_proxy.methods.readers.extremes import Unsettled
from hms_cache_proxy.store.protocol import StatisticsHead
from hms_cache_proxy.wire import spec
from tests.chance import chance
from tests.methods.structs import struct

LONG, DOUBLE, STRING, DECIMAL, DATE = 2, 3, 4, 6, 7
COUNTS = {"nulls": 1, "distinct": 5}


def head(number: int, kind: bytes = b"any") -> StatisticsHead:
    return StatisticsHead(
        b"hive", b"c", b"\x0b\0\1\0\0\0\1c\x0b\0\2" + pack(">i", len(kind)) + kind + b"\x0c\0\3\x0c\0" + bytes([number])
    )


def total(number: int, rows: Sequence[dict[str, Any]], named: int | None = None, **options: bool) -> spec.Struct:
    """The one column of what these partitions come to; its data by Hive's names."""
    named = len(rows) if named is None else named
    found = Total(**{"decimals": True, "complete_fails": False} | options)
    found.add({head(number): (range(len(rows)), [statistics_data.write(number, row) for row in rows])})  # type: ignore[dict-item]
    result, _ = spec.decode(spec.struct("AggrStats"), found.result(named, named, len(rows)), 0)
    assert result.partsFound == len(rows)
    (union,) = (value for value in vars(result.colStats[0].statsData).values() if value is not None)
    assert isinstance(union, spec.Struct)
    return union


def test_minima_maxima_and_sums() -> None:
    rows = [{"low": 3, "high": 90, "nulls": 1, "distinct": 50}, {"low": -7, "high": 8, "nulls": 2, "distinct": 4}]
    found = total(LONG, rows)
    assert (found.lowValue, found.highValue, found.numNulls, found.numDVs) == (-7, 90, 3, 50)


def test_an_integer_column_has_no_more_values_than_its_range() -> None:
    assert total(LONG, [{"low": 1, "high": 3, "nulls": 0, "distinct": 50}]).numDVs == 3
    assert total(DOUBLE, [{"low": 1.0, "high": 3.0, "nulls": 0, "distinct": 50}]).numDVs == 50


def test_distinct_values_go_through_a_double() -> None:
    row: dict[str, object] = {"low": None, "high": None, "nulls": 0, "distinct": (1 << 62) + 1}
    assert total(LONG, [row]).numDVs == 1 << 62
    lengths = {"longest": 1, "average": 1.0, "nulls": 0, "distinct": (1 << 62) + 1}
    assert total(STRING, [lengths]).numDVs == (1 << 62) + 1


def test_a_line_through_the_smallest_and_the_largest() -> None:
    rows = [{"low": 10 * at, "high": 10 * at + 5, **COUNTS} for at in range(3)]
    found = total(LONG, rows, named=5)  # at 0, 1, 2 of 0 to 4
    assert (found.lowValue, found.highValue, found.numNulls) == (0, 45, 5)


def test_a_line_downwards() -> None:
    rows = [{"low": 20 - 10 * at, "high": 25 - 10 * at, **COUNTS} for at in range(3)]
    found = total(LONG, rows, named=4)
    assert (found.lowValue, found.highValue) == (-10, 25)


@pytest.mark.parametrize(
    ("number", "rows", "named"),
    [
        pytest.param(LONG, [{"low": 1, "high": 2, "nulls": 0, "distinct": 0}], 1, id="nothing distinct"),
        pytest.param(LONG, [{"low": -(1 << 63), "high": 0, **COUNTS}], 1, id="range"),
        pytest.param(DOUBLE, [{"low": 0.0, "high": 1e200, **COUNTS}], 1, id="large"),
        pytest.param(DOUBLE, [{"low": 0.0, "high": 1e-300, **COUNTS}], 1, id="tiny"),
        pytest.param(DOUBLE, [{"low": float("nan"), "high": 1.0, **COUNTS}], 1, id="no number"),
        pytest.param(
            DOUBLE, [{"low": 0.0, "high": 1.0, **COUNTS}, {"low": -0.0, "high": 1.0, **COUNTS}], 2, id="zeros"
        ),
        pytest.param(
            DECIMAL,
            [
                {"low": Decimal("1.0"), "high": Decimal(2), **COUNTS},
                {"low": Decimal("1.00"), "high": Decimal(2), **COUNTS},
            ],
            2,
            id="scales",
        ),
        pytest.param(DECIMAL, [{"low": Decimal(at), "high": Decimal(9), **COUNTS} for at in (1, 2)], 3, id="text"),
    ],
)
def test_what_the_metastore_must_say(number: int, rows: list[dict[str, object]], named: int) -> None:
    with pytest.raises(Unsettled):
        total(number, rows, named)


def test_a_tie_on_a_line() -> None:
    rows = [{"low": low, "high": 9, **COUNTS} for low in (1, 1, 5)]
    with pytest.raises(Unsettled):
        total(LONG, rows, named=4)
    assert total(LONG, rows).lowValue == 1


def test_what_is_complete_beside_what_is_not() -> None:
    rows: list[dict[str, object]] = [{"low": 1, "high": 2, **COUNTS}]
    assert total(LONG, rows, named=2).lowValue == 1
    with pytest.raises(Unsettled):
        total(LONG, rows, named=2, complete_fails=True)


def test_decimals_where_the_database_rounds_them() -> None:
    with pytest.raises(Unsettled):
        total(DECIMAL, [{"low": Decimal(1), "high": Decimal(2), **COUNTS}], decimals=False)


def test_a_changed_type() -> None:
    found = Total(decimals=True, complete_fails=False)
    data = [statistics_data.write(LONG, {"low": 1, "high": 2, **COUNTS})]
    with pytest.raises(Unsettled):
        found.add({head(LONG, b"int"): ([0], data), head(LONG, b"bigint"): ([1], data)})


def _row(rng: random.Random, number: int) -> dict[str, object]:
    make: dict[int, Callable[[], object]] = {
        LONG: lambda: rng.randint(-5, 5),
        DATE: lambda: rng.randint(-9, 9),
        DOUBLE: lambda: float(rng.randint(-5, 5)) or 1.0,
        DECIMAL: lambda: Decimal(rng.randint(-50, 50)).scaleb(-1),
    }
    ends = {end: make[number]() if rng.random() < 0.9 else None for end in ("low", "high")}
    return {**ends, "nulls": rng.randint(0, 9), "distinct": rng.randint(1, 9)}


@pytest.mark.parametrize("number", [LONG, DOUBLE, DECIMAL, DATE])
def test_some_at_a_time_or_all_at_once(number: int) -> None:
    rng = chance("aggregation", number)
    for _ in range(150):
        rows = [statistics_data.write(number, _row(rng, number)) for _ in range(rng.randint(2, 12))]
        named = len(rows) + rng.choice((0, 0, 2))
        outcomes = set()
        for size in (1, 2, 5, len(rows)):
            found = Total(decimals=True, complete_fails=False)
            try:
                for begin in range(0, len(rows), size):
                    some = rows[begin : begin + size]
                    gathered: Gathered = {head(number): (list(range(begin, begin + len(some))), some)}
                    found.add(gathered)
                outcomes.add(found.result(named, named, len(rows)))
            except Unsettled:
                outcomes.add(b"unsettled")
        assert len(outcomes) == 1


@pytest.mark.parametrize(
    ("number", "hive", "values"),
    [
        (
            LONG,
            struct("LongColumnStatsData", lowValue=-1, highValue=5, numNulls=0, numDVs=3),
            {"low": -1, "high": 5, "nulls": 0, "distinct": 3},
        ),
        (
            STRING,
            struct("StringColumnStatsData", maxColLen=9, avgColLen=1.5, numNulls=0, numDVs=3),
            {"longest": 9, "average": 1.5, "nulls": 0, "distinct": 3},
        ),
        (
            DECIMAL,
            struct(
                "DecimalColumnStatsData",
                lowValue=struct("Decimal", unscaled=b"\xff\x38", scale=2),
                highValue=struct("Decimal", unscaled=b"\x05", scale=0),
                numNulls=0,
                numDVs=3,
            ),
            {"low": Decimal("-2.00"), "high": Decimal(5), "nulls": 0, "distinct": 3},
        ),
        (
            DATE,
            struct("DateColumnStatsData", highValue=struct("Date", daysSinceEpoch=9), numNulls=0, numDVs=3),
            {"low": None, "high": 9, "nulls": 0, "distinct": 3},
        ),
    ],
)
def test_numbers_and_their_bytes(number: int, hive: spec.Struct, values: dict[str, object]) -> None:
    data = spec.encode(hive) + b"\0\0"
    assert statistics_data.write(number, values) == data
    found = statistics_data.read(number, [data, data])
    assert found is not None
    assert {name: list(some) for name, some in found.items()} == {name: [value] * 2 for name, value in values.items()}
    for wrong in (data[:-1], data + b"\0", data[:-3] + b"\x0b\0\5\0\0\0\0\0\0\0", b""):
        assert statistics_data.read(number, [data, wrong]) is None
