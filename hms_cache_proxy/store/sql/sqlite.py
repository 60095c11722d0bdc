"""SQLite: the database of an embedded metastore, read from its file while the metastore writes to it.

Job: with sql_sqlite_pieces everything that is SQLite's, behind one class with the methods of sql_postgres.Postgres.
Must not know: the metastore's tables. Text arrives as UTF-8 bytes, never decoded.

Invariants:
- The file is opened read-only (mode=ro), and only with a write-ahead log: there a read transaction sees one state and
  holds up no writer, and no writer holds it up. The log cannot begin anew while a transaction lasts; ours are as long
  as a step, and between two of them it can.
- A snapshot is of the file that is there now. Was it replaced since it was opened, or its log taken away, the next
  snapshot is a StoreError, and whoever opens the store again finds out whose database it is.
- Every error of the driver becomes a StoreError with its cause, and drops the connection.

Owner: the store's one thread.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from sqlalchemy.engine import URL

from hms_cache_proxy.errors import StoreError
from hms_cache_proxy.store.sql.common import CommonDatabase, Row, Server, TablePrivileges
from hms_cache_proxy.store.sql.marked import MARKS
from hms_cache_proxy.store.sql.sqlite_pieces import AGGREGATES, FUNCTIONS, SQLitePieces

_BUSY_S: Final = 10.0
"""A reader waits only for who recovers or closes the log after a crash: milliseconds."""

_INSTRUCTIONS: Final = 100_000  # between two looks at the clock: about 5 ms
_STREAMED: Final = 50_000
_TABLES = "SELECT name FROM sqlite_master WHERE type = 'table'"
_COLLATED = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND sql LIKE '%COLLATE%'"

_File = tuple[int, int]  # device and inode


class SQLite(SQLitePieces, CommonDatabase):
    """One connection, made when needed and made anew after an error."""

    isolation = "SELECT 'repeatable read'"  # with a write-ahead log, which _connect() insists on

    def __init__(self, url: URL, *, statement_timeout_s: float, answered: Callable[[], None]) -> None:
        assert url.database, "settings.store_url_problem lets no other URL pass"
        self._path = Path(url.database).absolute()
        self._place = f"the metastore's database, {self._path}"
        self._statement_timeout_s = statement_timeout_s
        self._answered = answered
        self._connection: sqlite3.Connection | None = None  # kept across snapshots
        self._files: tuple[_File, _File] | None = None  # the database and its log, as they were opened
        self._deadline_s = 0.0

    # -- life of a connection and a snapshot

    def _begin(self, first: str) -> list[Row]:
        self._open()
        if self._found() != self._files:
            self.close()
            raise StoreError(f"{self._place}: the file, or its log, is not the one that was opened")
        self._execute("BEGIN", {})
        return self._execute(first, {})

    def _commit(self) -> None:
        self._execute("COMMIT", {})

    def close(self) -> None:
        """Close the connection; the next use makes a new one."""
        if self._connection is not None:
            connection, self._connection = self._connection, None
            connection.close()

    def rows(self, statement: str, **parameters: object) -> list[Row]:
        """All rows of a compiled statement."""
        return self._execute(statement, parameters)

    def stream(self, statement: str, **parameters: object) -> Iterator[list[Row]]:
        """The rows in batches, without the whole result in memory. To be used up before the next statement."""
        try:
            cursor = self._open().execute(statement, _bound(parameters))
            while batch := cursor.fetchmany(_STREAMED):
                self._answered()
                yield batch
                self._deadline_s = time.monotonic() + self._statement_timeout_s
        except sqlite3.Error as error:
            raise self._failed(error) from error

    def _execute(self, statement: str, parameters: dict[str, object]) -> list[Row]:
        try:
            rows = self._open().execute(statement, _bound(parameters)).fetchall()
        except sqlite3.Error as error:
            raise self._failed(error) from error
        self._answered()
        return rows

    def _open(self) -> sqlite3.Connection:
        self._deadline_s = time.monotonic() + self._statement_timeout_s
        if self._connection is None:
            if self._in_snapshot:
                raise StoreError(f"{self._place}: the snapshot ended with its connection")
            try:
                self._connection = self._connect()
            except sqlite3.Error as error:
                raise self._failed(error) from error
            self._answered()
        return self._connection

    def _connect(self) -> sqlite3.Connection:
        if not self._path.exists():
            raise StoreError(f"{self._place}: there is no such file; the metastore makes it at its first start")
        opened = _file(self._path)
        busy_s = min(_BUSY_S, self._statement_timeout_s)
        connection = sqlite3.connect(
            f"{self._path.as_uri()}?mode=ro", uri=True, timeout=busy_s, isolation_level=None, check_same_thread=False
        )
        try:
            connection.text_factory = bytes
            for name, (count, function) in FUNCTIONS.items():
                connection.create_function(name, count, function, deterministic=True)
            for name, (count, kind) in AGGREGATES.items():
                connection.create_aggregate(name, count, kind)
            connection.set_progress_handler(self._late, _INSTRUCTIONS)
            self._check(connection)
        except BaseException:
            connection.close()
            raise
        self._files = (opened, _file(self._log))  # it is there once something was read
        return connection

    def _check(self, connection: sqlite3.Connection) -> None:
        """Can snapshots of it be had?"""
        told = {pragma: connection.execute(f"PRAGMA {pragma}").fetchone()[0] for pragma in ("journal_mode", "encoding")}
        if not connection.execute(_TABLES).fetchall():
            raise StoreError(f"{self._place}: has no tables; the metastore makes them at its first start")
        if told["journal_mode"] != b"wal":
            raise StoreError(
                f"{self._place}: has no write-ahead log (its journal mode is {told['journal_mode'].decode()}), without"
                " which reading would hold up the metastore; an embedded metastore sets it"
            )
        if told["encoding"] != b"UTF-8":
            raise StoreError(f"{self._place}: holds text as {told['encoding'].decode()}, which no metastore does")

    @property
    def _log(self) -> Path:
        return self._path.with_name(self._path.name + "-wal")

    def _found(self) -> tuple[_File, _File] | None:
        try:
            return _file(self._path), _file(self._log)
        except FileNotFoundError:
            return None

    def _late(self) -> bool:
        return time.monotonic() > self._deadline_s

    def _failed(self, error: sqlite3.Error) -> StoreError:
        self.close()
        text = str(error)
        if text == "interrupted":
            text = f"no answer within {self._statement_timeout_s:g} s"
        elif text.startswith("no such"):
            text += ": it is no metastore's"
        return StoreError(f"{self._place}: {text}")

    # -- what the database is

    def binary_collation(self) -> bool:
        """Does the database order text by bytes? To be asked before statements are made."""
        ((collated,),) = self.rows(_COLLATED)
        self.is_binary = collated == 0
        self.marked = MARKS.encode() in {name for (name,) in self.rows(_TABLES)}
        return self.is_binary

    def under_way(self) -> tuple[int, int] | None:
        """None, and nothing is: there is one writer, so every id is given out by a transaction that has ended."""
        return None

    @staticmethod
    def incomparable(names: Sequence[bytes]) -> str | None:
        """Why partitions of these names cannot be told apart by bytes: they always can."""
        return None

    def server(self) -> Server:
        """The library, and the file."""
        return Server(sqlite3.sqlite_version, "", str(self._path), "", False, "SQLite")

    def privileges(self, tables: Sequence[str]) -> list[TablePrivileges]:
        """Who may open the file may read all tables; opened read-only, it cannot be written."""
        found = {name.decode() for (name,) in self.rows(_TABLES)}
        return [TablePrivileges(name, name in found, name in found, False) for name in tables]


def _file(path: Path) -> _File:
    status = os.stat(path)
    return status.st_dev, status.st_ino


def _bound(parameters: dict[str, object]) -> dict[str, Any]:
    """Parameters as the driver takes them: lists in JSON."""
    return {
        name: json.dumps(value, ensure_ascii=False) if isinstance(value, list) else value
        for name, value in parameters.items()
    }
