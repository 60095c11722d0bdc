"""Filters on large tables look at few names and find what a look at all finds; sets know which keys are well typed."""

from __future__ import annotations

import tempfile
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hms_cache_proxy.cache import key_types
from hms_cache_proxy.cache.changes import Changes, PartitionChange
from hms_cache_proxy.cache.entries import TableEntry
from hms_cache_proxy.cache.reader import CacheReader
from hms_cache_proxy.cache.snapshot import CacheSnapshot
from hms_cache_proxy.cache.state import StatePage
from hms_cache_proxy.cache.writer import CacheWriter
from hms_cache_proxy.methods.proof import Proof
from hms_cache_proxy.methods.readers import filter_walk, filters
from hms_cache_proxy.methods.readers.base import Body, Context, Decline, Unfinished
from hms_cache_proxy.methods.readers.key_index import KeyIndexes
from hms_cache_proxy.methods.readers.part_names import DEFAULT_PARTITION, make_name
from hms_cache_proxy.wire import spec
from tests.cache.conftest import Shelf
from tests.cache.records import IDENTITY, TABLE, TABLE_ID, Part, table

Keys = tuple[tuple[bytes, bytes], ...]
Rows = Sequence[tuple[bytes, ...]]
METHOD = "get_partitions_by_filter"


@contextmanager
def shelf_of(keys: Keys, rows: Rows) -> Iterator[Shelf]:
    with tempfile.TemporaryDirectory() as root, StatePage(Path(root) / "state", create=True) as page:
        writer = CacheWriter.open(Path(root) / "cache", page, IDENTITY)
        shelf = Shelf(Path(root), page, writer, CacheReader(Path(root) / "cache", page))
        shelf.fill([])
        shelf.writer.commit(
            Changes(
                cursor=11,
                tables={TABLE: replace(table(), partition_keys=keys)},
                partitions=[PartitionChange(TABLE_ID, records(keys, rows), replace_all=True)],
            )
        )
        yield shelf
        shelf.reader.close()
        shelf.writer.close()


def records(keys: Keys, rows: Rows) -> list[Any]:
    parts = {make_name(keys, [value or DEFAULT_PARTITION for value in row]): row for row in rows}
    return [Part(name, row, width=1).record() for name, row in sorted(parts.items())]


def entry_of(snapshot: CacheSnapshot) -> TableEntry:
    entry = snapshot.table(*TABLE)
    assert isinstance(entry, TableEntry)
    return entry


def answered(shelf: Shelf, text: str, limit: int = -1, indexes: KeyIndexes | None = None) -> bytes | None:
    """The reply; None where the metastore would be asked."""
    with shelf.reader.snapshot() as snapshot:
        proof = Proof("passthrough", exact=False)
        context = Context(snapshot, METHOD, by_name=True, proof=proof, indexes=indexes)
        args = spec.args(METHOD)(db_name=b"sales", tbl_name=b"orders", filter=text.encode(), max_parts=limit)
        try:
            found = filters.get_partitions_by_filter(context, args)
            if isinstance(found, Unfinished):
                found = finished(found.work)
        except Decline:
            return None
    return found if isinstance(found, bytes) else b"".join(found.pieces)


def finished(work: Generator[None, None, Body]) -> Body:
    while True:
        try:
            next(work)
        except StopIteration as done:
            body: Body = done.value
            return body


LETTERS = "ab059-_ :%'=.~ü !$&^{é"
STRINGS = st.one_of(
    st.text(LETTERS, min_size=1, max_size=4).map(str.encode),
    st.just(DEFAULT_PARTITION),
    st.just(b""),
    st.sampled_from([b"2024-01-01", b"2024-01-02", b"2024-01", b"2024-01-01 10:00"]),
)
INTEGERS = st.one_of(st.integers(-30, 30).map(lambda n: b"%d" % n), st.sampled_from([b"07", b"-0", DEFAULT_PARTITION]))
DATES = st.sampled_from([b"2024-01-%02d" % day for day in range(1, 29)] + [DEFAULT_PARTITION])
KINDS = {b"string": STRINGS, b"int": INTEGERS, b"date": DATES}
LITERALS = {
    b"string": st.text(LETTERS.replace("'", ""), min_size=1, max_size=4).map(lambda text: f"'{text}'"),
    b"int": st.integers(-30, 30).map(str),
    b"date": st.integers(1, 28).map(lambda day: f"2024-01-{day:02}"),
}


@st.composite
def tables(draw: st.DrawFn) -> tuple[Keys, Rows, list[str]]:
    kinds = draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=3))
    keys = tuple((b"k%d" % at, kind) for at, kind in enumerate(kinds))
    rows = draw(st.lists(st.tuples(*[KINDS[kind] for kind in kinds]), max_size=40))

    def comparison(at: int) -> st.SearchStrategy[str]:
        literal, key = LITERALS[kinds[at]], f"k{at}"
        operators = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])
        one = st.builds(lambda op, value: f"{key} {op} {value}", operators, literal)
        two = st.builds(
            lambda no, low, high: f"{key} {no}between {low} and {high}", st.sampled_from(["", "not "]), literal, literal
        )
        return one | two

    leaves = st.integers(0, len(keys) - 1).flatmap(comparison)
    trees = st.recursive(
        leaves,
        lambda t: st.builds(lambda a, op, b: f"({a} {op} {b})", t, st.sampled_from(["and", "or"]), t),
        max_leaves=5,
    )
    return keys, rows, draw(st.lists(trees, min_size=1, max_size=8))


@settings(max_examples=60, deadline=None)
@given(tables())
def test_few_names_give_what_all_give(made: tuple[Keys, Rows, list[str]]) -> None:
    keys, rows, texts = made
    with shelf_of(keys, rows) as shelf:
        for text in texts:
            whole = answered(shelf, text)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(filters, "SMALL", 0)
                patch.setattr(filter_walk, "LISTED", 3)
                patch.setattr(filter_walk, "RUN", 3)
                patch.setattr(filter_walk, "SLICE_NS", 0)
                patch.setattr(filter_walk, "_PER_LOOK", 1)
                assert answered(shelf, text) == whole, text


@pytest.mark.parametrize("others", [(), ((b"hour", b"int"),)])
def test_every_short_bound(others: Keys, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values that are escaped in names, or sort about `%`, against every bound of up to two characters."""
    words = [b"", *(bytes(word) for size in (1, 2, 3) for word in product(b"!5:a%_-", repeat=size))]
    bounds = [bytes(word).decode() for size in (1, 2) for word in product(b"!5:a%_-", repeat=size)]
    texts = [f"k {op} '{bound}'" for op in ("=", "<", ">=") for bound in bounds]
    texts += [f"k > '{low}' and k <= '{high}'" for low in bounds[6::5] for high in bounds[6::7]]
    if others:
        texts = [f"{text} and hour < 2" for text in texts]
    with shelf_of(((b"k", b"string"), *others), [(word, *(b"1" for _ in others)) for word in words]) as shelf:
        whole = [answered(shelf, text) for text in texts]
        assert None not in whole
        monkeypatch.setattr(filters, "SMALL", 0)
        assert [text for text, all_of_it in zip(texts, whole, strict=True) if answered(shelf, text) != all_of_it] == []


DAYS: Rows = [(b"%04d-%02d-01" % (year, month),) for year in range(1, 801) for month in range(1, 13)]
PAIRS: Rows = [(b"%d" % (n % 900), b"%d" % n) for n in range(9000)]


THREE: Rows = [(b"2024-%02d" % (n % 12), b"%d" % (n % 500), b"r%d" % n) for n in range(6000)]


@pytest.mark.parametrize(
    ("keys", "rows", "text", "moves"),
    [
        (((b"d", b"string"),), DAYS, "d >= '0100-03' and d < '0101'", 30),
        (((b"d", b"date"),), DAYS, "d > 0799-06-01", 25),
        (((b"h", b"int"), (b"d", b"string")), PAIRS, "h > 7 and h < 9", 20),
        (((b"h", b"int"), (b"d", b"string")), PAIRS, "d = '7'", 1810),
        (((b"d", b"string"), (b"h", b"int")), PAIRS, "d = '7' and h > 3", 25),
        (((b"d", b"string"), (b"h", b"int")), PAIRS, "d = '7' and h > 900 and h < 1000", 5),
        (((b"n", b"int"), (b"m", b"int")), PAIRS, "m = 4711 and (n = 1 or n = 211)", 8),
        (((b"d", b"string"), (b"n", b"int"), (b"r", b"string")), THREE, "n = 7", 150),
        (((b"d", b"string"), (b"n", b"int"), (b"r", b"string")), THREE, "d < '2024-03' and n between 7 and 9", 100),
        (((b"d", b"string"), (b"n", b"int"), (b"r", b"string")), THREE, "n = 7 and r = 'r4507'", 80),
    ],
)
def test_a_large_table_is_not_looked_at_whole(
    keys: Keys, rows: Rows, text: str, moves: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filter_walk, "MOVES", moves)
    monkeypatch.setattr(filter_walk, "SLICE_NS", 0)
    monkeypatch.setattr(filter_walk, "_PER_LOOK", 1)
    with shelf_of(keys, rows) as shelf:
        assert answered(shelf, text) is not None


def test_one_odd_value_has_the_metastore_asked() -> None:
    keys = ((b"d", b"date"), (b"h", b"int"))
    good = [(b"2024-01-%02d" % day, b"%d" % hour) for day in range(1, 11) for hour in range(24)]
    with shelf_of(keys, good) as shelf:
        with shelf.reader.snapshot() as snapshot:
            assert entry_of(snapshot).typed == key_types.DATE + key_types.INTEGER
        assert answered(shelf, "d = 2024-01-01 and h > 3") is not None
        odd = records(keys, [(b"2024-01-03", b"x")])
        shelf.writer.commit(Changes(cursor=12, partitions=[PartitionChange(TABLE_ID, odd)]))
        with shelf.reader.snapshot() as snapshot:
            assert entry_of(snapshot).typed == key_types.DATE + key_types.UNKNOWN
        assert answered(shelf, "d = 2024-01-01 and h > 3") is None
        assert answered(shelf, "d = 2024-01-01") is not None
        shelf.writer.commit(Changes(cursor=13, partitions=[PartitionChange(TABLE_ID, [], [odd[0].name])]))
        assert answered(shelf, "d = 2024-01-01 and h > 3") is not None  # small: looked at whole
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(filter_walk, "MOVES", 30)
            patch.setattr(filter_walk, "LISTED", 20)
            assert answered(shelf, "d = 2024-01-01 and h > 3") is None
            shelf.writer.commit(
                Changes(cursor=14, partitions=[PartitionChange(TABLE_ID, records(keys, good), replace_all=True)])
            )
            patch.setattr(filters, "SMALL", 0)
            assert answered(shelf, "d = 2024-01-01 and h > 3") is not None


@pytest.mark.parametrize("value", [b"", b"2024-02-30", b"2024-1-1", b"x"])
def test_what_is_no_date(value: bytes) -> None:
    keys = ((b"d", b"date"),)
    assert key_types.still(key_types.DATE, keys, records(keys, [(b"2024-01-01",), (value,)])) == key_types.UNKNOWN


def test_what_is_an_integer() -> None:
    keys = ((b"n", b"BIGINT"), (b"s", b"string"))
    rows = [(b"1", b"x"), (b"-7", b"y"), (b"007", b""), (DEFAULT_PARTITION, b"z")]
    assert key_types.still(key_types.kinds(keys), keys, records(keys, rows[:2] + rows[3:])) == b"i-"
    assert key_types.still(key_types.kinds(keys), keys, records(keys, [(b"1.0", b"x")])) == b"--"
