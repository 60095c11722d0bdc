"""One of something is never said in the plural."""

from __future__ import annotations

import pytest

from hms_cache_proxy.plurals import counted, fitting, listed


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 tables"), (1, "1 table"), (2, "2 tables"), (1200, "1,200 tables"), (0.7, "1 table"), (1.4, "1 table")],
)
def test_counted(number: float, text: str) -> None:
    assert counted(number, "table") == text


def test_other_words() -> None:
    assert (counted(1, "miss", "misses"), counted(2, "miss", "misses")) == ("1 miss", "2 misses")
    assert (fitting(1, "is", "are"), fitting(0, "is", "are"), fitting(1.6, "is", "are")) == ("is", "are", "are")
    assert listed({"databases": 1, "tables": 0, "partitions": 1000}) == "1 database, 0 tables, 1,000 partitions"
