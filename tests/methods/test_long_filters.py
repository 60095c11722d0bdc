"""Filters with long literals, or hundreds of comparisons: a turn of the loop stays short, and the answer the same."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hms_cache_proxy.filters.tree import Node
from hms_cache_proxy.methods.proof import Proof
from hms_cache_proxy.methods.readers import filter_spans, filter_walk, filters
from hms_cache_proxy.methods.readers.base import Context, Unfinished
from hms_cache_proxy.methods.readers.filter_declined import tree_of
from hms_cache_proxy.methods.readers.filter_numbers import NumberBounds, first_number
from hms_cache_proxy.wire import spec
from tests.methods.test_filter_spans import METHOD, Keys, Rows, answered, shelf_of

NUMBERS: Keys = ((b"n", b"int"), (b"s", b"string"))
ROWS: Rows = [(b"%d" % n, b"s%d" % (n % 3)) for n in range(-100, 200)]
TEXTS: Keys = ((b"s", b"string"), (b"n", b"int"))
LONG = 300


def tree(text: str) -> Node:
    found = tree_of(text.encode())
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("text", "most"),
    [
        (" or ".join(f"n > {150 + number % 40}" for number in range(200)), 1),
        (" or ".join(f"n between {4 * number} and {4 * number + 1}" for number in range(40)), 8),
        (" or ".join(f"n < {-number}" for number in range(100)), 1),
        ("n < -50 or n > 7 and n < 9 or n > 8", 2),
    ],
)
def test_few_intervals_are_looked_through_for_each_name(text: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers: list[int] = []

    def counted(value: bytes, intervals: list[NumberBounds]) -> bytes | None:
        numbers.append(len(intervals))
        return first_number(value, intervals)

    monkeypatch.setattr(filter_spans, "first_number", counted)
    monkeypatch.setattr(filters, "SMALL", 0)
    with shelf_of(NUMBERS, ROWS) as shelf:
        found = answered(shelf, text)
        assert found is not None and numbers and max(numbers) <= most
        monkeypatch.setattr(filters, "SMALL", len(ROWS))
        assert answered(shelf, text) == found


BOUNDS = st.none() | st.integers(-130, 1300)
DECIMALS = sorted(b"n=%d" % n for n in range(-140, 1310, 11))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(BOUNDS, BOUNDS), max_size=30))
def test_joined_intervals_leave_nothing_out(intervals: list[tuple[int | None, int | None]]) -> None:
    spans = filter_spans.NumberSpans(
        b"n", [(low, high) for low, high in intervals if low is None or high is None or low <= high]
    )
    for name in DECIMALS:
        number = int(name[2:])
        if any((low is None or low <= number) and (high is None or number <= high) for low, high in intervals):
            assert spans.first(name) == name


@pytest.mark.parametrize(("comparisons", "moves"), [(1, 64), (40, 11), (300, 1)])
def test_the_clock_is_read_more_often_for_a_longer_filter(
    comparisons: int, moves: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = " and ".join(f"s != 'x{number}'" for number in range(comparisons))
    looks: list[int] = []
    monkeypatch.setattr(filter_walk, "perf_counter_ns", lambda: looks.append(0) or 0)  # type: ignore[func-returns-value]
    monkeypatch.setattr(filters, "SMALL", 0)
    with shelf_of(NUMBERS, ROWS) as shelf:
        assert answered(shelf, text) is not None
    assert len(looks) >= len(ROWS) // moves


@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize(
    "text", ["s > '{}'", "s >= '{}b' and s < '{}c'", "s <= '{}' or s > '{}x'", "s between '{}' and '{}a'"]
)
def test_of_a_long_literal_the_beginning_counts(text: str, last: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    for beginning in ("a" * LONG, "a" * LONG + "é", "ab" * LONG):
        filled = text.format(*[beginning] * 2)
        spans = filter_spans.between(tree(filled), b"s", last=last)
        assert spans is not None and len(spans) < 4 * filter_spans.LONGEST
    values = [b"a" * size for size in (1, LONG - 1, LONG, LONG + 1)]
    values += [
        value + more for value in values for more in (b"!", b"%", b"a", b"b", b"bb", b"c", b"x", b"/", b"0", b"~")
    ]
    rows: Rows = [(value, b"1") for value in values]
    filled = text.format(*["a" * LONG] * 2)
    keys = TEXTS[:1] if last else TEXTS
    with shelf_of(keys, [row[: len(keys)] for row in rows]) as shelf:
        whole = answered(shelf, filled)
        assert whole is not None
        monkeypatch.setattr(filters, "SMALL", 0)
        assert answered(shelf, filled) == whole


@pytest.mark.parametrize(("comparisons", "turns"), [(50, 1), (51, 3)])
def test_a_long_filter_is_parsed_and_compiled_in_turns_of_their_own(comparisons: int, turns: int) -> None:
    text = " or ".join(f"n = {number}" for number in range(comparisons))
    with shelf_of(NUMBERS, ROWS[:10]) as shelf, shelf.reader.snapshot() as snapshot:
        context = Context(snapshot, METHOD, by_name=True, proof=Proof("passthrough", exact=False))
        args = spec.args(METHOD)(db_name=b"sales", tbl_name=b"orders", filter=text.encode(), max_parts=-1)
        found = filters.get_partitions_by_filter(context, args)
        taken = 1
        while isinstance(found, Unfinished):
            taken += 1
            try:
                next(found.work)
            except StopIteration as done:
                found = done.value
    assert taken == turns and isinstance(found, bytes)
