"""Constraints that come with a table, of it and of others, and of several tables at once: what Hive and the embedded
metastore are asked.

Job: lists of (method, arguments).
"""

from __future__ import annotations

from typing import Any

from tests.embedded.differential import Step, struct
from tests.embedded.scripts import descriptor, field, table

FLAGS = {"enable_cstr": True, "validate_cstr": False, "rely_cstr": True}
KINDS: dict[str, tuple[str, dict[str, Any], str]] = {
    "primaryKeys": ("SQLPrimaryKey", {"key_seq": 1}, "pk_name"),
    "uniqueConstraints": ("SQLUniqueConstraint", {"key_seq": 1}, "uk_name"),
    "notNullConstraints": ("SQLNotNullConstraint", {}, "nn_name"),
    "defaultConstraints": ("SQLDefaultConstraint", {"default_value": "'x'"}, "dc_name"),
    "checkConstraints": ("SQLCheckConstraint", {"check_expression": "b>1"}, "dc_name"),
}


def created_constraints(db: str) -> list[Step]:
    """By both calls, told with a catalog and without; and by one call that adds constraints to two tables."""

    def made(name: str) -> Any:
        columns = [field("a", "int"), field("b")]
        return table(db, name, sd=descriptor(columns), parameters={"EXTERNAL": "TRUE"})

    def row(kind: str, name: str, of: str | None, catalog: str | None = "hive") -> Any:
        struct_name, more, called = KINDS[kind]
        place = {"catName": catalog, "table_db": of and db, "table_name": of, "column_name": "b"}
        return struct(struct_name, **place, **more, **FLAGS, **{called: name})

    def create(name: str, **lists: list[Any]) -> list[Step]:
        request = struct("CreateTableRequest", table=made(f"{name}2"), **lists)
        return [
            ("create_table_with_constraints", {"tbl": made(f"{name}1"), **lists}),
            ("create_table_req", {"request": request}),
            *(every(each) for each in (f"{name}1", f"{name}2", "x", "y")),
        ]

    def every(name: str) -> Step:
        request = struct("AllTableConstraintsRequest", catName="hive", dbName=db, tblName=name)
        return "get_all_table_constraints", {"request": request}

    def unique(*of: str) -> Any:
        rows = [row("uniqueConstraints", f"u{number}", each) for number, each in enumerate(of)]
        return struct("AddUniqueConstraintRequest", uniqueConstraintCols=rows)

    places = {"pktable_db": db, "pktable_name": "x", "fktable_db": db, "fktable_name": "y", "catName": "hive"}
    rest = {"key_seq": 1, "update_rule": 0, "delete_rule": 0, "fk_name": "fk", "pk_name": "k"}
    foreign = struct("SQLForeignKey", **places, **rest, **FLAGS, pkcolumn_name="b", fkcolumn_name="b")
    steps: list[Step] = [("create_table", {"tbl": made(name)}) for name in "xy"]
    for kind in KINDS:
        steps += create(kind[0], **{kind: [row(kind, f"{kind}_x", "x")]})
    steps += create("none_", uniqueConstraints=[row("uniqueConstraints", "without", "x", None)])
    steps += create("null_", uniqueConstraints=[row("uniqueConstraints", "null", None)])
    both = [row("uniqueConstraints", "one", "x"), row("uniqueConstraints", "two", "y")]
    steps += create("both_", uniqueConstraints=both)
    steps += create("absent_", uniqueConstraints=[row("uniqueConstraints", "absent", "nope")])
    steps += create("foreign_", foreignKeys=[foreign])
    steps += [("add_unique_constraint", {"req": unique("x", "y")}), every("x"), every("y")]
    return [*steps, ("drop_database", {"name": db, "deleteData": True, "cascade": True})]


CONSTRAINT_SCRIPTS = {"created constraints": created_constraints}
