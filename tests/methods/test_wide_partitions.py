"""Partitions with so many columns that a thousand of them take many megabytes: joined while they are sent."""

from __future__ import annotations

from typing import Any

import pytest

from hms_cache_proxy.cache import targets
from hms_cache_proxy.cache.changes import Changes
from hms_cache_proxy.methods.proof import Proof
from hms_cache_proxy.methods.readers import base
from hms_cache_proxy.methods.readers.base import Body, Context, Slices, Unfinished
from hms_cache_proxy.methods.readers.registry import READERS
from hms_cache_proxy.wire import spec
from tests.cache.conftest import Shelf, shelf
from tests.cache.records import DATABASE, TABLE, days

__all__ = ["shelf"]

NAMES = [part.name for part in days(1200)]
QUESTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "all": ("get_partitions", {"max_parts": 900}),
    "filter": ("get_partitions_by_filter", {"filter": b"dt < '2024-07'", "max_parts": -1}),
    "no filter": ("get_partitions_by_filter", {"filter": b"", "max_parts": 900}),
    "some values": ("get_partitions_ps", {"part_vals": [b"", b"1"], "max_parts": -1}),
    "names": ("get_partitions_by_names", {"names": NAMES[:900]}),
    "many names": ("get_partitions_by_names", {"names": NAMES}),
}


def answer(shelf: Shelf, method: str, arguments: dict[str, Any]) -> Body:
    args = spec.args(method)(db_name=DATABASE[1], tbl_name=TABLE[2], **arguments)
    with shelf.reader.snapshot() as snapshot:
        found = READERS[method](Context(snapshot, method, by_name=True, proof=Proof("passthrough", exact=False)), args)
        while isinstance(found, Unfinished):
            try:
                next(found.work)
            except StopIteration as done:
                found = done.value
    return found


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_long_result_is_joined_while_it_is_sent(shelf: Shelf, question: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shelf.fill(days(1200))
    shelf.writer.commit(Changes(11, complete={targets.databases(b"hive"), targets.tables(*DATABASE)}))
    whole = answer(shelf, *QUESTIONS[question])
    assert isinstance(whole, bytes)
    monkeypatch.setattr(base, "JOINED_BYTES", len(whole) // 3)
    monkeypatch.setattr(base, "PIECES_AT_ONCE", 7)
    sliced = answer(shelf, *QUESTIONS[question])
    assert isinstance(sliced, Slices)
    slices = list(sliced.pieces)
    assert len(slices) > 3 and b"".join(slices) == whole
