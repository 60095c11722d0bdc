"""The embedded metastore's database in a file."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.testbed.postgres import SUPERUSER, Collation, MetastoreDatabase, Schema


@dataclass(frozen=True, slots=True)
class SqliteDatabase(MetastoreDatabase):
    """`name` is the file's path; no server, and no accounts: every role is the same."""

    @classmethod
    def at(cls, path: Path) -> SqliteDatabase:
        """The one in this file, which need not be there yet."""
        return cls("", 0, str(path), Schema.HIVE42, Collation.C)

    def url(self, role: str) -> str:
        """SQLAlchemy URL."""
        return f"sqlite:///{self.name}"

    @property
    def jdbc_url(self) -> str:
        """No Java metastore runs on it."""
        raise NotImplementedError

    def behind(self, host: str, port: int) -> MetastoreDatabase:
        """Nothing is between a process and its files."""
        raise NotImplementedError

    @contextmanager
    def connect(self, role: str = SUPERUSER) -> Iterator[Any]:
        """A connection in autocommit mode, closed at the end; its cursors are like those of the other drivers."""
        with closing(sqlite3.connect(self.name, isolation_level=None, timeout=60, factory=_Connection)) as connection:
            yield connection

    def rows(self, query: str, parameters: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
        """All rows of a query; its parameters are written as the other drivers write them (%s)."""
        with self.connect() as connection, connection.cursor() as cursor:
            return list(cursor.execute(query, parameters).fetchall())


class _Cursor(sqlite3.Cursor):
    """Parameters are written %s and %(name)s."""

    def __enter__(self) -> _Cursor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def execute(self, query: str, parameters: Any = (), /) -> _Cursor:
        """One statement."""
        return super().execute(re.sub(r"%\((\w+)\)s", r":\1", query).replace("%s", "?"), parameters)


class _Connection(sqlite3.Connection):
    def cursor(self, factory: Any = _Cursor) -> Any:
        """One that closes itself at the end of a block."""
        return super().cursor(factory)
