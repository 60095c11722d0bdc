"""SQLite: the database of an embedded metastore, which is read from its file while the metastore writes to it.

Job: do what is special to SQLite, together with sqlite_pieces. Must not know: the metastore's tables.

Invariants, in addition to those of dialect.py:
- The file is opened read-only (mode=ro), and only with a write-ahead log. Then a read transaction sees one state, and
  readers and writers do not block each other. The log cannot be reset during a transaction. A transaction of the store
  takes as long as a step of the follower, so the log can be reset between steps.
- A snapshot reads the current file. If the file was replaced since it was opened, or its log was removed, the next
  snapshot raises StoreError; when the store is opened again, its identity shows which database it is.

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
from hms_cache_proxy.store.sql.common import CommonDatabase
from hms_cache_proxy.store.sql.dialect import DatabaseServer, Row, TablePrivileges
from hms_cache_proxy.store.sql.marked_tables import MARKS
from hms_cache_proxy.store.sql.sqlite_pieces import AGGREGATES, FUNCTIONS, SQLitePieces

_BUSY_S: Final = 10.0
"""A reader waits only for a process that recovers or closes the log: milliseconds."""

_INSTRUCTIONS: Final = 100_000  # between two looks at the clock: about 5 ms
_STREAMED: Final = 50_000
_TABLES = "SELECT name FROM sqlite_master WHERE type = 'table'"
_COLLATED = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND sql LIKE '%COLLATE%'"

_File = tuple[int, int]  # device and inode


class SQLite(CommonDatabase, SQLitePieces):
    """A connection by sqlite3."""

    errors = sqlite3.Error
    isolation = "SELECT 'repeatable read'"  # with a write-ahead log, which _check() requires

    def __init__(self, url: URL, *, statement_timeout_s: float, answered: Callable[[], None]) -> None:
        assert url.database, "store_url_problem lets no other URL pass"
        self._path = Path(url.database).absolute()
        super().__init__(str(self._path), statement_timeout_s, answered)
        self._opened: _File = (0, 0)
        self._files: tuple[_File, _File] | None = None  # the database and its log when they were opened
        self._deadline_s = 0.0

    # -- life of a connection and a snapshot

    def _begin(self, first: str) -> list[Row]:
        self._same_file()
        self._execute("BEGIN")
        return self._execute(first)

    def look(self, first: str) -> list[Row]:
        self._same_file()
        return self._execute(first)

    def _same_file(self) -> None:
        with self._asked():
            self._open()
        if self._found() != self._files:
            self.close()
            raise StoreError(f"{self._place}: the file, or its log, is not the one that was opened")

    def stream(self, statement: str, **parameters: object) -> Iterator[list[Row]]:
        with self._asked():
            cursor = self._open().execute(statement, _bound(parameters))
            while batch := cursor.fetchmany(_STREAMED):
                self._answered()
                yield batch
                self._deadline_s = time.monotonic() + self._statement_timeout_s

    def _run(self, statement: str, parameters: dict[str, object] | None) -> list[Row]:
        return list(self._open().execute(statement, _bound(parameters or {})).fetchall())

    def _open(self) -> Any:
        self._deadline_s = time.monotonic() + self._statement_timeout_s
        return super()._open()

    def _connect(self) -> Any:
        if not self._path.exists():
            raise StoreError(f"{self._place}: there is no such file; the metastore makes it at its first start")
        self._opened = _file(self._path)
        busy_s = min(_BUSY_S, self._statement_timeout_s)
        return sqlite3.connect(
            f"{self._path.as_uri()}?mode=ro", uri=True, timeout=busy_s, isolation_level=None, check_same_thread=False
        )

    def _prepare(self, connection: Any) -> None:
        connection.text_factory = bytes
        for name, (count, function) in FUNCTIONS.items():
            connection.create_function(name, count, function, deterministic=True)
        for name, (count, kind) in AGGREGATES.items():
            connection.create_aggregate(name, count, kind)
        connection.set_progress_handler(self._late, _INSTRUCTIONS)
        self._check(connection)
        self._files = (self._opened, _file(self._log))  # the log exists after the first read

    def _check(self, connection: Any) -> None:
        """Checks whether snapshots of it are possible."""
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

    def _told(self, error: Exception) -> str:
        text = str(error)
        if text == "interrupted":
            return f"no answer within {self._statement_timeout_s:g} s"
        return text + ": it is no metastore's" if text.startswith("no such") else text

    # -- what the database is

    def binary_collation(self) -> bool:
        ((collated,),) = self.rows(_COLLATED)
        self.is_binary = collated == 0
        self.marked = MARKS.encode() in {name for (name,) in self.rows(_TABLES)}
        return self.is_binary

    def server(self) -> DatabaseServer:
        """The version of the library, and the file."""
        return DatabaseServer(sqlite3.sqlite_version, "", str(self._path), "", False, "SQLite")

    def privileges(self, tables: Sequence[str]) -> list[TablePrivileges]:
        """An account that can open the file can read all tables. It is opened read-only, so nothing can be written."""
        found = {name.decode() for (name,) in self.rows(_TABLES)}
        return [TablePrivileges(name, name in found, name in found, False) for name in tables]


def _file(path: Path) -> _File:
    status = os.stat(path)
    return status.st_dev, status.st_ino


def _bound(parameters: dict[str, object]) -> dict[str, Any]:
    """Parameters in the driver's form: lists are JSON."""
    return {
        name: json.dumps(value, ensure_ascii=False) if isinstance(value, list) else value
        for name, value in parameters.items()
    }
