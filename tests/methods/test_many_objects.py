"""Many tables by their names: in slices, of one state, and sent while they are joined. Many statistics: in turns; too
many: declined."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hms_cache_proxy.cache import targets
from hms_cache_proxy.cache.changes import Changes
from hms_cache_proxy.consistency.gate import Reason
from hms_cache_proxy.methods.proof import Proof
from hms_cache_proxy.methods.readers import base, portions, statistics, tables
from hms_cache_proxy.methods.readers.base import Body, Context, Decline, Slices, Unfinished
from hms_cache_proxy.store import encode
from hms_cache_proxy.wire import spec
from tests.cache.conftest import Shelf, shelf
from tests.cache.records import DATABASE, TABLE, database, days, flat_table
from tests.cache.test_statistics import known, one
from tests.methods.test_table_listings import ended

__all__ = ["shelf"]

NAMES = [b"t_%05d" % number for number in range(3 * tables.AT_ONCE + 50)]
METHODS = ["get_table_objects_by_name", "get_table_objects_by_name_req"]


def fill(shelf: Shelf) -> None:
    records = {
        (*DATABASE, name): replace(flat_table(name, at + 1), body=encode.string_field(1, name) + encode.STOP)
        for at, name in enumerate(NAMES)
    }
    lists = {targets.databases(b"hive"), targets.tables(*DATABASE)}
    shelf.writer.commit(Changes(10, databases={DATABASE: database()}, complete=lists, tables=dict(records)))


def begun(shelf: Shelf, method: str, names: list[bytes], *, by_name: bool = True) -> Body | Unfinished:
    args: Any = spec.args(method)
    if method.endswith("_req"):
        request: Any = spec.struct("GetTablesRequest")
        args = args(req=request(dbName=DATABASE[1], tblNames=names))
    else:
        args = args(dbname=DATABASE[1], tbl_names=names)
    with shelf.reader.snapshot() as snapshot:
        context = Context(snapshot, method, by_name, Proof("passthrough", exact=False))
        return getattr(tables, method)(context, args)  # type: ignore[no-any-return]


def names_of(method: str, result: bytes) -> list[bytes]:
    found: Any = spec.decode(spec.result(method), result)[0].success
    return [one.tableName for one in (found.tables if method.endswith("_req") else found)]


@pytest.mark.parametrize("method", METHODS)
def test_in_slices_of_one_state(shelf: Shelf, method: str) -> None:
    fill(shelf)
    body = begun(shelf, method, [*NAMES, b"none", NAMES[0]])
    assert isinstance(body, Unfinished)
    shelf.writer.commit(Changes(11, tables={(*DATABASE, NAMES[-1]): None}))
    result, steps = ended(body)
    assert steps == 3, "each looks up so many tables, at most"
    assert names_of(method, result) == NAMES
    assert names_of(method, ended(begun(shelf, method, NAMES))[0]) == NAMES[:-1]


@pytest.mark.parametrize("method", METHODS)
def test_a_long_list_is_not_joined(shelf: Shelf, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(shelf)
    monkeypatch.setattr(base, "JOINED_BYTES", 100)
    body = begun(shelf, method, NAMES[:50])
    assert isinstance(body, Slices)
    assert names_of(method, b"".join(body.pieces)) == NAMES[:50]


@pytest.mark.parametrize("method", METHODS)
def test_a_list_without_an_order_is_not_read_to_its_end(shelf: Shelf, method: str) -> None:
    fill(shelf)
    with pytest.raises(Decline) as declined:
        begun(shelf, method, NAMES, by_name=False)
    assert declined.value.reason is Reason.ORDER
    repeated = begun(shelf, method, [NAMES[0]] * 1000, by_name=False)
    assert names_of(method, ended(repeated)[0]) == NAMES[:1]


def test_more_statistics_than_fit_in_memory_are_the_metastores_to_list(shelf: Shelf) -> None:
    fill(shelf)
    partitions = [b"dt=%d" % number for number in range(1000)]
    with shelf.reader.snapshot() as snapshot:
        context = Context(snapshot, "get_partitions_statistics_req", True, Proof("passthrough", exact=False))
        entry: Any = snapshot.table(*DATABASE, NAMES[0])
        for columns, fits in ((200, True), (201, False)):
            names = [b"c%d" % number for number in range(columns)]
            try:
                statistics._asked(context, entry, partitions, names, statistics.HIVE)
                assert fits
            except Decline as declined:
                assert not fits and declined.reason is Reason.ARGUMENTS


@pytest.mark.parametrize("joined", [True, False])
def test_statistics_of_wide_rows_take_many_turns(shelf: Shelf, joined: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each turn reads as much as it has time for, which is one partition here."""
    wide = tuple(one(b"c%03d" % number, data=b"data") for number in range(200))
    parts = [part.record()._replace(statistics=wide) for part in days(30)]
    known(shelf, parts)
    shelf.writer.commit(Changes(2, complete={targets.databases(b"hive"), targets.tables(*DATABASE)}))
    asked: Any = spec.struct("PartitionsStatsRequest")
    names = [part.name for part in parts]
    request = asked(dbName=DATABASE[1], tblName=TABLE[2], colNames=[b"c001", b"c150"], partNames=[*names, b"none"])
    args = spec.args("get_partitions_statistics_req")(request=request)

    def answered() -> tuple[bytes, int]:
        with shelf.reader.snapshot() as snapshot:
            proof = Proof("passthrough", exact=False)
            context = Context(snapshot, "get_partitions_statistics_req", True, proof)
            body = statistics.get_partitions_statistics_req(context, args)
        steps = 0
        if isinstance(body, Unfinished):
            body, steps = ended(body)
        return b"".join(body.pieces) if isinstance(body, Slices) else body, steps

    monkeypatch.setattr(portions, "TURN_NS", 10**12)
    at_once, steps = answered()
    assert steps == 0
    entry = one(b"c001").head.prefix + b"data"
    assert at_once.count(entry) == 30 and at_once.count(one(b"c150").head.prefix + b"data") == 30
    monkeypatch.setattr(portions, "TURN_NS", 0)
    if not joined:
        monkeypatch.setattr(base, "JOINED_BYTES", 100)
    assert answered() == (at_once, 30)
