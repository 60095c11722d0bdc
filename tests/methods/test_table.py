"""The method table covers every known method, and its rules give the right targets."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hms_cache_proxy.cache import targets as t
from hms_cache_proxy.methods import projections, shapes
from hms_cache_proxy.methods.decision import ClientCall, Forward
from hms_cache_proxy.methods.effects import FencedWrite
from hms_cache_proxy.methods.method_plan import Plan
from hms_cache_proxy.methods.readers.registry import READERS
from hms_cache_proxy.methods.table import METHODS, MethodKind
from hms_cache_proxy.wire import facts, spec
from hms_cache_proxy.wire.message import Header, parse_header
from tests.methods.oracle import request as call
from tests.methods.warm import opened

HIVE = b"hive"


def test_every_known_method_has_one_row() -> None:
    assert set(METHODS) == set(facts.METHODS)


@pytest.mark.parametrize("name", sorted(METHODS))
def test_rules_name_fields_that_exist(name: str) -> None:
    row = METHODS[name]
    rules = (*row.rules, *row.silent_before_4, *row.silent_in_4)
    projections.projection(name, tuple(path for rule in rules for path in rule.paths()))
    assert not (row.learn and not row.rules), "what is learned has dependencies"
    assert row.reads == (name in READERS)
    assert not (row.reads or row.learn) or row.kind is MethodKind.READ


def targets_of(method: str, **arguments: object) -> set[bytes]:
    message = spec.encode(spec.args(method)(**arguments))
    return set(Plan(METHODS[method]).targets(message, 0))


def struct(struct_name: str, /, **fields: object) -> spec.Struct:
    return spec.struct(struct_name)(**fields)


def cases() -> Iterator[tuple[str, dict[str, Any], set[bytes]]]:
    table, db, listing = t.table(HIVE, b"d", b"t"), t.database(HIVE, b"d"), t.tables(HIVE, b"d")
    new = struct("Table", dbName=b"d", tableName=b"T ")
    moved = struct("Table", dbName=b"e", tableName=b"u")
    yield "create_table", {"tbl": new}, {table, listing}
    yield "alter_table", {"dbname": b"@hive#D", "tbl_name": b" t", "new_tbl": new}, {table}
    both = {table, listing, t.table(HIVE, b"e", b"u"), t.tables(HIVE, b"e")}
    yield "alter_table", {"dbname": b"d", "tbl_name": b"t", "new_tbl": moved}, both
    request = struct("AlterTableRequest", catName=b"c", dbName=b"d", tableName=b"t", table=struct("Table"))
    yield "alter_table_req", {"req": request}, {t.table(b"c", b"d", b"t"), t.tables(b"c", b"d")}
    both = {t.table(b"c", b"d", b"t"), t.tables(b"c", b"d"), t.table(b"c", b"e", b"u"), t.tables(b"c", b"e")}
    yield "alter_table", {"dbname": b"@c#d", "tbl_name": b"t", "new_tbl": moved}, both  # the catalog stays the same
    whole = {db, listing, t.databases(HIVE)}
    yield "drop_database", {"name": b"D", "cascade": True}, whole | {t.FUNCTIONS}
    yield "create_database", {"database": struct("Database", name=b"d")}, whole
    part = struct("Partition", dbName=b"d", tableName=b"t", values=[b"1"])
    other = struct("Partition", dbName=b"d", tableName=b"x", values=[b"1"])
    yield "add_partitions", {"new_parts": [part, other]}, {table, t.table(HIVE, b"d", b"x")}
    yield "get_table", {"dbname": b"d", "tbl_name": b"t"}, {table, db}
    by_name = {"dbname": b"d", "tbl_names": [b"t", b"X"]}
    yield "get_table_objects_by_name", by_name, {table, t.table(HIVE, b"d", b"x"), db}
    by_pattern = struct("GetTablesRequest", dbName=b"d", tblNames=[b"t"], tablesPattern=b"x*")
    yield "get_table_objects_by_name_req", {"req": by_pattern}, {table, db, listing, t.members(HIVE, b"d")}
    yield "get_databases", {"pattern": b"@c#x*"}, {t.databases(b"c")}
    component = struct("LockComponent", dbname=b"d", tablename=b"t")
    wide = struct("LockComponent", dbname=b"d")
    yield "lock", {"rqst": struct("LockRequest", component=[component, wide])}, {table, db}
    key = struct("CommitTxnKeyValue", tableId=1, key=b"_meta", value=b"v")
    yield "commit_txn", {"rqst": struct("CommitTxnRequest", txnid=1, keyValue=key)}, {t.UNKNOWN}
    yield "commit_txn", {"rqst": struct("CommitTxnRequest", txnid=1)}, set()
    kelvin = {"dbname": b"d", "name": "\u212aey".encode()}
    yield "drop_table", kelvin, {t.table(HIVE, b"d", b"key"), listing}
    foreign = struct("SQLForeignKey", pktable_db=b"d", pktable_name=b"t", fktable_db=b"d", fktable_name=b"x")
    keys = {"req": struct("AddForeignKeyRequest", foreignKeyCols=[foreign])}
    yield "add_foreign_key", keys, {table, t.table(HIVE, b"d", b"x")}
    yield from constrained_cases()
    yield (
        "get_functions_req",
        {"request": struct("GetFunctionsRequest", dbName=b"d")},
        {t.FUNCTIONS, db},
    )
    yield "get_all_functions", {}, {t.FUNCTIONS}
    yield "drop_function", {"dbName": b"d", "funcName": b"f"}, {t.FUNCTIONS}
    yield "revoke_role", {"role": b"r"}, {t.ROLES, t.WIDE_RIGHTS}
    yield from rights_cases()
    yield "alter_catalog", {"rqst": struct("AlterCatalogRequest", name=b"c")}, {t.CATALOGS}


def constrained_cases() -> Iterator[tuple[str, dict[str, Any], set[bytes]]]:
    """A table is created with constraints of others: each row names a table, in the new one's catalog if it, or the
    first, names none."""
    for catalog in (None, b"c"):
        home = HIVE if catalog is None else catalog
        made = struct("Table", catName=catalog, dbName=b"d", tableName=b"new")
        new = {t.table(home, b"d", b"new"), t.tables(home, b"d")}
        for kind, name in (
            ("primaryKeys", "SQLPrimaryKey"),
            ("uniqueConstraints", "SQLUniqueConstraint"),
            ("notNullConstraints", "SQLNotNullConstraint"),
            ("defaultConstraints", "SQLDefaultConstraint"),
            ("checkConstraints", "SQLCheckConstraint"),
        ):
            rows = [struct(name, table_db=b"d", table_name=b"New"), struct(name, table_db=b"e", table_name=b"T")]
            rows.append(struct(name, catName=b"x", table_db=b"e", table_name=b"u"))
            expected = {t.table(home, b"e", b"t"), t.table(home, b"e", b"u"), t.table(b"x", b"e", b"u")}
            yield "create_table_with_constraints", {"tbl": made, kind: rows}, new | expected
            yield (
                "create_table_req",
                {"request": struct("CreateTableRequest", table=made, **{kind: rows})},
                new | expected,
            )
        key = struct("SQLForeignKey", pktable_db=b"e", pktable_name=b"t", fktable_db=b"d", fktable_name=b"u")
        both = new | {t.table(home, b"e", b"t"), t.table(home, b"d", b"u")}
        yield "create_table_with_constraints", {"tbl": made, "foreignKeys": [key]}, both
        yield "create_table_req", {"request": struct("CreateTableRequest", table=made, foreignKeys=[key])}, both


def privileges(*on: spec.Struct | None) -> spec.Struct:
    return struct("PrivilegeBag", privileges=[struct("HiveObjectPrivilege", hiveObject=one) for one in on])


def rights_cases() -> Iterator[tuple[str, dict[str, Any], set[bytes]]]:
    def ref(kind: int | None, db: bytes | None = None, name: bytes | None = None, **more: object) -> spec.Struct:
        return struct("HiveObjectRef", objectType=kind, dbName=db, objectName=name, **more)

    table, db = t.rights(HIVE, b"d", b"t"), t.rights(HIVE, b"d")
    for kind in (3, 4, 5):
        on = ref(kind, b"D", b"T ", partValues=[b"1"], columnName=b"c")
        yield "grant_privileges", {"privileges": privileges(on)}, {t.ROLES, table}
    both = privileges(ref(3, b"@c#d", b"t"), ref(2, b"d"), ref(3, b"d", b"t", catName=b"x"))
    found = {t.ROLES, t.rights(b"c", b"d", b"t"), db, t.rights(b"x", b"d", b"t")}
    yield "revoke_privileges", {"privileges": both}, found
    for one in (ref(1), ref(6, b"d", b"t"), ref(None, b"d", b"t"), ref(3, b"d"), ref(2), None):
        request = struct("GrantRevokePrivilegeRequest", privileges=privileges(ref(2, b"d"), one))
        yield "grant_revoke_privileges", {"request": request}, {t.ROLES, db, t.WIDE_RIGHTS}
    request = struct("GrantRevokePrivilegeRequest", privileges=privileges(ref(2, b"d")))
    refreshed = {"objToRefresh": ref(5, b"d", b"t"), "authorizer": b"a", "grantRequest": request}
    yield "refresh_privileges", refreshed, {t.ROLES, table, db}
    yield "refresh_privileges", {"grantRequest": request}, {t.ROLES, t.WIDE_RIGHTS, db}


def test_many_privileges() -> None:
    """Of a request of which only the beginning is there, the rest may be about anything."""
    on = struct("HiveObjectRef", objectType=3, dbName=b"d", objectName=b"t")
    message = spec.encode(spec.args("grant_privileges")(privileges=privileges(*[on] * 10)))
    found = Plan(METHODS["grant_privileges"]).targets_of_beginning(message[:-20], 0)
    assert set(found) == {t.ROLES, t.WIDE_RIGHTS}


def in_lists() -> Iterator[tuple[str, dict[str, object]]]:
    """Lists of which each element is about another table."""
    components = [struct("LockComponent", type=2, level=2, dbname=b"d", tablename=b"t%d" % n) for n in range(9)]
    yield "lock", {"rqst": struct("LockRequest", component=components)}
    keys = [
        struct("SQLForeignKey", pktable_db=b"d", pktable_name=b"t%d" % n, fktable_db=b"d", fktable_name=b"t")
        for n in range(9)
    ]
    yield "add_foreign_key", {"req": struct("AddForeignKeyRequest", foreignKeyCols=keys)}
    unique = [struct("SQLUniqueConstraint", table_db=b"d", table_name=b"t%d" % n) for n in range(9)]
    yield "add_unique_constraint", {"req": struct("AddUniqueConstraintRequest", uniqueConstraintCols=unique)}


@pytest.mark.parametrize(("method", "arguments"), list(in_lists()))
def test_what_the_beginning_of_a_list_names_is_not_all(method: str, arguments: dict[str, object]) -> None:
    message = spec.encode(spec.args(method)(**arguments))
    assert len(set(Plan(METHODS[method]).targets(message, 0))) >= 9
    assert Plan(METHODS[method]).targets_of_beginning(message[:-20], 0) == (t.ALL,)


@pytest.mark.parametrize(("method", "arguments", "expected"), list(cases()))
def test_targets(method: str, arguments: dict[str, object], expected: set[bytes]) -> None:
    assert targets_of(method, **arguments) == expected


def statistics(*names: bytes) -> spec.Struct:
    described = (struct("ColumnStatisticsDesc", dbName=b"D", tableName=b"t", partName=name or None) for name in names)
    return struct(
        "SetPartitionsStatsRequest", colStats=[struct("ColumnStatistics", statsDesc=one) for one in described]
    )


def silent_cases() -> Iterator[tuple[str, dict[str, Any], set[bytes]]]:
    """What a write asks to be read again where it is not logged: the partitions that it names."""
    p1, p2 = (t.called(HIVE, b"d", b"t", name) for name in (b"p=1", b"p=2"))
    yield "set_aggr_stats_for", {"request": statistics(b"p=1", b"p=2")}, {p1, p2}
    yield "set_aggr_stats_for", {"request": statistics(b"")}, set()  # of the table itself
    one = statistics(b"p=1").colStats[0]  # type: ignore[attr-defined]
    yield "update_partition_column_statistics", {"stats_obj": one}, {p1}
    named = {"db_name": b"d", "tbl_name": b"t", "part_name": b"p=2", "col_name": b"c"}
    yield "delete_partition_column_statistics", named, {p2}
    yield "alter_table", {"dbname": b"d", "tbl_name": b"t"}, set()


@pytest.mark.parametrize(("method", "arguments", "expected"), list(silent_cases()))
def test_partitions_of_writes_that_are_not_logged(
    method: str, arguments: dict[str, object], expected: set[bytes]
) -> None:
    found, message = Plan(METHODS[method]), spec.encode(spec.args(method)(**arguments))
    assert set(found.silent(message, 0, complete=True)) == expected
    all_of_them = {t.partitions(HIVE, b"d", b"t")} if METHODS[method].silent_before_4 else set()
    assert set(found.silent(message, 0, complete=False)) == all_of_them
    if expected:
        assert found.silent(b"\x0b", 0, complete=True) == (t.ALL,)


@pytest.mark.parametrize("merged", [True, False, None])
def test_partitions_whose_statistics_hive_4_may_not_merge(merged: bool | None) -> None:
    """It then changes their parameters, and logs nothing."""
    request = statistics(b"p=1", b"p=2")
    request.needMerge = merged
    found, message = Plan(METHODS["set_aggr_stats_for"]), spec.encode(spec.args("set_aggr_stats_for")(request=request))
    named = {t.called(HIVE, b"d", b"t", name) for name in (b"p=1", b"p=2")}
    assert set(found.silent(message, 0, complete=True, in_4=True)) == (named if merged else set())
    assert set(found.silent(message, 0, complete=False, in_4=True)) == {t.partitions(HIVE, b"d", b"t")}
    with pytest.raises(StopIteration) as done:
        work = found.understand(message, 0)
        while True:
            next(work)
    assert set(done.value.value.silent_in_4) == (named if merged else set())


def test_they_are_fenced(tmp_path: Path) -> None:
    """The follower reads them again after the write, as no event tells it to. A worker that has not yet read the cache
    does not know the release: other workers may answer from it."""
    fenced = []
    with opened(tmp_path) as bench:

        def write(*, merged: bool) -> None:
            request = statistics(b"p=1")
            request.needMerge = merged
            message = call("set_aggr_stats_for", {"request": request})
            header = parse_header(message)
            assert isinstance(header, Header)
            found = bench.dispatcher.decide(ClientCall.of(bench.session, header, message, time.monotonic_ns()))
            assert isinstance(found, Forward) and isinstance(found.pending, FencedWrite)
            fenced.append(t.called(HIVE, b"d", b"t", b"p=1") in found.pending.targets)

        write(merged=False)
        bench.reader.snapshot().close()
        write(merged=False)
        write(merged=True)
    assert fenced == [True, False, True]


def test_truncated_partitions() -> None:
    """Those of the list; all of them where there is none, only its beginning, or too many."""
    table, every = t.table(HIVE, b"d", b"t"), t.partitions(HIVE, b"d", b"t")
    named = {"dbName": b"d", "tableName": b"t"}
    assert targets_of("truncate_table", **named, partNames=[b"p=1"]) == {table, t.called(HIVE, b"d", b"t", b"p=1")}
    assert targets_of("truncate_table", **named, partNames=[]) == {table, every}
    many = [b"p=%d" % number for number in range(shapes.MOST_CALLED + 1)]
    assert targets_of("truncate_table", **named, partNames=many) == {table, every}
    message = spec.encode(spec.args("truncate_table")(**named, partNames=many[:10]))
    assert set(Plan(METHODS["truncate_table"]).targets_of_beginning(message[:-20], 0)) == {table, every}


def test_a_write_without_names_touches_nothing() -> None:
    assert targets_of("alter_table") == set()
    assert targets_of("add_partitions", new_parts=[]) == set()
    assert targets_of("create_type") == set()
