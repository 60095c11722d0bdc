"""Filters by any keys against a brute-force evaluation of what they say; searches in slices."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise, product
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hms_cache_proxy.methods.readers import filter_walk, filters
from hms_cache_proxy.methods.readers.filter_numbers import first_number
from hms_cache_proxy.methods.readers.part_names import DEFAULT_PARTITION
from hms_cache_proxy.wire import spec
from tests.methods.test_filter_spans import METHOD, Keys, Rows, answered, shelf_of

Tree = tuple[Any, ...]
COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
VALUES = {
    b"string": [b"a", b"a0", b"ab", b"a/b", b"a%", b"a!", b"a:", b"b", b"10", b"9", b"x=y", b"", DEFAULT_PARTITION],
    b"int": [b"-100", b"-7", b"-1", b"0", b"1", b"2", b"10", b"19", b"100", b"1000", b"007", b"-0", DEFAULT_PARTITION],
    b"date": [b"2023-12-31", b"2024-01-01", b"2024-01-02", b"2024-02-01", DEFAULT_PARTITION],
}
LITERALS: dict[bytes, list[Any]] = {
    b"string": ["a", "ab", "a/b", "a%", "a!", "b", "10", "1", "zz", DEFAULT_PARTITION.decode()],
    b"int": [-1000, -100, -8, -7, -1, 0, 1, 2, 3, 11, 19, 99, 100, 999, 1000, 5000],
    b"date": ["2023-12-31", "2024-01-01", "2024-01-15", "2024-02-01"],
}


def written(kind: bytes, literal: Any) -> str:
    return f"'{literal}'" if kind == b"string" else str(literal)


def text_of(tree: Tree, keys: Keys) -> str:
    if tree[0] in ("and", "or"):
        return f"({text_of(tree[1], keys)} {tree[0]} {text_of(tree[2], keys)})"
    operator, at, *literals = tree
    name, kind = keys[at]
    first, *second = [written(kind, literal) for literal in literals]
    if second:
        return f"{name.decode()} {operator} {first} and {second[0]}"
    return f"{name.decode()} {operator} {first}"


def holds(tree: Tree, keys: Keys, row: tuple[bytes, ...]) -> bool:
    """What the filter says of a partition, as filter_match.py has it in words."""
    if tree[0] in ("and", "or"):
        both = holds(tree[1], keys, row), holds(tree[2], keys, row)
        return all(both) if tree[0] == "and" else any(both)
    operator, at, *literals = tree
    kind, value = keys[at][1], row[at]
    if kind == b"int" and operator == "=":
        return value == b"%d" % literals[0]
    if kind != b"string" and value == DEFAULT_PARTITION:
        return False
    if kind == b"int":
        plain: Any = int(value)
    else:
        plain, literals = value, [literal.encode() for literal in literals]
    if len(literals) == 2:
        return (literals[0] <= plain <= literals[1]) is (operator == "between")
    return COMPARED[operator](plain, literals[0])


def declined(tree: Tree, keys: Keys) -> bool:
    """Whether there is a `!=` of several keys' names with what LIKE reads as more than itself: 4.2 leaves out more."""
    if tree[0] in ("and", "or"):
        return declined(tree[1], keys) or declined(tree[2], keys)
    operator, at, literal = tree[:3]
    return len(keys) > 1 and operator == "!=" and keys[at][1] == b"string" and literal in ("a/b", "a%")


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Keys, Rows, list[Tree]]:
    kinds = draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=4))
    keys = tuple((b"k%d" % at, kind) for at, kind in enumerate(kinds))
    chosen = [draw(st.lists(st.sampled_from(VALUES[kind]), min_size=1, max_size=6, unique=True)) for kind in kinds]
    rows = list(product(*chosen))
    rows = rows if len(rows) < 300 else draw(st.lists(st.sampled_from(rows), max_size=300, unique=True))

    def leaf(at: int) -> st.SearchStrategy[Tree]:
        literal = st.sampled_from(LITERALS[kinds[at]])
        return st.tuples(st.sampled_from(sorted(COMPARED)), st.just(at), literal) | st.tuples(
            st.sampled_from(["between", "not between"]), st.just(at), literal, literal
        )

    leaves = st.integers(0, len(keys) - 1).flatmap(leaf)
    trees = st.recursive(leaves, lambda t: st.tuples(st.sampled_from(["and", "or"]), t, t), max_leaves=6)
    return keys, rows, draw(st.lists(trees, min_size=1, max_size=10))


def selected(reply: bytes) -> list[tuple[bytes, ...]]:
    found, _ = spec.decode(spec.result(METHOD), reply)
    return [tuple(partition.values) for partition in found.success]


@settings(max_examples=80, deadline=None)
@given(worlds(), st.integers(-1, 5))
def test_as_brute_force_says(world: tuple[Keys, Rows, list[Tree]], limit: int) -> None:
    keys, rows, trees = world
    # An empty value and the default partition's have one name, and a table has one partition of a name.
    rows = list({tuple(value or DEFAULT_PARTITION for value in row): row for row in rows}.values())
    with shelf_of(keys, rows) as shelf, pytest.MonkeyPatch.context() as patch:
        patch.setattr(filters, "SMALL", 0)
        patch.setattr(filter_walk, "RUN", 3)
        patch.setattr(filter_walk, "PARENTS", 6)
        patch.setattr(filter_walk, "SLICE_NS", 0)
        patch.setattr(filter_walk, "_PER_LOOK", 1)
        for tree in trees:
            text = text_of(tree, keys)
            reply = answered(shelf, text)
            assert (reply is None) is declined(tree, keys), text
            if reply is None:
                continue
            assert set(selected(reply)) == {row for row in rows if holds(tree, keys, row)}, text
            some = answered(shelf, text, limit)
            assert some is not None and selected(some) == (selected(reply)[:limit] if limit >= 0 else selected(reply))


@pytest.mark.parametrize(
    ("literal", "of_one_key", "of_two"),
    [("ab", True, True), ("a_b", True, False), ("a%b", True, False), ("a/b", True, False), ("a-b", True, True)],
)
def test_not_equal_is_a_pattern_in_names_of_several_keys(literal: str, of_one_key: bool, of_two: bool) -> None:
    """Hive 4.2.0 leaves `axb` out of `k != 'a_b'` there."""
    one, two = ((b"k", b"string"),), ((b"k", b"string"), (b"n", b"int"))
    with shelf_of(one, [(b"axb",)]) as shelf:
        assert (answered(shelf, f"k != '{literal}'") is not None) is of_one_key
    with shelf_of(two, [(b"axb", b"1")]) as shelf:
        assert (answered(shelf, f"k != '{literal}'") is not None) is of_two
        assert answered(shelf, f"k = '{literal}'") is not None
        assert answered(shelf, f"k != '{DEFAULT_PARTITION.decode()}' and n != 2") is not None


LAST: list[Tree] = [
    ("=", 1, 7),
    ("or", ("=", 1, 7), ("=", 1, 100)),
    ("or", ("=", 1, 1), ("or", ("=", 1, 0), ("and", ("=", 1, 19), (">", 1, 20)))),
    ("=", 1, 5000),
]


@pytest.mark.parametrize("tree", LAST)
@pytest.mark.parametrize("parents", [1, 2, 50])
def test_by_the_last_key_alone(tree: Tree, parents: int, monkeypatch: pytest.MonkeyPatch) -> None:
    keys: Keys = ((b"k0", b"string"), (b"k1", b"int"))
    odd = [b"a", b"a0", b"a00", b"ab", b"a/b", b"a!", b"b", DEFAULT_PARTITION, b"zz"]
    rows = [(k0, b"%d" % n) for at, k0 in enumerate(odd) for n in (0, 1, 7, 10, 19, 100) if (at + n) % 5]
    monkeypatch.setattr(filters, "SMALL", 0)
    monkeypatch.setattr(filter_walk, "PARENTS", parents)
    monkeypatch.setattr(filter_walk, "SLICE_NS", 0)
    monkeypatch.setattr(filters, "by_jumping", None)
    with shelf_of(keys, rows) as shelf:
        reply = answered(shelf, text_of(tree, keys))
        assert reply is not None
        assert set(selected(reply)) == {row for row in rows if holds(tree, keys, row)}


DECIMALS = sorted(b"%d" % n for n in range(-120, 1200))
BOUNDS = st.none() | st.integers(-130, 1300)


@settings(max_examples=150)
@given(st.lists(st.tuples(BOUNDS, BOUNDS), max_size=3), st.from_regex(rb"-?[0-9]{0,4}", fullmatch=True))
def test_the_next_number(intervals: list[tuple[int | None, int | None]], value: bytes) -> None:
    def inside(number: int) -> bool:
        return any((low is None or low <= number) and (high is None or number <= high) for low, high in intervals)

    found = first_number(value, intervals)
    assert found is None or (found >= value and inside(int(found)) and found == b"%d" % int(found))
    assert not [d for d in DECIMALS if d >= value and (found is None or d < found) and inside(int(d))]


class SlowMatcher:
    """A filter with so many comparisons that each name takes a tenth of a slice."""

    def __init__(self) -> None:
        self.now_ns = 0

    def selects(self, name: bytes) -> bool:
        self.now_ns += filter_walk.SLICE_NS // 10
        return name.endswith(b"7")


class Names:
    """A walk over names."""

    def __init__(self, count: int) -> None:
        self.names = [b"n=%05d" % number for number in range(count)]

    def listing(self, after: bytes | None, most: int) -> list[bytes]:
        return [name for name in self.names if after is None or name > after][:most]


@pytest.mark.parametrize("count", [999, 2500])
def test_a_filter_with_many_comparisons_takes_many_turns(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    matcher, walk = SlowMatcher(), Names(count)
    monkeypatch.setattr(filter_walk, "perf_counter_ns", lambda: matcher.now_ns)
    search = filter_walk.by_looking_at_all(cast(Any, walk), matcher, None)
    turns = [0]
    with pytest.raises(StopIteration) as done:
        while True:
            next(search)
            turns.append(matcher.now_ns)
    assert done.value.value == [name for name in walk.names if name.endswith(b"7")]
    assert max(later - former for former, later in pairwise(turns)) < 3 * filter_walk.SLICE_NS
