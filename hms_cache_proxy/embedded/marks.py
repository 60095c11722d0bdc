"""Marks for changes without an event, kept by SQLite triggers: a new random value after every write to a table.

Job: make the table that store/sql/sqlite_pieces.py reads, and its triggers. They allow functions, catalogs and
descriptions of databases to be cached (store/sql/change_marks.py). PostgreSQL records for each row which transaction
wrote it, and does not need this. Must not know: who writes.

Invariants: a mark changes in the transaction of the write, and no mark occurs twice, even in a restored copy of the
database. Owner: the metastore's process, at its start.
"""

from __future__ import annotations

from sqlalchemy import Connection

from hms_cache_proxy.store.sql.marked_tables import MARKS, MOST_ROWS

_NEW = "randomblob(16)"


def prepare(connection: Connection) -> None:
    """Inside a transaction: create what is missing."""
    run = connection.exec_driver_sql
    run(f'CREATE TABLE IF NOT EXISTS "{MARKS}" ("MARKED" TEXT NOT NULL PRIMARY KEY, "MARK" BLOB NOT NULL)')
    for table in MOST_ROWS:
        run(f"""INSERT OR IGNORE INTO "{MARKS}" VALUES ('{table}', {_NEW})""")
        for event in ("INSERT", "UPDATE", "DELETE"):
            run(
                f'CREATE TRIGGER IF NOT EXISTS "{MARKS}_{table}_{event}" AFTER {event} ON "{table}" BEGIN'
                f""" UPDATE "{MARKS}" SET "MARK" = {_NEW} WHERE "MARKED" = '{table}'; END"""
            )
