"""Many partitions by some of their values: in slices, of one state, and sent while they are joined."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hms_cache_proxy.cache.changes import Changes, PartitionChange
from hms_cache_proxy.methods.proof import Proof
from hms_cache_proxy.methods.readers import base, partial, partitions
from hms_cache_proxy.methods.readers.base import Body, Context, Slices, Unfinished
from hms_cache_proxy.store.protocol import TableRecord
from hms_cache_proxy.wire import spec
from tests.cache.conftest import Shelf, shelf
from tests.cache.records import DATABASE, TABLE, TABLE_ID, Part, database, table

__all__ = ["shelf"]

NAMES = sorted(b"dt=%d/hour=%d" % (number % 3, number) for number in range(3 * partial.CHUNK + 50))
METHODS = {
    "get_partition_names_ps": None,
    "get_partitions_ps": None,
    "get_partitions_ps_with_auth": None,
    "get_partition_names_ps_req": "GetPartitionNamesPsRequest",
    "get_partitions_ps_with_auth_req": "GetPartitionsPsWithAuthRequest",
}


def values_of(name: bytes) -> tuple[bytes, ...]:
    return tuple(part.split(b"=")[1] for part in name.split(b"/"))


def fill(shelf: Shelf) -> None:
    records = [Part(name, values_of(name)).record() for name in NAMES]
    change = PartitionChange(TABLE_ID, records, replace_all=True)
    shelf.writer.commit(Changes(10, databases={DATABASE: database()}, tables={TABLE: table()}, partitions=[change]))


def begun(shelf: Shelf, method: str, values: list[bytes], most: int = -1) -> Body | Unfinished:
    struct = METHODS[method]
    args: Any = spec.args(method)
    if struct is None:
        args = args(db_name=DATABASE[1], tbl_name=TABLE[2], part_vals=values, max_parts=most)
    else:
        request: Any = spec.struct(struct)
        given = {"partValues" if "names" in method else "partVals": values}
        args = args(req=request(catName=b"hive", dbName=DATABASE[1], tblName=TABLE[2], maxParts=most, **given))
    with shelf.reader.snapshot() as snapshot:
        context = Context(snapshot, method, True, Proof("passthrough", exact=False))
        return getattr(partitions, method)(context, args)  # type: ignore[no-any-return]


def ended(body: Body | Unfinished) -> tuple[Body, int]:
    """The result, and in how many steps it came after the first."""
    steps = 0
    if isinstance(body, Unfinished):
        try:
            while True:
                steps += 1
                next(body.work)
        except StopIteration as done:
            body = done.value
    assert not isinstance(body, Unfinished)
    return body, steps


def found(method: str, body: Body) -> list[tuple[bytes, ...]]:
    whole = body if isinstance(body, bytes) else b"".join(body.pieces)
    listed: Any = spec.decode(spec.result(method), whole)[0].success
    if METHODS[method] is not None:
        listed = listed.names if "names" in method else listed.partitions
    return [values_of(one) if isinstance(one, bytes) else tuple(one.values) for one in listed]


@pytest.mark.parametrize("method", METHODS)
def test_in_slices_of_one_state(shelf: Shelf, method: str) -> None:
    fill(shelf)
    body = begun(shelf, method, [b"", b""])
    assert isinstance(body, Unfinished)
    shelf.writer.commit(Changes(11, partitions=[PartitionChange(TABLE_ID, deletes=[NAMES[-1]])]))
    result, steps = ended(body)
    assert steps == 3, "each looks at so many names, at most"
    assert isinstance(result, Slices) is ("names" not in method)
    assert found(method, result) == list(map(values_of, NAMES))


@pytest.mark.parametrize("method", METHODS)
def test_what_some_values_select(shelf: Shelf, method: str) -> None:
    fill(shelf)
    assert found(method, ended(begun(shelf, method, [b"1", b"1000"]))[0]) == [(b"1", b"1000")]
    assert found(method, ended(begun(shelf, method, [b"1"], 2))[0]) == [(b"1", b"1"), (b"1", b"10")]
    assert found(method, ended(begun(shelf, method, [b"", b"8"]))[0]) == [(b"2", b"8")]
    assert found(method, ended(begun(shelf, method, [b"x"]))[0]) == []


@pytest.mark.parametrize("method", ["get_partition_names_ps", "get_partition_names_ps_req"])
def test_many_names_are_not_joined(shelf: Shelf, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(shelf)
    whole = ended(begun(shelf, method, [b"", b""]))[0]
    monkeypatch.setattr(base, "NAMED_AT_ONCE", 1000)
    result, _ = ended(begun(shelf, method, [b"", b""]))
    assert isinstance(result, Slices) and b"".join(result.pieces) == whole


@pytest.mark.parametrize("method", METHODS)
def test_values_for_a_table_without_partition_keys_are_too_many(shelf: Shelf, method: str) -> None:
    tables: dict[Any, TableRecord | None] = {TABLE: replace(table(), partition_keys=())}
    shelf.writer.commit(Changes(10, databases={DATABASE: database()}, tables=tables))
    body, _ = ended(begun(shelf, method, [b"a"]))
    assert isinstance(body, bytes) and b"numPartKeys=0, part_val=[a]" in body


def test_many_names_of_a_table_without_partition_keys(shelf: Shelf) -> None:
    tables: dict[Any, TableRecord | None] = {TABLE: replace(table(), partition_keys=())}
    shelf.writer.commit(Changes(10, databases={DATABASE: database()}, tables=tables))
    args: Any = spec.args("get_partitions_by_names")
    names = [b"p=%d" % number for number in range(partitions.JOINED_AT_ONCE + 1)]
    with shelf.reader.snapshot() as snapshot:
        context = Context(snapshot, "get_partitions_by_names", True, Proof("passthrough", exact=False), True)
        args = args(db_name=DATABASE[1], tbl_name=TABLE[2], names=names)
        body, _ = ended(partitions.get_partitions_by_names(context, args))
    assert body == base.success_structs(0, [])
