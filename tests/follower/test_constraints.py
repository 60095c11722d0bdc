"""Constraints are followed like their tables: each change of them, in the cache, is what the metastore says."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import pytest

from hms_cache_proxy.cache.attachments import UNCONSTRAINED, ConstraintsEntry
from hms_cache_proxy.cache.entries import ABSENT, TableEntry
from hms_cache_proxy.store.foreign_keys import Parent, foreign_keys, key_columns, known, shown
from hms_cache_proxy.store.protocol import ConstraintKind
from tests.follower.harness import CATALOG, Followed
from tests.store.constrained import Constrained
from tests.store.oracle import Oracle, hms
from tests.testbed.metastore import Metastore
from tests.testbed.untyped import decode_struct

pytestmark = pytest.mark.real
FOREIGN_KEYS = 2


def entry(followed: Followed, made: Constrained, table: str) -> tuple[TableEntry, ConstraintsEntry]:
    with followed.reader.snapshot() as cache:
        found = cache.table(CATALOG, made.database.encode(), table.encode())
        assert found is not None and found is not ABSENT and found.body is not None, table
        constraints = cache.constraints(found)
    assert constraints is not None
    return found, constraints


def compare(followed: Followed, made: Constrained, tables: list[str]) -> None:
    followed.loaded()
    for table in tables:
        _, constraints = entry(followed, made, table)
        answers = made.answers(table)
        assert sorted(map(repr, foreign_of(followed, constraints))) == sorted(map(repr, answers.pop(FOREIGN_KEYS))), (
            table
        )
        for field, answer in answers.items():
            number, elements = constraints.list(ConstraintKind(field))
            assert number == len(answer)
            assert sorted(map(repr, split(elements, number))) == sorted(map(repr, answer)), (table, field)


def foreign_of(followed: Followed, constraints: ConstraintsEntry) -> list[Any]:
    """The foreign keys as a reader shows them."""
    found = []
    with followed.reader.snapshot() as cache:
        for key in foreign_keys(*constraints.list(ConstraintKind.FOREIGN_KEY)):
            parent = cache.constrained(key.parent)
            assert parent is not None
            places = parent.list(ConstraintKind.PLACES).elements
            columns = key_columns(*parent.list(ConstraintKind.PRIMARY_KEY), places)
            database, table = parent.owner.split(b"\0")[1:]
            there = Parent(database, table, columns)
            assert known(key, there)
            element = shown(key, there)
            if element is not None:
                found.append(decode_struct(element))
    return found


def split(elements: bytes, number: int) -> list[object]:
    listed = b"\x0f\0\1\x0c" + number.to_bytes(4, "big") + elements + b"\0"
    return list(decode_struct(listed)[1][1])


def test_constraints_are_followed(hms42: Metastore, oracle: Oracle, follow: Callable[..., Followed], name: str) -> None:
    made = Constrained(oracle, name + "_c")
    made.create()
    tables = ["unconstrained", "one_each", "many", "on_keys", "altered", "parent", "child", "child_and_more"]
    followed = follow(hms42)
    compare(followed, made, tables)
    assert not entry(followed, made, "parent")[1].parents

    made.primary_key("unconstrained", ["c", "b"])
    made.unique("unconstrained", "uk", ["a"])
    made.not_null("unconstrained", ["b", "a"])
    made.default("unconstrained", ["d"], "7")
    made.check("unconstrained", ["d"])
    made.foreign_key("many", "parent", [("c", "a"), ("a", "b")])
    made.drop("one_each", made.name("pk", "one_each", None))
    made.drop("one_each", made.name("ck", "one_each", "e"))
    made.alter_columns("on_keys", ["z"])
    made.rename("parent", "parent_of_all")
    tables[tables.index("parent")] = "parent_of_all"
    compare(followed, made, tables)
    assert entry(followed, made, "many")[1].parents

    made.rename("one_each", "renamed")
    made.rename("many", "many_renamed")
    tables[tables.index("one_each")], tables[tables.index("many")] = "renamed", "many_renamed"
    compare(followed, made, tables)

    before = entry(followed, made, "renamed")[0].table_id
    oracle.drop_table(made.database, "renamed", True)
    oracle.drop_table(made.database, "parent_of_all", True)
    made.table("renamed")
    tables.remove("parent_of_all")
    compare(followed, made, tables)
    after, constraints = entry(followed, made, "renamed")
    assert after.table_id != before and not constraints.lists
    with followed.reader.snapshot() as cache:
        assert cache.constraints(after._replace(table_id=before)) == UNCONSTRAINED


def test_constraints_of_one_name_are_dropped_together(
    hms42: Metastore, oracle: Oracle, follow: Callable[..., Followed], name: str
) -> None:
    """In all databases, and no event tells of those at other tables."""
    first, second = (Constrained(oracle, name + end, alike=True) for end in ("_c", "_d"))
    for made in (first, second):
        oracle.create_database(hms.Database(name=made.database))
        for table in ("t", "u", "v"):
            made.table(table)
            made.unique(table, "uk", ["a"])
            made.not_null(table, ["b"])
            made.check(table, ["c"])
    followed = follow(hms42)

    def number(kind: ConstraintKind) -> set[int]:
        compare(followed, first, [table.decode() for table in oracle.get_all_tables(first.database)])
        compare(followed, second, ["t", "u", "v"])
        return {entry(followed, second, table)[1].list(kind).number for table in ("t", "u", "v")}

    assert number(ConstraintKind.NOT_NULL) == {1}
    first.drop("t", "nn_b")
    assert number(ConstraintKind.NOT_NULL) == {0}
    assert followed.process is not None
    followed.process.send_signal(signal.SIGSTOP)
    try:  # a table that the follower never sees
        first.table("brief")
        first.check("brief", ["c"])
        oracle.drop_table(first.database, "brief", True)
    finally:
        followed.process.send_signal(signal.SIGCONT)
    assert number(ConstraintKind.CHECK) == {0}
    assert number(ConstraintKind.UNIQUE) == {1}
    followed.process.send_signal(signal.SIGSTOP)
    try:  # a table that the follower knows only by another name
        first.rename("u", "u_old")
        first.rename("u_old", "u_older")
        oracle.drop_table(first.database, "u_older", True)
    finally:
        followed.process.send_signal(signal.SIGCONT)
    assert number(ConstraintKind.UNIQUE) == {0}


def test_foreign_keys_move_with_the_columns_that_they_refer_to(
    hms42: Metastore, oracle: Oracle, follow: Callable[..., Followed], name: str
) -> None:
    """The events name only the table that has these columns."""
    made = Constrained(oracle, name + "_c")
    oracle.create_database(hms.Database(name=made.database))
    for table in ("parent", "other", "child"):
        made.table(table)
    made.primary_key("parent", ["b", "a"])
    made.unique("parent", "uk", ["f"])
    made.primary_key("other", ["e"])
    made.foreign_key("child", "parent", [("b", "c"), ("a", "d")])
    made.not_null("other", ["a"])
    followed = follow(hms42)
    tables = ["parent", "other", "child"]
    compare(followed, made, tables)
    made.alter_columns("parent", ["a", "x", "b", "f"], keep_location=True)
    compare(followed, made, tables)
    assert entry(followed, made, "child")[1].list(ConstraintKind.FOREIGN_KEY).number == 2
    made.alter_columns("parent", ["x", "b", "f"], keep_location=True)
    compare(followed, made, tables)
    assert entry(followed, made, "child")[1].list(ConstraintKind.FOREIGN_KEY).number == 1
    oracle.drop_table(made.database, "parent", True)
    compare(followed, made, ["other", "child"])
    assert not entry(followed, made, "child")[1].parents


def test_what_has_the_name_of_a_foreign_key_goes_with_the_table_that_it_refers_to(
    hms42: Metastore, oracle: Oracle, follow: Callable[..., Followed], name: str
) -> None:
    made = Constrained(oracle, name + "_c")
    oracle.create_database(hms.Database(name=made.database))
    for table in ("parent", "child", "second", "far"):
        made.table(table)
    for table in ("parent", "second"):
        made.primary_key(table, ["b"])
    for child, parent in (("child", "parent"), ("second", "parent")):
        made.foreign_key(child, parent, [("b", "c")])
    for column, key in (("a", "child"), ("b", "second")):
        row = hms.SQLNotNullConstraint(
            catName="hive", table_db=made.database, table_name="far", column_name=column,
            nn_name=made.name("fk", key, None), enable_cstr=True, validate_cstr=False, rely_cstr=True,
        )  # fmt: skip
        oracle.add_not_null_constraint(hms.AddNotNullConstraintRequest([row]))
    followed = follow(hms42)
    compare(followed, made, ["parent", "child", "second", "far"])
    assert entry(followed, made, "far")[1].list(ConstraintKind.NOT_NULL).number == 2
    oracle.drop_table(made.database, "second", True)
    compare(followed, made, ["parent", "child", "far"])
    assert entry(followed, made, "far")[1].list(ConstraintKind.NOT_NULL).number == 1
    oracle.drop_table(made.database, "parent", True)
    compare(followed, made, ["child", "far"])
    assert entry(followed, made, "far")[1].list(ConstraintKind.NOT_NULL).number == 0


def test_constraints_that_came_without_an_event(
    hms42: Metastore, oracle: Oracle, follow: Callable[..., Followed], name: str
) -> None:
    """The sweep finds them."""
    made = Constrained(oracle, name + "_c")
    oracle.create_database(hms.Database(name=made.database))
    made.table("one")
    made.default("one", ["c"], "old")
    followed = follow(hms42, follower__revalidate_interval_s=1, include=[f"{made.database}.*"])
    followed.loaded()
    table_id = entry(followed, made, "one")[0].table_id
    assert hms42.database is not None
    with hms42.database.connect() as connection, connection.cursor() as cursor:
        cursor.execute(
            """UPDATE "KEY_CONSTRAINTS" SET "DEFAULT_VALUE" = 'new' WHERE "PARENT_TBL_ID" = %s""", (table_id,)
        )
    followed.until(lambda: b"new" in entry(followed, made, "one")[1].list(ConstraintKind.DEFAULT).elements)
    compare(followed, made, ["one"])
