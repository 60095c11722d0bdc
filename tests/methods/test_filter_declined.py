"""Filters that are left to the metastore before a table is looked at, one for each reason; and their neighbours."""

from __future__ import annotations

import gc
import time

import pytest

from hms_cache_proxy.methods.readers.filter_declined import MAX_DEPTH, MAX_FILTER_BYTES, LikeFilter, tree_of

EVALUATED = [
    b"a = 1", b"a = -1", b"a = 0", b"a = 9223372036854775807", b"a = 2024-01-01", b"2024-01-01 < a and b = ''",
    b"a = 'x'or`b`=\"y\"", b"a not between 1 and-3", "a = 'ü'".encode(), b"`values` = 1", b"values1 = 1", b"a\t=\r\n1",
    b"(" * MAX_DEPTH + b"a = 1" + b")" * MAX_DEPTH, b"a = 1".ljust(MAX_FILTER_BYTES), b"`and` = 1", b"`1` = 1",
    b"A = 1", b"A NOT BETWEEN 1 AND 2 oR B = 1",
]  # fmt: skip
DECLINED = [
    b"", b"a", b"a = ", b"a = 1 b", b"a = 1;", b"a <=> 1", b"not a = 1",
    b"(a) in (1)", b"(a) not in (1)", b"(struct(a, b)) in (struct(1, 2), const struct(1, 2))", b"(a = 1) is true",
    b"a = date '2024-01-01'", b"a = timestamp '2024-01-01 00:00:00'", b"a = 2024-01-01 00:00:00",
    b"a = 'x\\\\y'", b"a = '\"'", b"a = \"'\"", b"a = 'x' 'y'", b"a = 'x'\"y\"",
    b"a = 01", b"a = 10000000000000000000", b"a = 9223372036854775808", b"a = - 1", b"a = -0", b"a = -01",
    b"a = 2024-02-30", b"a = 2024-01-01and b = 1", b"a between 2024-01-01and 2024-01-02",
    b"_a = 1", b"1a = 1", b"`a b` = 1", b"`a``b` = 1", b"`` = 1", b"values = 1", b"VALUES = 1",
    "ü = 1".encode(), "\u212a = 1".encode(), b"a = '\xff'", b"a\xc2\xa0= 1",
    b"(" * (MAX_DEPTH + 1) + b"a = 1" + b")" * (MAX_DEPTH + 1), b"a = 1".ljust(MAX_FILTER_BYTES + 1),
    b"'x' like a", b"a like 1", b"a like 'x' and (b) in (1)", b"a like 'x' b",
]  # fmt: skip


@pytest.mark.parametrize("text", EVALUATED)
def test_what_is_evaluated(text: bytes) -> None:
    assert tree_of(text) is not None


@pytest.mark.parametrize("text", DECLINED)
def test_what_is_declined(text: bytes) -> None:
    assert tree_of(text) is None


@pytest.mark.parametrize("text", [b"a like 'x%'", b"a = 1 and (b = 2 or c LIKE '')"])
def test_like(text: bytes) -> None:
    with pytest.raises(LikeFilter):
        tree_of(text)


HOSTILE = [
    b"'" + b"\\'" * 5000, b"`" * 8191, b"(a = 1) or " * 50, b"(" * 50 + b"a=1 or " * 1100, b"a=1 and " * 1000 + b"a=1",
    b"((" + b"(a) in (1) is true and " * 300, b"-" * 8000, b"'' " * 2700, b"a between " * 800, b"a=" + b"9" * 8000,
]  # fmt: skip


@pytest.mark.parametrize("text", [text[:MAX_FILTER_BYTES] for text in HOSTILE])
def test_a_hostile_text_takes_milliseconds(text: bytes) -> None:
    gc.collect()  # of a whole run's objects, which may take longer than what is measured
    began = time.process_time()
    tree_of(text)
    assert time.process_time() - began < 0.1
