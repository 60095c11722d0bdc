"""The embedded metastore's database in a file."""

from __future__ import annotations

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
        """A connection in autocommit mode, closed at the end."""
        with closing(sqlite3.connect(self.name, isolation_level=None, timeout=60)) as connection:
            yield connection

    def rows(self, query: str, parameters: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
        """All rows of a query; its parameters are written as the other drivers write them (%s)."""
        with self.connect() as connection:
            return list(connection.execute(query.replace("%s", "?"), parameters).fetchall())
