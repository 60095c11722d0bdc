"""Parts of statements for MySQL and MariaDB: conditions on lists, wire bytes made by the server.

Job: provide what SQLAlchemy does not have. Must not know: connections, the metastore's tables.

Text. Hive's script creates latin1 columns with the collation latin1_bin, in some tables latin1_swedish_ci, and
operators change columns to utf8. So a column is compared twice: by its own collation, for its index, and by the UTF-8
bytes, because names may differ only in case, accents or trailing blanks. A text that is not ASCII is converted to the
column's character set before it is compared; otherwise a character that the set lacks would make the statement fail
(error 1267).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    BindParameter,
    ClauseElement,
    LargeBinary,
    Subquery,
    and_,
    bindparam,
    case,
    cast,
    column,
    func,
    literal_column,
    select,
    text,
)
from sqlalchemy import Column as TableColumn
from sqlalchemy.dialects import mysql
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql import visitors
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.elements import BinaryExpression
from sqlalchemy.sql.functions import FunctionElement

from hms_cache_proxy.store.sql.common import CommonPieces
from hms_cache_proxy.store.sql.dialect import ByIds, Column, Condition, DatabaseServer

_EMPTY: Column = literal_column("_binary''")


@dataclass(frozen=True, slots=True)
class TextColumn:
    """How a column stores text."""

    charset: str
    collation: str

    @property
    def is_binary(self) -> bool:
        """Does it compare by characters, except for trailing blanks?"""
        return self.collation.endswith("_bin") or self.collation == "binary"


class MySQLPieces(CommonPieces):
    """Makes statements and parts of them. `columns`: how columns store text, by (table, column) in upper case."""

    compiler = mysql.dialect(paramstyle="pyformat")
    exact_text = False

    def __init__(self) -> None:
        self.columns: dict[tuple[str, str], TextColumn] = {}
        self._compared: dict[str, dict[str, TextColumn]] = {}  # by statement: parameters compared with a column

    def compile(self, statement: ClauseElement) -> str:
        """Also notes which parameters are compared with a column of text."""
        compiled = super().compile(statement)
        compared = {}
        for part in visitors.iterate(statement):
            if isinstance(part, BinaryExpression) and isinstance(part.right, BindParameter):
                kind = self._kind(part.left)
                if kind is not None:
                    compared[part.right.key] = kind
        self._compared[compiled] = compared
        return compiled

    def compared(self, statement: str) -> dict[str, TextColumn]:
        """The parameters of a compiled statement that are compared with a column of text, and how the column stores
        it."""
        return self._compared.get(statement, {})

    def among_ids(self, of: Column, name: str) -> Condition:
        """As a list."""
        return _among(of, name)

    def id_list(self, ids: Iterable[int]) -> object:
        """As a list."""
        return list(ids)

    def among_texts(self, of: Column, name: str) -> Condition:
        return and_(_among(of, name), _among(utf8(of), f"{name}{EXACT}"))

    def is_text(self, of: Column, name: str) -> Condition:
        return and_(of == bindparam(name), utf8(of) == bindparam(f"{name}{EXACT}"))

    def pairs(self, first: Column, second: Column) -> Subquery:
        kinds = []
        for of in (first, second):
            kind = self._kind(of) or TextColumn("utf8mb4", "utf8mb4_bin")
            kinds.append(f"VARCHAR(256) CHARACTER SET {kind.charset} COLLATE {kind.collation}")
        return (
            text(
                "SELECT `first`, `second` FROM JSON_TABLE(:pairs, '$[*]' COLUMNS("
                f"`first` {kinds[0]} PATH '$[0]', `second` {kinds[1]} PATH '$[1]')) AS listed"
            )
            .columns(column("first"), column("second"))
            .subquery("wanted")
        )

    def bytewise(self, of: Column) -> Column:
        """The column itself if it has a _bin collation, so its index is used. incomparable() says for which names this
        is not the order of bytes."""
        kind = self._kind(of)
        return of if kind is not None and kind.is_binary else utf8(of)

    def _kind(self, of: Column) -> TextColumn | None:
        """How a table's column stores text; None for anything else."""
        if isinstance(of, TableColumn) and of.table is not None:
            return self.columns.get((of.table.name.upper(), of.name.upper()))
        return None

    def string(self, of: Column) -> Column:
        data = utf8(of)
        return func.concat(_int4(func.length(data)), data)

    def struct(self, fields: dict[int, Column]) -> Column:
        parts: list[Column] = []
        for number, of in fields.items():
            head: Column = literal_column(f"x'0b{number:04x}'")
            parts.append(case((of.is_(None), _EMPTY), else_=func.concat(head, self.string(of))))
        return func.concat(*parts, literal_column("x'00'"))

    def counted(self, item: Column, present: Column, order: Column | None = None) -> Column:
        joined = _Joined(item) if order is None else _Joined(item, order)
        return func.concat(_int4(func.count(present)), func.coalesce(joined, _EMPTY))

    def account_script(self, account: str) -> str:
        return f"CREATE USER {_account(account)} IDENTIFIED BY '...';\n"

    def grant_script(self, server: DatabaseServer, tables: Sequence[str]) -> str:
        to, database = _account(server.account), quoted(server.database)
        return "".join(f"GRANT SELECT ON {database}.{quoted(name)} TO {to};\n" for name in tables)

    def maps_by_ids(self, owner: Column, key: Column, value: Column) -> ByIds:
        item = func.concat(self.string(key), self.string(value))
        return self.by_ids(
            lambda among: select(owner, self.counted(item, value, key)).where(among(owner)).group_by(owner)
        )


class _Joined(FunctionElement[bytes]):
    """Aggregate: the items joined, in the order of a second argument."""

    inherit_cache = True


@compiles(_Joined, "mysql")
def _compile_joined(joined: _Joined, compiler: SQLCompiler, **options: Any) -> str:
    parts = [compiler.process(part, **options) for part in joined.clauses]
    return f"group_concat({' ORDER BY '.join(parts)} SEPARATOR '')"


EXACT = "_exact"
"""The end of the name of a parameter that is compared by bytes. Its value is that of the parameter without it."""


def quoted(name: str) -> str:
    """An identifier."""
    return "`" + name.replace("`", "``") + "`"


def _account(account: str) -> str:
    name, at, host = account.rpartition("@")
    parts = (name, host) if at else (account, "%")
    return "@".join("'" + part.replace("\\", "\\\\").replace("'", "''") + "'" for part in parts)


def utf8(of: Column) -> Column:
    """The UTF-8 bytes of a text."""
    return cast(func.convert(of.op("USING")(literal_column("utf8mb4"))), LargeBinary)


def _among(of: Column, name: str) -> Condition:
    found: Condition = of.op("IN", is_comparison=True)(bindparam(name))
    return found


def _int4(number: Column) -> Column:
    return func.unhex(func.lpad(func.hex(number), literal_column("8"), literal_column("'0'")))
