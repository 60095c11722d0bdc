"""Filters with an index of a table's keys find what they find without it; searches pay for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

import pytest
from hypothesis import given, settings

from hms_cache_proxy.cache.changes import Changes, PartitionChange
from hms_cache_proxy.methods.readers import filter_walk, filters, key_index
from hms_cache_proxy.methods.readers.key_index import KeyIndex, KeyIndexes
from hms_cache_proxy.methods.readers.part_names import DEFAULT_PARTITION
from tests.cache.conftest import Shelf
from tests.cache.records import TABLE_ID
from tests.methods.test_filter_spans import Keys, Rows, answered, entry_of, records, shelf_of
from tests.methods.test_filter_walk import Tree, declined, selected, text_of, worlds

KEYS: Keys = ((b"k0", b"string"), (b"k1", b"int"), (b"k2", b"string"))
ROWS: Rows = [(b"%03d" % a, b"%d" % b, b"v%d" % (b * 7 % 3)) for a, b in product(range(300), range(4))]
RARE = (b"150", b"9", b"rare")
ROWS_AND_RARE = sorted([*ROWS, RARE])


def index_of(shelf: Shelf, indexes: KeyIndexes) -> KeyIndex | None:
    """What a search would use now."""
    with shelf.reader.snapshot() as snapshot:
        entry = entry_of(snapshot)
        return indexes.of(entry, snapshot.state(entry))


def paid_for(shelf: Shelf, indexes: KeyIndexes, ask: Callable[[], object], most: int = 200) -> KeyIndex:
    """The index, once searches have paid for it."""
    for _ in range(most):
        ask()
        index = index_of(shelf, indexes)
        if index is not None:
            return index
    raise AssertionError("searches do not pay")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything is indexed, in small blocks."""
    shrink(monkeypatch)


def shrink(patch: pytest.MonkeyPatch) -> None:
    for module, name, value in (
        (filters, "SMALL", 0),
        (filter_walk, "BLOCK", 2),
        (key_index, "BLOCK", 2),
        (key_index, "AT_ONCE", 4),
        (key_index, "WORTH_MOVES", -(10**6)),
        (key_index, "NAMES_PER_MOVE", 100),
        (key_index, "USEFUL", 1),
        (key_index, "TRIED_NS", 0),
        (filters, "MOVES_FIRST", -1),
        (filter_walk, "PARENTS", 6),
        (filter_walk, "_PER_LOOK", 1),
        (filter_walk, "SLICE_NS", 0),
    ):
        patch.setattr(module, name, value)


@settings(max_examples=20, deadline=None)
@given(worlds())
def test_as_without(world: tuple[Keys, Rows, list[Tree]]) -> None:
    keys, rows, trees = world
    rows = [row for row in rows if b"" not in row or tuple(v or DEFAULT_PARTITION for v in row) not in rows]
    with shelf_of(keys, rows) as shelf, pytest.MonkeyPatch.context() as patch:
        shrink(patch)
        indexes = KeyIndexes(1 << 30)
        if len(keys) > 1:
            with shelf.reader.snapshot() as snapshot:
                entry = entry_of(snapshot)
                for _ in indexes.pay(entry, snapshot.state(entry), 10**6, snapshot.again(entry)):
                    pass
            assert index_of(shelf, indexes) is not None
        for tree in trees:
            text = text_of(tree, keys)
            for limit in (-1, 2):
                with_index, without = (answered(shelf, text, limit, held) for held in (indexes, None))
                assert (with_index is None) is (without is None) is declined(tree, keys), text
                if with_index is None or without is None:
                    continue
                assert selected(with_index) == selected(without), text


@pytest.fixture
def shelf() -> Iterator[Shelf]:
    with shelf_of(KEYS, ROWS_AND_RARE) as shelf:
        yield shelf


def test_searches_pay_and_are_quick_then(shelf: Shelf, small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_index, "WORTH_MOVES", 100)
    monkeypatch.setattr(key_index, "NAMES_PER_MOVE", 1)
    indexes = KeyIndexes(1 << 30)
    rare = "k2 = 'rare'"
    assert answered(shelf, rare, -1, indexes) == answered(shelf, rare)
    assert index_of(shelf, indexes) is None, "one search does not pay for all of it"
    paid_for(shelf, indexes, lambda: answered(shelf, rare, -1, indexes))
    monkeypatch.setattr(filters, "MOVES", -2)
    some = ("k2 > 'q' and k2 < 's'", "k2 = 'rare' or k2 = 'none'", "k1 = 9", "k1 >= 5 and k2 != 'v1'", "k2 < 'a'")
    for text in (rare, *some):
        reply = answered(shelf, text, -1, indexes)
        assert reply is not None and selected(reply) == ([] if "'a'" in text else [RARE]), text


def test_a_change_ends_it(shelf: Shelf, small: None) -> None:
    indexes = KeyIndexes(1 << 30)
    text = "k2 = 'rare'"
    paid_for(shelf, indexes, lambda: answered(shelf, text, -1, indexes))
    another = (b"007", b"8", b"rare")
    added = [PartitionChange(TABLE_ID, records(KEYS, [another]))]
    shelf.writer.commit(Changes(cursor=12, partitions=added))
    assert index_of(shelf, indexes) is None
    reply = answered(shelf, text, -1, indexes)
    assert reply is not None and selected(reply) == [another, RARE]


def test_memory_is_bounded(shelf: Shelf, small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_index, "MOST_VALUES", 10)
    indexes = KeyIndexes(1000)
    for _ in range(20):
        answered(shelf, "k2 = 'rare'", -1, indexes)
    assert index_of(shelf, indexes) is None
    with shelf.reader.snapshot() as snapshot:
        entry = entry_of(snapshot)
        enough = key_index.most_bytes(len(KEYS), entry.partition_count)
    indexes = KeyIndexes(enough)
    index = paid_for(shelf, indexes, lambda: answered(shelf, "k2 = 'rare'", -1, indexes))
    assert [posting is None for posting in index.postings] == [True, False, False], "the first key has many values"


def test_a_closed_search_can_be_paid_for_again(shelf: Shelf, small: None) -> None:
    indexes = KeyIndexes(1 << 30)
    with shelf.reader.snapshot() as snapshot:
        entry = entry_of(snapshot)
        begun = indexes.pay(entry, snapshot.state(entry), 10**6, snapshot.again(entry))
        next(begun)
        next(begun)
        assert list(indexes.pay(entry, snapshot.state(entry), 10**6, snapshot.again(entry))) == []
        begun.close()
    index = paid_for(shelf, indexes, lambda: answered(shelf, "k2 = 'rare'", -1, indexes))
    assert index.firsts == sorted(set(index.firsts)) and len(index.firsts) == (len(ROWS_AND_RARE) + 1) // 2
