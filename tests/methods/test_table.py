"""The method table covers every known method, and its rules give the right targets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hms_cache_proxy.cache import targets as t
from hms_cache_proxy.methods import shapes
from hms_cache_proxy.methods.plan import Plan
from hms_cache_proxy.methods.readers.every import READERS
from hms_cache_proxy.methods.table import METHODS, MethodKind
from hms_cache_proxy.wire import spec

HIVE = b"hive"


def test_every_known_method_has_one_row() -> None:
    assert set(METHODS) == set(spec.METHODS)


@pytest.mark.parametrize("name", sorted(METHODS))
def test_rules_name_fields_that_exist(name: str) -> None:
    row = METHODS[name]
    shapes.projection(name, tuple(path for rule in row.rules for path in rule.paths()))
    assert not (row.learn and not row.rules), "what is learned has dependencies"
    assert row.reads == (name in READERS)
    assert not (row.reads or row.learn) or row.kind is MethodKind.READ


def targets_of(method: str, **arguments: object) -> set[bytes]:
    message = spec.encode(spec.args(method)(**arguments))
    return set(Plan(METHODS[method]).targets(message, 0, HIVE))


def struct(struct_name: str, /, **fields: object) -> spec.Struct:
    return spec.struct(struct_name)(**fields)


def cases() -> Iterator[tuple[str, dict[str, object], set[bytes]]]:
    table, db, listing = t.table(HIVE, b"d", b"t"), t.database(HIVE, b"d"), t.tables(HIVE, b"d")
    new = struct("Table", dbName=b"d", tableName=b"T ")
    moved = struct("Table", dbName=b"e", tableName=b"u")
    yield "create_table", {"tbl": new}, {table, listing}
    yield "alter_table", {"dbname": b"@hive#D", "tbl_name": b" t", "new_tbl": new}, {table}
    both = {table, listing, t.table(HIVE, b"e", b"u"), t.tables(HIVE, b"e")}
    yield "alter_table", {"dbname": b"d", "tbl_name": b"t", "new_tbl": moved}, both
    request = struct("AlterTableRequest", catName=b"c", dbName=b"d", tableName=b"t", table=struct("Table"))
    yield "alter_table_req", {"req": request}, {t.table(b"c", b"d", b"t"), t.tables(b"c", b"d")}
    whole = {db, listing, t.databases(HIVE)}
    yield "drop_database", {"name": b"D", "cascade": True}, whole | {t.FUNCTIONS}
    yield "create_database", {"database": struct("Database", name=b"d")}, whole
    part = struct("Partition", dbName=b"d", tableName=b"t", values=[b"1"])
    other = struct("Partition", dbName=b"d", tableName=b"x", values=[b"1"])
    yield "add_partitions", {"new_parts": [part, other]}, {table, t.table(HIVE, b"d", b"x")}
    yield "get_table", {"dbname": b"d", "tbl_name": b"t"}, {table, db}
    by_name = {"dbname": b"d", "tbl_names": [b"t", b"X"]}
    yield "get_table_objects_by_name", by_name, {table, t.table(HIVE, b"d", b"x"), db}
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
    yield (
        "get_functions_req",
        {"request": struct("GetFunctionsRequest", dbName=b"d")},
        {t.FUNCTIONS, db},
    )
    yield "get_all_functions", {}, {t.FUNCTIONS}
    yield "drop_function", {"dbName": b"d", "funcName": b"f"}, {t.FUNCTIONS}
    yield "revoke_role", {"role": b"r"}, {t.ROLES}
    yield "alter_catalog", {"rqst": struct("AlterCatalogRequest", name=b"c")}, {t.CATALOGS}


@pytest.mark.parametrize(("method", "arguments", "expected"), list(cases()))
def test_targets(method: str, arguments: dict[str, object], expected: set[bytes]) -> None:
    assert targets_of(method, **arguments) == expected


def test_a_write_without_names_touches_nothing() -> None:
    assert targets_of("alter_table") == set()
    assert targets_of("add_partitions", new_parts=[]) == set()
    assert targets_of("create_type") == set()
