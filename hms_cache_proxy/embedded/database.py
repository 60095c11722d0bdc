"""The database behind the metastore: connections, one transaction for each call, ids.

Job: `Database.read()` and `Database.write()` give a Connection inside a transaction that ends with the block. Must not
know: what is read or written.

Invariants:
- One write at a time, from its first statement to its commit: BEGIN IMMEDIATE in SQLite, the row lock on
  NOTIFICATION_SEQUENCE in PostgreSQL (which Java metastores take too, before they log). So event ids have no gaps, and
  are in the order of commits. A write waits for other processes (BUSY_S).
- A read is one snapshot (WAL in SQLite, REPEATABLE READ in PostgreSQL) and never waits.
- `new_ids` counts in SEQUENCE_TABLE, as DataNucleus does, inside the transaction; a rollback returns the ids.

Owner: the metastore's process; a Connection belongs to one thread.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, insert, make_url, select, update
from sqlalchemy.exc import ArgumentError, DBAPIError

from hms_cache_proxy.embedded import schema
from hms_cache_proxy.embedded.schema import MODEL, T
from hms_cache_proxy.errors import StoreError

BUSY_S = 60
POOLED = 8  # connections kept open; more are opened while more threads need one


class Database:
    """A metastore's database, opened once; safe for any number of threads."""

    def __init__(self, url: str) -> None:
        """Raises StoreError for a URL that cannot be used."""
        try:
            self.url = make_url(url)
            self.is_sqlite = self.url.get_backend_name() == "sqlite"
            if not self.is_sqlite and self.url.get_backend_name() != "postgresql":
                raise StoreError(f"metastore.url: SQLite or PostgreSQL, not {self.url.get_backend_name()}")
            self._engine = self._open()
        except (ArgumentError, ImportError) as error:
            raise StoreError(f"metastore.url: {error}") from error
        self._writing = threading.Lock()

    def _open(self) -> Engine:
        options: dict[str, Any] = {"pool_size": POOLED, "max_overflow": -1, "pool_timeout": BUSY_S}
        if not self.is_sqlite:
            return create_engine(self.url, pool_pre_ping=True, **options)
        if not self.url.database or self.url.database == ":memory:":
            raise StoreError("metastore.url: SQLite needs a file: sqlite:///DIRECTORY/metastore.db")
        Path(self.url.database).parent.mkdir(parents=True, exist_ok=True)
        from sqlalchemy.pool import QueuePool

        connect = {"check_same_thread": False, "timeout": BUSY_S, "isolation_level": None}
        engine = create_engine(self.url, poolclass=QueuePool, connect_args=connect, **options)
        event.listen(engine, "connect", _pragmas)
        return engine

    def prepare(self, *, warehouse: str, external: str, foreign: bool = False) -> bool:
        """Create the tables at the first start (schema.py); True if they were created. Raises StoreError."""
        try:
            with self._writing, self._engine.connect() as connection:
                with self._transaction(connection, "BEGIN IMMEDIATE"):
                    if not self.is_sqlite:  # of two first starts at once, the second waits and then finds the tables
                        connection.exec_driver_sql("SELECT pg_advisory_xact_lock(77300942)")
                    return schema.prepare(connection, warehouse=warehouse, external=external, foreign=foreign)
        except DBAPIError as error:
            raise StoreError(f"metastore.url: {error.orig}") from error

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A snapshot."""
        with self._engine.connect() as connection:
            if not self.is_sqlite:
                connection = connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
            with self._transaction(connection, "BEGIN"):
                yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """The only writer until the block ends, which commits; rolls back if the block raises."""
        with self._writing, self._engine.connect() as connection:
            with self._transaction(connection, "BEGIN IMMEDIATE"):
                if not self.is_sqlite:
                    connection.execute(select(T.NOTIFICATION_SEQUENCE.c.NNI_ID).with_for_update())
                yield connection

    @contextmanager
    def _transaction(self, connection: Connection, begin: str) -> Iterator[None]:
        if self.is_sqlite:
            with connection.begin():
                connection.exec_driver_sql(begin)
                yield
        else:
            with connection.begin():
                yield

    def close(self) -> None:
        """Close all connections; SQLite then moves its log into the database file."""
        self._engine.dispose()


def _pragmas(raw: Any, _record: object) -> None:
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        raw.execute(f"PRAGMA {pragma}")


def new_ids(connection: Connection, model: str, count: int = 1) -> int:
    """The first of `count` ids for rows of a class of Hive's model, e.g. MTable."""
    sequence = T.SEQUENCE_TABLE
    name = MODEL + model
    advanced = (
        update(sequence)
        .where(sequence.c.SEQUENCE_NAME == name)
        .values(NEXT_VAL=sequence.c.NEXT_VAL + count)
        .returning(sequence.c.NEXT_VAL)
    )
    after: int | None = connection.execute(advanced).scalar()
    if after is None:
        connection.execute(insert(sequence).values(SEQUENCE_NAME=name, NEXT_VAL=1 + count))
        return 1
    return after - count
