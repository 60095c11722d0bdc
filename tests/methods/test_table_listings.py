"""Lists of many tables: in slices, of one state, and declined as soon as their order is known to be the metastore's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hms_cache_proxy.cache import layout, targets
from hms_cache_proxy.cache.changes import Changes, TableStub
from hms_cache_proxy.cache.snapshot import CacheSnapshot
from hms_cache_proxy.cache.walk import ListingWalk
from hms_cache_proxy.consistency.gate import Reason
from hms_cache_proxy.errors import CacheError
from hms_cache_proxy.methods.proof import Proof
from hms_cache_proxy.methods.readers import listings
from hms_cache_proxy.methods.readers.base import Context, Decline, Slices, Unfinished
from hms_cache_proxy.store import encode
from hms_cache_proxy.wire import spec
from tests.cache.conftest import Shelf, shelf
from tests.cache.records import DATABASE, database, flat_table

__all__ = ["shelf"]

SUMMARY = encode.string_field(4, b"said") + encode.string_field(6, b"o") + encode.i32_field(7, 1) + encode.STOP
MANY = [b"t_%05d" % number for number in range(2 * listings.SLICE + 50)]


def fill(shelf: Shelf, names: list[bytes], summary: bytes | None = SUMMARY, **more: Any) -> None:
    lists = {targets.databases(b"hive"), targets.tables(*DATABASE)}
    records = {(*DATABASE, name): replace(flat_table(name, at + 1), summary=summary) for at, name in enumerate(names)}
    shelf.writer.commit(Changes(10, databases={DATABASE: database()}, complete=lists, tables=dict(records), **more))


def begun(shelf: Shelf, method: str, *, by_name: bool = True, **arguments: Any) -> bytes | Slices | Unfinished:
    with shelf.reader.snapshot() as snapshot:
        context = Context(snapshot, method, by_name, Proof("passthrough", exact=False))
        return getattr(listings, method)(context, spec.args(method)(**arguments))  # type: ignore[no-any-return]


def ended(body: bytes | Slices | Unfinished) -> tuple[bytes, int]:
    """The whole result, and in how many steps it came after the first."""
    steps = 0
    if isinstance(body, Unfinished):
        try:
            while True:
                steps += 1
                next(body.work)
        except StopIteration as done:
            body = done.value
    assert not isinstance(body, Unfinished)
    return (body if isinstance(body, bytes) else b"".join(body.pieces)), steps


def listed(shelf: Shelf, method: str, **arguments: Any) -> list[Any]:
    body, _ = ended(begun(shelf, method, **arguments))
    found: list[Any] = spec.decode(spec.result(method), body)[0].success
    return found


@pytest.mark.parametrize(
    ("method", "arguments"), [("get_all_tables", {"db_name": b"sales"}), ("get_table_meta", {"db_patterns": b"sales"})]
)
def test_in_slices_of_one_state(shelf: Shelf, method: str, arguments: dict[str, Any]) -> None:
    fill(shelf, MANY)
    body = begun(shelf, method, **arguments)
    shelf.writer.commit(Changes(11, tables={(*DATABASE, MANY[-1]): None}))
    result, steps = ended(body)
    assert steps == 2, "each looks at so many names, at most"
    found = spec.decode(spec.result(method), result)[0].success
    assert [getattr(one, "tableName", one) for one in found] == MANY
    assert len(listed(shelf, method, **arguments)) == len(MANY) - 1


def test_what_is_said_of_a_table(shelf: Shelf) -> None:
    fill(shelf, MANY)
    (row,) = listed(shelf, "get_table_meta", db_patterns=b"sales", tbl_patterns=b"t_00003")
    said = (row.dbName, row.tableName, row.tableType, row.comments, row.catName, row.ownerName, row.ownerType)
    assert said == (b"sales", b"t_00003", b"MANAGED_TABLE", b"said", b"hive", b"o", 1)


def test_a_long_result_is_not_joined(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(shelf, MANY)
    whole = ended(begun(shelf, "get_all_tables", db_name=b"sales"))[0]
    monkeypatch.setattr(listings, "JOINED_BYTES", 1000)
    body = begun(shelf, "get_all_tables", db_name=b"sales")
    assert isinstance(body, Unfinished)
    with pytest.raises(StopIteration) as done:
        while True:
            next(body.work)
    assert isinstance(done.value.value, Slices) and b"".join(done.value.value.pieces) == whole


@pytest.mark.parametrize("pattern", [b"*", b"t_*", b"*1", None], ids=str)
def test_the_second_table_ends_a_list_that_is_the_metastores_to_order(shelf: Shelf, pattern: bytes | None) -> None:
    fill(shelf, MANY)
    with pytest.raises(Decline) as declined:
        begun(shelf, "get_tables", by_name=False, db_name=b"sales", pattern=pattern)
    assert declined.value.reason is Reason.ORDER
    assert listed(shelf, "get_tables", by_name=False, db_name=b"sales", pattern=b"t_00003|x") == [b"t_00003"]


def test_hive_orders_names_of_one_type(shelf: Shelf) -> None:
    fill(shelf, MANY)
    asked = {"db_name": b"sales", "tableType": b"MANAGED_TABLE"}
    assert listed(shelf, "get_tables_by_type", by_name=False, pattern=b"t*", **asked) == MANY
    for pattern in (None, b".*"):
        with pytest.raises(Decline) as declined:
            begun(shelf, "get_tables_by_type", by_name=False, pattern=pattern, **asked)
        assert declined.value.reason is Reason.ORDER
    assert listed(shelf, "get_tables_by_type", db_name=b"sales", pattern=b"*", tableType=b"VIRTUAL_VIEW") == []


@pytest.mark.parametrize(("summary", "loaded", "reason"), [(None, True, "not_cached"), (SUMMARY, False, "not_loaded")])
def test_what_is_not_known_of_a_table_is_asked(shelf: Shelf, summary: bytes | None, loaded: bool, reason: str) -> None:
    """Over Thrift the store does not tell what get_table_meta says; a table that is not loaded is not followed."""
    asked: dict[str, dict[str, Any]] = {
        "get_table_meta": {"db_patterns": b"sales"},
        "get_tables_by_type": {"db_name": b"sales", "pattern": b"*", "tableType": b"MANAGED_TABLE"},
    }
    stubs = {} if loaded else {(*DATABASE, b"u"): TableStub(99, b"MANAGED_TABLE", "excluded")}
    fill(shelf, [b"t"], summary, stubs=stubs)
    for method, arguments in asked.items():
        with pytest.raises(Decline) as declined:
            begun(shelf, method, **arguments)
        assert declined.value.reason.value == reason
    assert listed(shelf, "get_table_meta", db_patterns=b"sales", tbl_types=[b"VIRTUAL_VIEW"]) == []
    assert listed(shelf, "get_all_tables", db_name=b"sales") == ([b"t"] if loaded else [b"t", b"u"])


def test_long_names_and_databases_with_a_common_beginning(shelf: Shelf) -> None:
    names = sorted([b"a", b"b" * 600, b"b" * 600 + b"1", b"b" * 700, b"c"])
    fill(shelf, names)
    elsewhere = (b"hive", b"sales2", b"d")
    lists = {targets.tables(*elsewhere[:2])}
    shelf.writer.commit(Changes(11, tables={elsewhere: flat_table(b"d", 999)}, complete=lists))

    def walked(snapshot: CacheSnapshot, prefix: bytes, most: int) -> list[bytes]:
        walk: ListingWalk = snapshot.walk_tables(*DATABASE, prefix)
        found: list[bytes] = []
        while rows := walk.rows(most):
            found += [name for name, _ in rows]
        walk.close()
        with pytest.raises(CacheError):
            walk.rows(1)
        return found

    with shelf.reader.snapshot() as snapshot:
        for prefix in (b"", b"a", b"b", b"b" * 510, b"b" * 600, b"b" * 650, b"c", b"x"):
            wanted = [name for name in names if name.startswith(prefix)]
            for most in (1, 2, 100):
                assert walked(snapshot, prefix, most) == wanted, (prefix, most, layout.KEY_BYTES)
