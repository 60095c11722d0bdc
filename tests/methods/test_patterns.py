"""Patterns of names: what begins otherwise does not match."""

from __future__ import annotations

import pytest

from hms_cache_proxy.methods.readers.patterns import read_pattern

NAMES = [b"a", b"ab", b"abc", b"abd", b"a_c", b"a%c", b"b", b"ba", b"bab", b"orders", b"orders_2024", b"orders_2025"]


@pytest.mark.parametrize(
    ("raw", "prefix", "matching"),
    [
        (b"ORDERS*", b"orders", {b"orders", b"orders_2024", b"orders_2025"}),
        (b" orders ", b"orders", {b"orders"}),
        (b"orders_202.", b"orders_202", {b"orders_2024", b"orders_2025"}),
        (b"orders_2024|orders_2025", b"orders_202", {b"orders_2024", b"orders_2025"}),
        (b"ab*|a.c", b"a", {b"ab", b"abc", b"abd", b"a_c", b"a%c"}),
        (b"a|b", b"", {b"a", b"b"}),
        (b"*b", b"", {b"ab", b"b", b"bab"}),
        (b"a_c", b"a_c", {b"a_c"}),
        (b"", b"", set()),
    ],
)
def test_names_that_match_begin_so(raw: bytes, prefix: bytes, matching: set[bytes]) -> None:
    pattern = read_pattern(raw)
    assert pattern is not None and pattern.prefix == prefix
    assert {name for name in NAMES if pattern.matches(name)} == matching
    assert all(name.startswith(prefix) for name in matching)


@pytest.mark.parametrize("raw", [b"a|", b"|", b"a\\d", "ü*".encode(), b"*" * 17, b"x" * 1025])
def test_left_to_the_metastore(raw: bytes) -> None:
    assert read_pattern(raw) is None


def test_many_searches_in_each_name_are_left_to_the_metastore() -> None:
    """A hundred alternatives take a tenth of a millisecond for each name, and a turn looks at 300 names."""
    assert read_pattern(b"|".join(b"*t%02d" % number for number in range(16))) is not None
    assert read_pattern(b"|".join(b"*t%02d" % number for number in range(17))) is None
    assert read_pattern(b"|".join(b"t%02d" % number for number in range(99))) is not None
