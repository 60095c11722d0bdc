"""Changes of constraints, in the differential test: of one table, and of what tables say of each other. Parts of
`Changes`."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from hive_metastore.ttypes import (
    DropConstraintRequest,
    SQLCheckConstraint,
    SQLDefaultConstraint,
    SQLForeignKey,
    SQLNotNullConstraint,
    SQLPrimaryKey,
    SQLUniqueConstraint,
    Table,
)

from tests.differential import contents, variants
from tests.differential.contents import TableNote
from tests.differential.parts import PartOfChanges

SWITCHES = {"enable_cstr": True, "validate_cstr": False, "rely_cstr": True, "catName": "hive"}
ROWS: dict[str, tuple[Any, str, dict[str, Any]]] = {
    "primaryKeys": (SQLPrimaryKey, "pk_name", {"key_seq": 1}),
    "uniqueConstraints": (SQLUniqueConstraint, "uk_name", {"key_seq": 1}),
    "notNullConstraints": (SQLNotNullConstraint, "nn_name", {}),
    "defaultConstraints": (SQLDefaultConstraint, "dc_name", {"default_value": "0"}),
    "checkConstraints": (SQLCheckConstraint, "dc_name", {"check_expression": "1 > 0"}),
}
"""By the list of a request: the struct, its field for the constraint's name, what else it needs."""


def constraint(kind: str, where: tuple[str, str, str], name: str) -> Any:
    """A row for a list of this kind; `where`: database, table, column."""
    made, field, more = ROWS[kind]
    place = dict(zip(("table_db", "table_name", "column_name"), where, strict=True))
    return made(**SWITCHES, **place, **more, **{field: name})


class ConstraintChanges(PartOfChanges):
    """Of one table."""

    def change_add_constraint(self) -> None:
        """Of one of a few names, which Hive 4 allows at several tables."""
        note = self._note("plain", "iceberg", "partitioned", "wide")
        columns = [column.name for column in self._table(note).sd.cols] + [key for key, _ in note.keys]
        kind, column, name = self.rng.choice(list(ROWS)), self.rng.choice(columns), self._constraint()
        row = constraint(kind, (note.database, note.name, column), name)
        self._write(variants.add_constraints(kind, [row]))
        self.world.constraints.append((note, name))

    def change_drop_constraint(self) -> None:
        """One that was made, if there is any; now and then any name."""
        note, name = self._note(), self._constraint()
        if self.world.constraints and self.rng.random() < 0.8:
            note, name = self.rng.choice(self.world.constraints)
        self._write({"drop_constraint": {"req": DropConstraintRequest(note.database, note.name, name)}})

    def _constraint(self) -> str:
        """A name for a new one."""
        return f"c{self.rng.randrange(6)}"


class LinkChanges(ConstraintChanges):
    """Of tables that name each other, and of new tables."""

    @abstractmethod
    def _fresh(self, stem: str) -> str: ...

    def change_add_foreign_key(self) -> None:
        """To a table that may or may not have a primary key yet; with several columns now and then."""
        parent, child = self._note("plain", "partitioned"), self._note("plain", "partitioned", "iceberg")
        keys, rows = self._foreign_key(parent, child, self._table(child))
        if not rows:
            return
        if self.rng.random() < 0.8:
            self._write(variants.add_constraints("primaryKeys", keys))
        self._write(variants.add_constraints("foreignKeys", rows))
        self.world.constraints.append((child, rows[0].fk_name))

    def change_create_table_with_constraints(self) -> None:
        """Of every kind, some of them of other tables: the request has room for a name in each."""
        database, name = self.rng.choice(self.world.databases), self._fresh("k")
        table = contents.table(self.world, database, name, "plain")
        given: dict[str, list[Any]] = {}
        for kind in self.rng.sample(list(ROWS), self.rng.randint(1, 3)):
            column, own = table.sd.cols[0].name, self._fresh("own")
            given[kind] = [constraint(kind, (database, name, column), own)]
            if self.rng.random() < 0.3:
                given[kind].append(self._of_another(kind))
        if self.rng.random() < 0.5:
            given["foreignKeys"] = self._foreign_keys_of(table)
        self._write(variants.create_constrained_table(table, **given))
        self.world.noted(table, "plain")

    def _of_another(self, kind: str) -> Any:
        other = self._note("plain", "partitioned", "iceberg")
        column = self.rng.choice(self._table(other).sd.cols).name
        return constraint(kind, (other.database, other.name, column), self._fresh("others"))

    def _foreign_keys_of(self, table: Table) -> list[SQLForeignKey]:
        """From a new table to one that gets a primary key before, or between two others."""
        parent = self._note("plain", "partitioned")
        child = TableNote(table.dbName, table.tableName, "plain", [])
        if self.rng.random() < 0.3:
            child = self._note("plain", "partitioned", "iceberg")
            table = self._table(child)
        keys, rows = self._foreign_key(parent, child, table)
        if keys:
            self._write(variants.add_constraints("primaryKeys", keys))
        return rows

    def _foreign_key(
        self, parent: TableNote, child: TableNote, child_table: Table
    ) -> tuple[list[SQLPrimaryKey], list[SQLForeignKey]]:
        """The primary key that it needs, and the key: a row for each column. None if they have no type in common."""
        parent_table, name, primary = self._table(parent), self._constraint(), self._fresh("pk")
        sides = [{column.type: column for column in each.sd.cols} for each in (parent_table, child_table)]
        alike = [(column, sides[1][kind]) for kind, column in sides[0].items() if kind in sides[1]]
        chosen = alike[: self.rng.choice([1, 1, 2])]
        keys = [
            SQLPrimaryKey(
                table_db=parent.database,
                table_name=parent.name,
                column_name=mine.name,
                key_seq=at + 1,
                pk_name=primary,
                **SWITCHES,
            )
            for at, (mine, its) in enumerate(chosen)
        ]
        rows = [
            SQLForeignKey(
                pktable_db=parent.database,
                pktable_name=parent.name,
                pkcolumn_name=mine.name,
                fktable_db=child.database,
                fktable_name=child.name,
                fkcolumn_name=its.name,
                key_seq=at + 1,
                update_rule=0,
                delete_rule=0,
                fk_name=name,
                pk_name=primary,
                **SWITCHES,
            )
            for at, (mine, its) in enumerate(chosen)
        ]
        return keys, rows
