"""Marks of what changes without an event, kept by SQLite itself: another random value after every write to a table.

Job: the table and the triggers that store/sql/sqlite_pieces.py reads, so that functions, catalogs and descriptions of
databases can be cached (store/sql_marks.py). PostgreSQL tells of each row who wrote it, and needs none of this. Must
not know: who writes.

Invariants: a mark changes in the transaction of the write, and no mark comes twice, also in a copy of the database that
was put back. Owner: the metastore's process, at its start.
"""

from __future__ import annotations

from sqlalchemy import Connection

from hms_cache_proxy.store.sql.marked import MARKS, MOST_ROWS

_NEW = "randomblob(16)"


def prepare(connection: Connection) -> None:
    """Inside a transaction: make what is not there yet."""
    run = connection.exec_driver_sql
    run(f'CREATE TABLE IF NOT EXISTS "{MARKS}" ("MARKED" TEXT NOT NULL PRIMARY KEY, "MARK" BLOB NOT NULL)')
    for table in MOST_ROWS:
        run(f"""INSERT OR IGNORE INTO "{MARKS}" VALUES ('{table}', {_NEW})""")
        for event in ("INSERT", "UPDATE", "DELETE"):
            run(
                f'CREATE TRIGGER IF NOT EXISTS "{MARKS}_{table}_{event}" AFTER {event} ON "{table}" BEGIN'
                f""" UPDATE "{MARKS}" SET "MARK" = {_NEW} WHERE "MARKED" = '{table}'; END"""
            )
