"""The follower over Hive 3.1.3: its json-0.2 messages, and transactions' rows, whose database is the word `null`."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hms_cache_proxy.cache.entries import TableEntry
from hms_cache_proxy.store.write_ids import ValidWriteIdList
from tests.follower.harness import CATALOG, Followed
from tests.store.oracle import Oracle
from tests.store.writing import Answer, Writing
from tests.testbed.metastore import Metastore

pytestmark = pytest.mark.real


def cached(followed: Followed, writing: Writing, table: str) -> tuple[ValidWriteIdList, bool]:
    """The list of a table, and whether it may be used."""
    with followed.reader.snapshot() as cache:
        entry = cache.table(CATALOG, *writing.key(table))
        assert isinstance(entry, TableEntry) and entry.transactional
        row = cache.write_ids(entry.table_id)
        assert row is not None
        return ValidWriteIdList.parse(row.text), entry.write_ids is not None


@pytest.mark.parametrize("store", ["sql", "thrift"])
def test_transactions(hms31: Metastore, follow: Callable[..., Followed], unique_name: str, store: str) -> None:
    oracle = Oracle(*hms31.address, "3.1.3")
    writing = Writing(oracle, unique_name, hive4=False)
    writing.create("t", "other")
    followed = follow(hms31, include=f"{unique_name}.*", store=store)
    followed.loaded()

    def follows() -> None:
        followed.confirmed()
        followed.confirmed()
        found, may_be_used = cached(followed, writing, "t")
        low = found.min_open if found.open else None
        answer = Answer(found.high_watermark, found.invalid, found.aborted, low)
        assert (answer, may_be_used) == (writing.answers("t")[writing.key("t")], True)

    follows()
    first, second = writing.begin(2)
    writing.write("t", first, second)
    follows()
    writing.commit(second)
    follows()
    writing.abort(first)
    follows()
    writing.written("t", "other", "t")
    follows()
    oracle.close()
