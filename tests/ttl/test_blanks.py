"""Filters in TTL mode of values with a blank at their end: to MySQL `a` and `a ` are equal, to PostgreSQL not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hms_cache_proxy.methods.decision import Forward, Work
from tests.ttl.bench import call
from tests.ttl.local import LocalTtl, answering

TABLE = {"db_name": b"d", "tbl_name": b"t"}


@pytest.fixture
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalTtl]:
    with answering(tmp_path_factory.mktemp("blanks")) as made:
        made.catalog.table(b"t")
        made.catalog.add(b"t", [b"a", b"b", b" c"])
        made.ask(call("get_table", dbname=b"d", tbl_name=b"t")[1])
        yield made


def filtered(text: bytes) -> bytes:
    return call("get_partitions_by_filter", **TABLE, filter=text, max_parts=-1)[1]


def asked_itself(bench: LocalTtl, text: bytes) -> bool:
    """Is the metastore asked this very request, although all names are known?"""
    decision = bench.begin(filtered(text))
    while isinstance(decision, Work):
        decision = decision.step() or decision
    if not isinstance(decision, Forward):
        return False
    decision.pending.failed(False)
    return decision.ask is None


@pytest.mark.parametrize("text", [b"p = 'a '", b"p != 'b ' or p = 'a'", b"p = ' '"])
def test_a_literal_with_a_blank_at_its_end(bench: LocalTtl, text: bytes) -> None:
    bench.ask(filtered(b"p != 'x'"))
    assert asked_itself(bench, text)


def test_a_value_with_one(bench: LocalTtl) -> None:
    bench.ask(filtered(b"p != 'x'"))
    assert not asked_itself(bench, b"p != 'y'") and not asked_itself(bench, b"p = ' c' or p != 'b'")
    bench.catalog.add(b"t", [b"a "])
    bench.cache.invalidate((b"*",))
    bench.ask(call("get_table", dbname=b"d", tbl_name=b"t")[1])
    bench.ask(filtered(b"p != 'x'"))
    assert asked_itself(bench, b"p != 'a'")
