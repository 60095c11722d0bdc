"""A metastore's database put back to what it was just after the first start, while the metastore runs.

Job: keep the rows and sequences of a database in PostgreSQL, and put them back in place of what came since.
Must not know: who used the metastore, how it is run.
Invariants: a database of which a table, a column, an index, a trigger or a grant has changed is not put back. Ids that
the metastore reserves in blocks, in its memory, go on from where they are: no id is given twice. The lock by which a
metastore of 4.2 leads its own background tasks stays.
"""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from typing import Any, Final

import psycopg2

from tests.testbed.postgres import MetastoreDatabase

GOING_ON: Final = ("SEQUENCE_TABLE", "NEXT_LOCK_ID")
"""Tables of ids that are never put back."""
LOCKS: Final = "HIVE_LOCKS"
LEADERS: Final = "__metastore_leader_election__"
LOCK_TIMEOUT: Final = "10s"  # a transaction that is left open keeps its metastore from being lent again
_SHAPE: Final = r"""
SELECT 'relation', c.relname, c.relkind::text, c.relacl::text,
       (SELECT string_agg(concat_ws(' ', a.attname, a.atttypid, a.attnotnull, a.attacl), ',' ORDER BY a.attnum)
        FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0),
       (SELECT string_agg(t.tgname, ',' ORDER BY t.tgname) FROM pg_trigger t WHERE t.tgrelid = c.oid)
FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace
UNION ALL
SELECT 'schema', n.nspname, NULL, n.nspacl::text, NULL, NULL FROM pg_namespace n WHERE n.nspname NOT LIKE 'pg\_%'
ORDER BY 1, 2
"""


@dataclass(slots=True)
class Kept:
    """What a database held when this was made."""

    database: MetastoreDatabase
    shape: list[tuple[Any, ...]] = field(init=False)
    rows: dict[str, bytes] = field(init=False)
    sequences: list[tuple[str, int, bool]] = field(init=False)

    def __post_init__(self) -> None:
        with self.database.connect() as connection, connection.cursor() as cursor:
            self.shape = _shape(cursor)
            self.rows = {name: _copied(cursor, name) for name in _filled(cursor)}
            self.sequences = _sequences(cursor)

    def put_back(self) -> bool:
        """True once the database holds the same again; False where it cannot be."""
        with self.database.connect() as connection, connection.cursor() as cursor:
            if _shape(cursor) != self.shape:
                return False
            try:
                self._put_back(cursor)
            except (psycopg2.errors.LockNotAvailable, psycopg2.errors.DeadlockDetected):
                return False
        return True

    def _put_back(self, cursor: Any) -> None:
        """In one transaction. Without triggers, so that rows may refer to others that come later."""
        cursor.execute("BEGIN; SET LOCAL session_replication_role = replica")
        cursor.execute(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'")
        cursor.execute(f'DELETE FROM "{LOCKS}" WHERE "HL_DB" <> %s', (LEADERS,))
        filled = ", ".join(f'"{name}"' for name in _filled(cursor))
        if filled:
            cursor.execute(f"TRUNCATE {filled} CASCADE")
        for name, rows in self.rows.items():
            cursor.copy_expert(f'COPY "{name}" FROM STDIN', io.BytesIO(rows))
        for name, value, called in self.sequences:
            cursor.execute("SELECT setval(%s, %s, %s)", (name, value, called))
        cursor.execute("COMMIT")


def _shape(cursor: Any) -> list[tuple[Any, ...]]:
    cursor.execute(_SHAPE)
    return list(cursor.fetchall())


def _filled(cursor: Any) -> list[str]:
    """Names of the tables that hold rows, but for those that are not put back as a whole."""
    cursor.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
    tables = [name for (name,) in cursor.fetchall() if name not in (*GOING_ON, LOCKS)]
    asked = " UNION ALL ".join(f"SELECT '{name}' WHERE EXISTS (SELECT FROM \"{name}\")" for name in tables)
    cursor.execute(asked)
    return [name for (name,) in cursor.fetchall()]


def _copied(cursor: Any, name: str) -> bytes:
    rows = io.BytesIO()
    cursor.copy_expert(f'COPY "{name}" TO STDOUT', rows)
    return rows.getvalue()


def _sequences(cursor: Any) -> list[tuple[str, int, bool]]:
    """As setval() takes them."""
    cursor.execute(
        "SELECT format('%I.%I', schemaname, sequencename), coalesce(last_value, start_value), last_value IS NOT NULL"
        " FROM pg_sequences WHERE schemaname = 'public'"
    )
    return list(cursor.fetchall())
