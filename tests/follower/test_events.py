"""What each type of event affects: playbooks of row -> objects, and that no row raises."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hms_cache_proxy.cache import targets
from hms_cache_proxy.follower.affected import NOTHING, Affected
from hms_cache_proxy.follower.events import HANDLERS, affects
from hms_cache_proxy.store.protocol import TableKey
from tests.follower import rows

T: TableKey = (b"hive", b"d", b"t")
U: TableKey = (b"hive", b"d", b"u")
D = (b"hive", b"d")


def test_create_and_drop_table_name_the_list_and_all_partitions() -> None:
    for type in ("CREATE_TABLE", "DROP_TABLE"):
        affected, result = affects(rows.row(type, {"tableObjJson": rows.table()}))
        assert result == "applied"
        assert affected.tables == {T}
        assert affected.partitions == {T: None}
        names = {targets.CONSTRAINTS} if type == "DROP_TABLE" else set()
        assert affected.targets == {targets.table(*T), targets.tables(*D), *names}


def altered(before: str, after: str, **columns: Any) -> Affected:
    message = {"tableObjBeforeJson": before, "tableObjAfterJson": after, "db": "d", "table": "t"}
    affected, result = affects(rows.row("ALTER_TABLE", message, **columns))
    assert result == "applied"
    return affected


def test_alter_of_parameters_leaves_partitions_alone() -> None:
    affected = altered(rows.table(), rows.table(parameters={"EXTERNAL": "TRUE", "x": "1"}))
    assert affected == Affected(tables=frozenset({T}), targets=frozenset({targets.table(*T)}))


@pytest.mark.parametrize(
    "change",
    [
        {"cols": ("a", "b")},
        {"cols": ("b",)},
        {"location": "file:/elsewhere"},
        {"keys": ("q",)},
        {"id": 8},
        {"kind": "MANAGED_TABLE"},
        {"parameters": {"EXTERNAL": "FALSE"}},
        {"parameters": {"EXTERNAL": "TRUE", "transactional": "true"}},
    ],
)
def test_alter_that_reaches_partitions(change: dict[str, Any]) -> None:
    affected = altered(rows.table(), rows.table(**change))
    assert affected.partitions == {T: None}


def test_rename_names_both_tables_and_both_lists() -> None:
    affected = altered(rows.table(), rows.table("U", "E"), table="u", db="e")
    new = (b"hive", b"e", b"u")
    assert affected.tables == {T, new}
    assert affected.partitions == {T: None, new: None}
    lists = {targets.tables(*D), targets.tables(b"hive", b"e")}
    assert affected.targets == lists | {targets.table(*T), targets.table(*new)}


def test_partitions_are_named_in_the_order_of_the_tables_keys() -> None:
    message = {
        "tableObjJson": rows.table(keys=("p", "q")),
        "partitions": [{"q": "x/y", "p": "1"}, {"p": "", "q": "2"}],
    }
    for type in ("ADD_PARTITION", "DROP_PARTITION", "ALTER_PARTITIONS"):
        affected, result = affects(rows.row(type, message))
        assert result == "applied"
        assert affected.tables == {T}
        assert affected.partitions == {T: {b"p=1/q=x%2Fy", b"p=__HIVE_DEFAULT_PARTITION__/q=2"}}
        assert affected.targets == {targets.table(*T)}


def test_partitions_of_hive_2_are_named_without_a_table() -> None:
    affected, _ = affects(rows.row("DROP_PARTITION", {"partitions": [{"p": "1"}]}, format="json-0.2", cat=None))
    assert affected.partitions == {T: {b"p=1"}}


def test_alter_partition_names_before_and_after() -> None:
    message = {
        "tableObjJson": rows.table(),
        "partitionObjBeforeJson": rows.partition("1"),
        "partitionObjAfterJson": rows.partition("2"),
        "keyValues": {"p": "1"},
    }
    assert affects(rows.row("ALTER_PARTITION", message))[0].partitions == {T: {b"p=1", b"p=2"}}
    del message["tableObjJson"]
    assert affects(rows.row("ALTER_PARTITION", message))[0].partitions == {T: {b"p=1", b"p=2"}}


def test_insert() -> None:
    message = {"tableObjJson": rows.table(), "ptnObjJson": rows.partition("9"), "files": []}
    assert affects(rows.row("INSERT", message))[0].partitions == {T: {b"p=9"}}
    assert affects(rows.row("INSERT", {"partKeyVals": {"p": "9"}}))[0].partitions == {T: {b"p=9"}}
    assert affects(rows.row("INSERT", {"tableObjJson": rows.table(keys=())}))[0].tables == {T}


def test_statistics_reach_parameters() -> None:
    message: dict[str, Any] = {"tableObjJson": rows.table(), "partVals": ["1"]}
    assert affects(rows.row("UPDATE_PART_COL_STAT_EVENT", message))[0].partitions == {T: {b"p=1"}}
    message = {"partName": "p=1", "partValues": ["1"]}
    assert affects(rows.row("DELETE_PART_COL_STAT_EVENT", message))[0].partitions == {T: {b"p=1"}}
    assert affects(rows.row("UPDATE_TBL_COL_STAT_EVENT", {}))[0].tables == {T}
    assert affects(rows.row("UPDATE_PART_COL_STAT_EVENT_BATCH", {}))[0].partitions == {T: None}


def test_databases() -> None:
    for type in ("CREATE_DATABASE", "DROP_DATABASE"):
        affected, _ = affects(rows.row(type, {"db": "d"}, table=None))
        assert affected.databases == affected.lists == {D}
        assert targets.databases(b"hive") in affected.targets
        assert targets.tables(*D) in affected.targets
    message = {"dbObjBeforeJson": rows.database("d"), "dbObjAfterJson": rows.database("d", None)}
    affected, _ = affects(rows.row("ALTER_DATABASE", message, table=None))
    assert affected == Affected(databases=frozenset({D}), targets=frozenset({targets.database(*D)}))
    message["dbObjAfterJson"] = rows.database("e", None)
    affected, _ = affects(rows.row("ALTER_DATABASE", message, table=None))
    assert affected.databases == affected.lists == {D, (b"hive", b"e")}


def test_foreign_key_names_the_referring_table() -> None:
    key = json.dumps({"1": {"str": "d"}, "2": {"str": "t"}, "4": {"str": "d"}, "5": {"str": "u"}})
    assert affects(rows.row("ADD_FOREIGNKEY", {"foreignKeyListJson": [key]}))[0].tables == {T, U}


@pytest.mark.parametrize(
    ("kind", "listed", "places"),
    [
        ("PRIMARYKEY", "primaryKeyListJson", ("9", "1", "2")),
        ("UNIQUECONSTRAINT", "uniqueConstraintListJson", ("1", "2", "3")),
        ("NOTNULLCONSTRAINT", "notNullConstraintListJson", ("1", "2", "3")),
        ("DEFAULTCONSTRAINT", "defaultConstraintListJson", ("1", "2", "3")),
        ("CHECKCONSTRAINT", "checkConstraintListJson", ("1", "2", "3")),
    ],
)
def test_constraints_name_all_of_their_tables(kind: str, listed: str, places: tuple[str, str, str]) -> None:
    """The row names that of the first only."""

    def constraint(*names: str | None) -> str:
        return json.dumps({place: {"str": name} for place, name in zip(places, names, strict=True) if name})

    message = {listed: [constraint("hive", "d", "t"), constraint(None, "D", "u"), constraint("c", "d", "t")]}
    affected, result = affects(rows.row(f"ADD_{kind}", message))
    assert result == "applied"
    assert affected.tables == affected.constrained == {T, U, (b"c", b"d", b"t")}
    assert affected.targets == {targets.table(*key) for key in affected.tables}


def test_transactions() -> None:
    message: dict[str, Any] = {"dbName": "d", "tableName": "t", "txnIdList": [3, 4], "writeIdList": [1, 2]}
    for cat, db, table in (("hive", "d", "t"), (None, "d", None)):
        affected, result = affects(rows.row("ALLOC_WRITE_ID_EVENT", message, cat=cat, db=db, table=table))
        assert (affected.write_ids, result) == ({(3, T), (4, T)}, "applied")
    bare: dict[str, Any] = {"cat": None, "db": "null", "table": None}
    assert affects(rows.row("COMMIT_TXN", {"txnid": 3}, **bare))[0] == Affected(ended=frozenset({3}))
    assert affects(rows.row("OPEN_TXN", {"txnIds": None}, **bare)) == (NOTHING, "ignored")


def test_functions_and_compaction_and_reload() -> None:
    affected, _ = affects(rows.row("CREATE_FUNCTION", {"functionName": "f"}, table=None))
    assert affected == Affected(targets=frozenset({targets.FUNCTIONS}))
    message = {"dbname": "d", "tableName": "t", "partName": "p=1"}
    assert affects(rows.row("COMMIT_COMPACTION_EVENT", message, db=None, table=None))[0].partitions == {T: {b"p=1"}}
    assert affects(rows.row("RELOAD", {"refreshEvent": "true"}))[0].partitions == {T: None}


def test_what_is_not_understood_names_the_narrowest() -> None:
    affected, result = affects(rows.row("FROBNICATED", {}))
    assert (result, affected.partitions, affected.lists) == ("unknown", {T: None}, {D})
    affected, result = affects(rows.row("FROBNICATED", {}, table=None))
    assert (result, affected.databases, affected.reload) == ("unknown", {D}, {D})
    affected, result = affects(rows.row("FROBNICATED", {}, db=None, table=None))
    assert (result, affected.everything) == ("unknown", True)
    affected, result = affects(rows.row("ADD_PARTITION", "???"))
    assert (result, affected.partitions) == ("poison", {T: None})
    affected, result = affects(rows.row("ALTER_TABLE", "???"))
    assert (result, affected.all_lists) == ("poison", True)
    affected, result = affects(rows.row("ADD_FOREIGNKEY", "???"))
    assert (result, affected.everything) == ("poison", True)


@pytest.mark.parametrize("odd", [7, True, "x", [1], {"a": 1}, [["a"]]])
@pytest.mark.parametrize("field", ["writeId", "partitionListJson", "keyValues"])
def test_a_field_of_another_type_does_not_stop_the_log(field: str, odd: object) -> None:
    """Rows of other listeners: an error here would come again in every step."""
    transactional = {"tableObjJson": rows.table(parameters={"transactional": "true"})} if field != "keyValues" else {}
    message = {
        **transactional,
        "partitions": [{"p": "1"}],
        "partitionObjBeforeJson": rows.partition("1"),
        "partitionObjAfterJson": rows.partition("1"),
        field: odd,
    }
    for type in ("ADD_PARTITION", "ALTER_PARTITION", "ALTER_PARTITIONS", "UPDATE_TBL_COL_STAT_EVENT"):
        affected, result = affects(rows.row(type, message))
        assert result in ("applied", "poison") and T in affected.tables


def test_names_are_folded() -> None:
    affected, _ = affects(rows.row("CREATE_TABLE", {}, db=" D", table="T "))
    assert affected.tables == {T}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["", "a", "1", "str", "\ud800"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["1", "lst", "str", "p"]), inner, max_size=3)
    ),
    max_leaves=5,
)
FIELDS = [
    *(
        "tableObjJson",
        "partitions",
        "partitionObjBeforeJson",
        "partitionObjAfterJson",
        "keyValues",
        "partitionListJson",
        "ptnObjJson",
        "writeId",
    ),
    *("partKeyVals", "partVals", "partName", "tableObjBeforeJson", "tableObjAfterJson", "dbObjBeforeJson"),
    *(
        "dbObjAfterJson",
        "foreignKeyListJson",
        "dbName",
        "tableName",
        "txnIdList",
        "txnid",
        "dbname",
        "database",
    ),
    *("table", "partition"),
]


@given(
    st.sampled_from(sorted(HANDLERS)),
    st.dictionaries(st.sampled_from(FIELDS), JSON | JSON.map(json.dumps), max_size=4),
    st.sampled_from([None, "", "d", "null"]),
    st.sampled_from([None, "", "t"]),
)
def test_no_row_raises(type: str, message: dict[str, Any], db: str | None, table: str | None) -> None:
    affected, result = affects(rows.row(type, message, db=db, table=table, cat=None, format="json-0.2"))
    assert result in ("applied", "ignored", "poison")
    assert (result == "ignored") <= affected.nothing


@given(
    st.lists(
        st.sampled_from(
            [Affected(tables=frozenset({T}), partitions={T: n}) for n in (None, frozenset({b"a"}), frozenset({b"b"}))]
        )
    )
)
def test_merge_is_wholesale_if_any_is(parts: list[Affected]) -> None:
    merged = Affected.merge(parts)
    if not parts:
        assert merged.nothing
    elif any(part.partitions[T] is None for part in parts):
        assert merged.partitions[T] is None
    else:
        assert merged.partitions[T] == frozenset().union(*(part.partitions[T] or () for part in parts))
