"""Tables with constraints of every kind, made through a metastore.

Job: what tests of constraints ask about, in one database. Must not know: hms_cache_proxy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.store.content import column, descriptor
from tests.store.oracle import Oracle, hms

COLUMNS = "e d c b a f".split()
KEYS = ("p1", "p2")
READS = (
    ("get_primary_keys", "PrimaryKeysRequest"),
    ("get_unique_constraints", "UniqueConstraintsRequest"),
    ("get_not_null_constraints", "NotNullConstraintsRequest"),
    ("get_default_constraints", "DefaultConstraintsRequest"),
    ("get_check_constraints", "CheckConstraintsRequest"),
)
"""Methods that answer with one list, and their requests."""


class Constrained:
    """A database of tables with constraints; `create` makes all of them."""

    def __init__(self, oracle: Oracle, database: str, *, alike: bool = False) -> None:
        """`alike`: constraints of different tables have the same names, as Hive 4 allows; but for keys, which foreign
        keys find by their names."""
        self.oracle = oracle
        self.database = database
        self.alike = alike

    def create(self) -> None:
        """Everything."""
        self.oracle.create_database(hms.Database(name=self.database))
        self.tables()

    def tables(self) -> None:
        """The tables, in a database that is there."""
        for name in ("unconstrained", "one_each", "many", "on_keys", "altered", "parent", "child", "child_and_more"):
            self.table(name)
        self.primary_key("one_each", ["b"])
        self.unique("one_each", "one", ["d"])
        self.not_null("one_each", ["a"])
        self.default("one_each", ["c"], "'\u00fc\U0001f600'")
        self.check("one_each", ["e"])
        self.primary_key("many", ["b", "a", "e", "d", "c"])
        self.unique("many", "z", ["c", "a"])
        self.unique("many", "a", ["f", "e"])
        self.not_null("many", ["f", "a", "c", "p1"])
        self.default("many", ["d", "b"], "1")
        self.check("many", ["e", None])
        self.primary_key("on_keys", ["p2"])
        self.not_null("on_keys", ["p1"])
        self.primary_key("altered", ["c"])
        self.not_null("altered", ["f"])
        self.check("altered", ["d"])
        self.alter_columns("altered", ["x", *COLUMNS[1:]])
        self.primary_key("parent", ["c", "a"])
        self.foreign_key("child", "parent", [("c", "a"), ("a", "b")])
        self.foreign_key("child_and_more", "parent", [("c", "c"), ("a", "e")])
        self.not_null("child_and_more", ["a"])

    def table(self, name: str, **fields: Any) -> None:
        """create_table."""
        sd = descriptor([column(name, "bigint") for name in COLUMNS])
        keys = [column(key, "string") for key in KEYS]
        values = {"parameters": {"EXTERNAL": "TRUE"}, "tableType": "EXTERNAL_TABLE", "partitionKeys": keys, "sd": sd}
        self.oracle.create_table(hms.Table(tableName=name, dbName=self.database, **(values | fields)))

    def alter_columns(self, name: str, columns: Sequence[str], *, keep_location: bool = False) -> None:
        """Other columns, which do not belong to the old list any more. Unless it is kept, the table has no location
        afterwards."""
        table = self._whole(name)
        place = {"location": table.sd.location} if keep_location else {}
        table.sd = descriptor([column(name, "bigint") for name in columns], **place)
        self.oracle.alter_table(self.database, name, table)

    def rename(self, name: str, to: str) -> None:
        """alter_table with another name."""
        table = self._whole(name)
        table.tableName = to
        self.oracle.alter_table(self.database, name, table)

    def _whole(self, name: str) -> Any:
        keys = [column(key, "string") for key in KEYS]
        stored = self.oracle.get_table_req(hms.GetTableRequest(dbName=self.database, tblName=name))[1][1]
        sd = descriptor([column(name, "bigint") for name in COLUMNS], location=stored[7][1][2][1].decode())
        return hms.Table(
            tableName=name,
            dbName=self.database,
            owner="someone",
            ownerType=hms.PrincipalType.USER,
            sd=sd,
            partitionKeys=keys,
            parameters={"EXTERNAL": "TRUE"},
            tableType="EXTERNAL_TABLE",
        )

    def name(self, kind: str, table: str, column: str | None) -> str:
        """A constraint's name."""
        alike = self.alike and kind not in ("pk", "fk")
        return f"{kind}_{column}" if alike else f"{kind}_{self.database}_{table}_{column}"

    def _row(self, kind: Any, table: str, **fields: Any) -> Any:
        flags = {"enable_cstr": len(table) % 2 == 0, "validate_cstr": False, "rely_cstr": True}
        return kind(catName="hive", table_db=self.database, table_name=table, **flags, **fields)

    def primary_key(self, table: str, columns: Sequence[str]) -> None:
        """One of some columns."""
        name = self.name("pk", table, None)
        rows = [
            self._row(hms.SQLPrimaryKey, table, column_name=each, key_seq=at, pk_name=name)
            for at, each in enumerate(columns, 1)
        ]
        self.oracle.add_primary_key(hms.AddPrimaryKeyRequest(rows))

    def unique(self, table: str, name: str, columns: Sequence[str]) -> None:
        """One of some columns."""
        name = self.name("uk", table, name)
        rows = [
            self._row(hms.SQLUniqueConstraint, table, column_name=each, key_seq=at, uk_name=name)
            for at, each in enumerate(columns, 1)
        ]
        self.oracle.add_unique_constraint(hms.AddUniqueConstraintRequest(rows))

    def not_null(self, table: str, columns: Sequence[str]) -> None:
        """One for each column."""
        rows = [
            self._row(hms.SQLNotNullConstraint, table, column_name=c, nn_name=self.name("nn", table, c))
            for c in columns
        ]
        self.oracle.add_not_null_constraint(hms.AddNotNullConstraintRequest(rows))

    def default(self, table: str, columns: Sequence[str], value: str) -> None:
        """One for each column."""
        rows = [
            self._row(
                hms.SQLDefaultConstraint, table, column_name=c, default_value=value, dc_name=self.name("df", table, c)
            )
            for c in columns
        ]
        self.oracle.add_default_constraint(hms.AddDefaultConstraintRequest(rows))

    def check(self, table: str, columns: Sequence[str | None]) -> None:
        """One for each column; None: of the whole table."""
        rows = [
            self._row(
                hms.SQLCheckConstraint,
                table,
                column_name=c,
                check_expression="d > 0",
                dc_name=self.name("ck", table, c),
            )
            for c in columns
        ]
        self.oracle.add_check_constraint(hms.AddCheckConstraintRequest(rows))

    def foreign_key(self, child: str, parent: str, columns: Sequence[tuple[str, str]]) -> None:
        """One: (column of the parent, column of the child)."""
        rows = [
            hms.SQLForeignKey(
                pktable_db=self.database,
                pktable_name=parent,
                pkcolumn_name=theirs,
                fktable_db=self.database,
                fktable_name=child,
                fkcolumn_name=mine,
                key_seq=at,
                update_rule=0,
                delete_rule=0,
                fk_name=self.name("fk", child, None),
                pk_name=self.name("pk", parent, None),
                enable_cstr=False,
                validate_cstr=False,
                rely_cstr=True,
            )
            for at, (theirs, mine) in enumerate(columns, 1)
        ]
        self.oracle.add_foreign_key(hms.AddForeignKeyRequest(rows))

    def drop(self, table: str, name: str) -> None:
        """drop_constraint."""
        self.oracle.drop_constraint(hms.DropConstraintRequest(self.database, table, name))

    def answers(self, table: str) -> dict[int, list[Any]]:
        """What the metastore says: the list of each kind, by its field in SQLAllTableConstraints."""
        found: dict[int, list[Any]] = {}
        for number, (method, struct) in zip((1, 3, 4, 5, 6), READS, strict=True):
            request = getattr(hms, struct)(catName="hive", db_name=self.database, tbl_name=table)
            found[number] = self.oracle.ask(method, request)[1][1]
        keys = hms.ForeignKeysRequest(foreign_db_name=self.database, foreign_tbl_name=table, catName="hive")
        return found | {2: self.oracle.get_foreign_keys(keys)[1][1]}

    def whole_answer(self, table: str) -> dict[int, list[Any]]:
        """The same by Hive 4's one call."""
        request = hms.AllTableConstraintsRequest(dbName=self.database, tblName=table, catName="hive")
        whole = self.oracle.get_all_table_constraints(request)[1][1]
        return {number: elements for number, (_, elements) in whole.items()}
