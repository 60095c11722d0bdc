"""MySQL and MariaDB: connecting, read-only repeatable snapshots, rows.

Job: do what is special to them, together with mysql_pieces. Must not know: the metastore's tables.

Invariants: those of dialect.py. Text arrives as UTF-8 bytes, whatever its column's character set. A snapshot is
InnoDB's consistent snapshot. It begins at START TRANSACTION, which only gives a warning if the isolation level does not
allow it, so a warning is an error here. An aggregate that the server has cut is an error, too. Owner: the store's one
thread. Needs MariaDB 10.6 or MySQL 8.0 (JSON_TABLE).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pymysql
from pymysql.constants import CLIENT, FIELD_TYPE
from pymysql.converters import escape_string
from pymysql.cursors import SSCursor
from sqlalchemy import literal_column
from sqlalchemy.engine import URL

from hms_cache_proxy.errors import StoreError, Unfit
from hms_cache_proxy.store.sql.common import CommonDatabase, connect_timeout_s, decoded, server_place
from hms_cache_proxy.store.sql.dialect import Column, DatabaseServer, Row, TablePrivileges
from hms_cache_proxy.store.sql.mysql_pieces import EXACT, MySQLPieces, TextColumn

_BEGIN = "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY;"
_SESSION = (
    "SET SESSION sql_mode = 'ANSI_QUOTES', group_concat_max_len = 1073741824, max_sort_length = 4096, "
    "{timeout};"  # a name of 767 characters has at most 3,068 bytes
    "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ"
)
_COLUMNS = """
SELECT TABLE_NAME, COLUMN_NAME, CHARACTER_SET_NAME, COLLATION_NAME FROM information_schema.COLUMNS
WHERE TABLE_SCHEMA = DATABASE() AND COLLATION_NAME IS NOT NULL"""
_SERVER = "SELECT VERSION(), CURRENT_USER(), DATABASE()"
_REPLICA = """
SHOW GLOBAL VARIABLES WHERE Variable_name IN ('read_only', 'super_read_only', 'innodb_read_only', 'wsrep_on')"""
_PRIVILEGES = """
SELECT TABLE_NAME, MIN(FIND_IN_SET('select', PRIVILEGES) > 0),
  MAX(FIND_IN_SET('insert', PRIVILEGES) > 0 OR FIND_IN_SET('update', PRIVILEGES) > 0)
FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() GROUP BY TABLE_NAME"""
_NAMES = (("DBS", "NAME"), ("TBLS", "TBL_NAME"), ("PARTITIONS", "PART_NAME"), ("PARTITION_KEY_VALS", "PART_KEY_VAL"))
_PARTITION_NAMES = _NAMES[2:]
_HIGHEST = {"latin1": 0xFF, "utf8mb3": 0x10FFFF, "utf8": 0x10FFFF, "utf8mb4": 0x10FFFF}
"""Up to this character, a _bin collation has the order of the UTF-8 bytes. In other character sets, up to ASCII."""

_ODD_NAME = re.compile(rb"[^\n]*(?: (?:[/\n]|\Z)|%[01]|=[^/\n]{257}|[^\n]{767})[^\n]*")
"""Names with a blank at the end of a value, a control character, or a part that may have been cut: a value has room for
256 characters, a name for 767, and a metastore's connection may not be in strict mode."""
_SHOWN = 100  # characters of a name in a message
_DEAD_S = 10.0  # time for a server to report that it has ended a statement at its timeout
_STREAMED = 50_000
_CUT = 1260  # ER_CUT_VALUE_GROUP_CONCAT
_OLDEST = {"MariaDB": (10, 6), "MySQL": (8, 0)}
_OPTIONS = ("ssl_ca", "ssl_cert", "ssl_key", "ssl_verify_cert", "ssl_verify_identity", "unix_socket")
_INTEGERS = (FIELD_TYPE.TINY, FIELD_TYPE.SHORT, FIELD_TYPE.LONG, FIELD_TYPE.INT24, FIELD_TYPE.LONGLONG)
_DECODERS: dict[int, Callable[[bytes], object]] = {
    **dict.fromkeys(_INTEGERS, int),
    FIELD_TYPE.BIT: lambda value: int.from_bytes(value, "big"),
    FIELD_TYPE.FLOAT: float,
    FIELD_TYPE.DOUBLE: float,
    FIELD_TYPE.NEWDECIMAL: lambda value: int(value) if value.lstrip(b"-").isdigit() else float(value),
}


class MySQL(CommonDatabase, MySQLPieces):
    """A connection by PyMySQL."""

    errors = pymysql.Error

    def __init__(self, url: URL, *, statement_timeout_s: float, answered: Callable[[], None]) -> None:
        super().__init__(server_place(url, 3306), statement_timeout_s, answered)
        options = {key: value for key, value in url.query.items() if key != "charset"}
        unknown = sorted(options.keys() - set(_OPTIONS))
        if unknown:
            raise StoreError(f"store_url has {unknown[0]!r} after the ?; understood are {', '.join(_OPTIONS)}")
        connect_s = connect_timeout_s(statement_timeout_s)
        self._arguments: dict[str, Any] = {
            **options,
            "host": url.host or "127.0.0.1",
            "port": url.port or 3306,
            "user": url.username,
            "password": url.password or "",
            "database": url.database,
            "charset": "utf8mb4",
            "use_unicode": False,
            "conv": _DECODERS,
            "autocommit": True,
            "client_flag": CLIENT.MULTI_STATEMENTS,
            "connect_timeout": connect_s,
            "read_timeout": connect_s,
            "write_timeout": statement_timeout_s + _DEAD_S,
            "program_name": "hms-cache-proxy",
        }

    # -- life of a connection and a snapshot

    def _connect(self) -> Any:
        connection: Any = pymysql.connect(**self._arguments)
        connection._read_timeout = self._statement_timeout_s + _DEAD_S  # until now it was the timeout for connecting
        return connection

    def _prepare(self, connection: Any) -> None:
        version = str(connection.get_server_info())
        product, number = _product(version)
        if number < _OLDEST[product]:
            oldest = ", ".join(f"{name} {major}.{minor}" for name, (major, minor) in _OLDEST.items())
            raise StoreError(f"{self._place}, is {product} {version}; needed is {oldest}")
        with connection.cursor() as cursor:
            cursor.execute(_SESSION.format(timeout=self._timeout(product)))
            while cursor.nextset():
                pass

    def _timeout(self, product: str) -> str:
        if product == "MariaDB":
            return f"max_statement_time = {self._statement_timeout_s}"
        return f"max_execution_time = {int(self._statement_timeout_s * 1000)}"

    def _end(self, connection: Any) -> None:
        if connection.open:
            connection._force_close()  # close() would send COM_QUIT, and wait if the server is gone

    def _told(self, error: Exception) -> str:
        return " ".join(str(part) for part in error.args) or type(error).__name__

    def _begin(self, first: str) -> list[Row]:
        with self._asked(), self._open().cursor() as cursor:
            cursor.execute(_BEGIN + first % {})
            ignored = cursor.warning_count
            cursor.nextset()
            rows = list(cursor.fetchall())
        if ignored:
            self.close()
            raise StoreError(
                f"{self._place}, gives no consistent snapshot: isolation level REPEATABLE READ and tables in InnoDB are"
                " needed"
            )
        return rows

    def _run(self, statement: str, parameters: dict[str, object] | None) -> list[Row]:
        query = self._with(statement, parameters or {})
        with self._open().cursor() as cursor:
            cursor.execute(query)
            rows = list(cursor.fetchall())
            if cursor.warning_count:
                cursor.execute("SHOW WARNINGS")
                self._refuse_cut({row[1] for row in cursor.fetchall()})
        return rows

    def _refuse_cut(self, warnings: set[int]) -> None:
        if _CUT in warnings:
            raise Unfit(
                f"{self._place}, cannot put an object into one row: its parameters or columns are longer than the"
                " server's max_allowed_packet, which can be raised"
            )

    def stream(self, statement: str, **parameters: object) -> Iterator[list[Row]]:
        query = self._with(statement, parameters)
        with self._asked(), self._open().cursor(SSCursor) as cursor:
            cursor.execute(query)
            while batch := list(cursor.fetchmany(_STREAMED)):
                self._answered()
                yield batch

    def _with(self, statement: str, parameters: dict[str, object]) -> str:
        """The statement with its parameters as literals."""
        compared = self.compared(statement)
        literals = {}
        for name, value in parameters.items():
            literals[name] = _literal(value, compared.get(name))
            literals[name + EXACT] = _literal(value, None)
        return statement % literals

    # -- what the database is

    @property
    def isolation(self) -> str:
        with self._asked():
            product, number = _product(self._open().get_server_info())
        old = product == "MariaDB" and number < (11, 1)
        return f"SELECT REPLACE(LOWER(@@{'tx' if old else 'transaction'}_isolation), '-', ' ')"

    def binary_collation(self) -> bool:
        found = [tuple(part.decode() for part in row) for row in self.rows(_COLUMNS)]
        self.columns = {(table.upper(), name.upper()): TextColumn(*how) for table, name, *how in found}
        self.is_binary = all(key in self.columns and self.columns[key].is_binary for key in _NAMES)
        return self.is_binary

    def replica(self) -> Column:
        """Products have different variables. CONCAT: some are numbers, some are words."""
        names = sorted(name for name, _ in self._replica_variables())
        return literal_column(" OR ".join(f"CONCAT(@@GLOBAL.{name}) NOT IN ('0', 'OFF')" for name in names))

    def _replica_variables(self) -> list[tuple[str, bytes]]:
        return [(name.decode(), value) for name, value in self.rows(_REPLICA)]

    def under_way(self) -> tuple[int, int] | None:
        """None: only accounts with PROCESS see the running transactions."""
        return None

    def incomparable(self, names: Sequence[bytes]) -> str | None:
        """Its collations ignore blanks at the end, and sort characters below a blank before the end of a text. Some
        calls of a metastore return a cut value, and filters compare it."""
        kinds = [self.columns.get(key, TextColumn("", "")) for key in _PARTITION_NAMES]
        for kind in kinds:
            if not kind.is_binary:
                return f"the database compares partition names by {kind.collation or 'an unknown collation'}"
        joined = b"\n".join(names)
        odd = _ODD_NAME.search(joined)
        if odd is not None:
            return f"the database does not hold and compare {odd[0].decode(errors='replace')[:_SHOWN]!r} by its bytes"
        if not joined.isascii():
            highest = min(_HIGHEST.get(kind.charset, 0x7F) for kind in kinds)
            for name in names:
                if max(map(ord, name.decode())) > highest:
                    return f"the database does not order {name.decode()[:_SHOWN]!r} by its bytes"
        return None

    def server(self) -> DatabaseServer:
        ((*texts,),) = self.rows(_SERVER)
        replica = any(value not in (b"OFF", b"0") for _, value in self._replica_variables())
        version, account, database = decoded(texts)
        return DatabaseServer(version, account, database, database, replica, _product(version)[0])

    def privileges(self, tables: Sequence[str]) -> list[TablePrivileges]:
        """A table without any privilege looks like a missing one. Tables are reported as missing only if all are."""
        folds = self.rows("SELECT @@lower_case_table_names")[0][0] != 0
        found = {name.decode(): row for name, *row in self.rows(_PRIVILEGES)}
        known = {name: found.get(name.lower() if folds else name) for name in tables}
        exists = any(known.values())
        return [
            TablePrivileges(name, exists, bool(row and row[0]), bool(row and row[1])) for name, row in known.items()
        ]


def _product(version: str) -> tuple[str, tuple[int, ...]]:
    """The name of the product, and the first two numbers of its version."""
    numbers = re.findall(r"\d+\.\d+", version.removeprefix("5.5.5-"))  # MariaDB's prefix for old replicas
    return (
        "MariaDB" if "MariaDB" in version else "MySQL",
        tuple(int(part) for part in numbers[0].split(".")) if numbers else (0, 0),
    )


def _literal(value: object, kind: TextColumn | None) -> str:
    """A parameter as a literal. `kind`: of the column that it is compared with."""
    if isinstance(value, str):
        text = f"'{escape_string(value)}'"
        if kind is None or value.isascii() or kind.charset == "utf8mb4":
            return text
        return f"CONVERT(_utf8mb4{text} USING {kind.charset}) COLLATE {kind.collation}"
    if isinstance(value, int):
        return str(int(value))
    assert isinstance(value, list | tuple), f"a parameter of type {type(value).__name__}"
    return "(" + ",".join(_literal(item, kind) for item in value) + ")"
