"""PostgreSQL: connecting, read-only repeatable snapshots, rows.

Job: with sql_pieces everything that differs between databases, behind one class; another database needs the same
methods. Must not know: the metastore's tables. Text arrives as UTF-8 bytes, never decoded.

Invariants: only SELECTs; every error of the driver becomes a StoreError with its cause, and drops the connection.
Owner: the store's one thread.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import psycopg2
import psycopg2.extensions
from sqlalchemy.engine import URL

from hms_cache_proxy.errors import StoreError
from hms_cache_proxy.store.sql.common import CommonDatabase, Row, Server, TablePrivileges
from hms_cache_proxy.store.sql.postgres_pieces import PostgresPieces

_BEGIN = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;"
_OPTIONS = (
    "SET LOCAL jit = off;"  # compiling costs more than our statements
    "SET LOCAL max_parallel_workers_per_gather = 0;"  # leave the server's other cores to the metastore
)
_COLLATION = """
SELECT d.datcollate::text, to_jsonb(d)->>'datlocprovider' FROM pg_database d WHERE d.datname = current_database()"""
_BYTEWISE = (b"C", b"POSIX", b"C.UTF-8", b"C.utf8")  # the last two: by code point, which is the same in UTF-8
_BUILTIN, _ICU = b"b", b"i"  # providers: PostgreSQL's own, all whose locales compare bytes, and ICU
_SERVER = """
SELECT current_setting('server_version'), current_user::text, current_database()::text, current_schema()::text,
  pg_is_in_recovery()"""
_PRIVILEGES = """
SELECT name, id IS NOT NULL, coalesce(has_table_privilege(id, 'SELECT'), false),
  coalesce(has_table_privilege(id, 'INSERT, UPDATE, DELETE, TRUNCATE'), false)
FROM (SELECT name, to_regclass(quote_ident(name))::oid AS id FROM unnest(%(tables)s::text[]) AS name) found"""
_UNDER_WAY = """
SELECT txid_snapshot_xmin(now_at), txid_snapshot_xmax(now_at) FROM (SELECT txid_current_snapshot() AS now_at) seen"""
_KEEPALIVE = {"keepalives": 1, "keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3}
_CONNECT_LEAST_S, _CONNECT_MOST_S = 2, 10  # libpq takes less than 2 for 2
_FETCH = "FETCH 50000 FROM stream"
_EXPORT = "SELECT pg_export_snapshot()"
_EXPORTED = re.compile(r"[0-9A-F]+(-[0-9A-F]+)*")


class Postgres(PostgresPieces, CommonDatabase):
    """One connection, made when needed and made anew after an error."""

    isolation = "SHOW transaction_isolation"

    def __init__(self, url: URL, *, statement_timeout_s: float, answered: Callable[[], None]) -> None:
        self._arguments: dict[str, Any] = {  # whatever libpq takes
            **{key: value for key, value in url.query.items() if isinstance(value, str)},
            **{
                key: value
                for key, value in {
                    "host": url.host,
                    "port": url.port,
                    "dbname": url.database,
                    "user": url.username,
                    "password": url.password,
                }.items()
                if value is not None
            },
            **_KEEPALIVE,
            "connect_timeout": max(_CONNECT_LEAST_S, min(_CONNECT_MOST_S, int(statement_timeout_s))),
            "client_encoding": "UTF8",
            "application_name": "hms-cache-proxy",
        }
        self._place = f"{url.database or ''} at {url.host or 'this machine'}:{url.port or 5432}"
        self._statement_timeout_s = statement_timeout_s
        self._answered = answered
        self._connection: Any = None  # psycopg2's, kept across snapshots
        self._imported = ""

    # -- life of a connection and a snapshot

    def _begin(self, first: str) -> list[Row]:
        return self._execute(_BEGIN + self._imported + _OPTIONS + first, None)

    def _commit(self) -> None:
        self._execute("COMMIT", None, fetch=False)

    def export_snapshot(self) -> str:
        """Within a snapshot: its name, by which other connections see the same state until it ends."""
        self._execute("SET LOCAL idle_in_transaction_session_timeout = 0", None, fetch=False)
        ((name,),) = self._execute(_EXPORT, None)
        return str(name, "ascii")

    def import_snapshot(self, name: str) -> None:
        """From now on every snapshot is the one that another connection has exported."""
        assert _EXPORTED.fullmatch(name), f"{name!r} is no name of a snapshot"
        self._imported = f"SET TRANSACTION SNAPSHOT '{name}';"

    def close(self) -> None:
        """Close the connection; the next use makes a new one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def rows(self, statement: str, **parameters: object) -> list[Row]:
        """All rows of a compiled statement."""
        return self._execute(statement, parameters)

    def stream(self, statement: str, **parameters: object) -> Iterator[list[Row]]:
        """The rows in batches, without the whole result in memory. To be used up before the next statement."""
        self._execute("DECLARE stream NO SCROLL CURSOR FOR " + statement, parameters, fetch=False)
        while batch := self._execute(_FETCH, None):
            yield batch
        self._execute("CLOSE stream", None, fetch=False)

    def _open(self) -> Any:
        if self._connection is None:
            if self._in_snapshot:
                raise StoreError(f"the metastore's database, {self._place}: the snapshot ended with its connection")
            connection = psycopg2.connect(**self._arguments)
            self._answered()
            connection.autocommit = True  # we say BEGIN ourselves, in one round trip with the first statement
            psycopg2.extensions.register_type(psycopg2.extensions.BYTES, connection)
            with connection.cursor() as cursor:
                cursor.execute(f"SET statement_timeout = {int(self._statement_timeout_s * 1000)}")
            self._connection = connection
        return self._connection

    def _execute(self, statement: str, parameters: object, *, fetch: bool = True) -> list[Row]:
        try:
            with self._open().cursor() as cursor:
                cursor.execute(statement, parameters)
                rows = list(cursor.fetchall()) if fetch else []
        except psycopg2.Error as error:
            raise self._failed(error) from error
        self._answered()
        return rows

    def _failed(self, error: psycopg2.Error) -> StoreError:
        self.close()
        return StoreError(f"the metastore's database, {self._place}: {str(error).strip() or type(error).__name__}")

    # -- what the database is

    def binary_collation(self) -> bool:
        """Does the database order text by bytes where no COLLATE is given? To be asked before statements are made."""
        ((collation, provider),) = self.rows(_COLLATION)
        self.is_binary = bool(provider == _BUILTIN or (provider != _ICU and collation in _BYTEWISE))
        return self.is_binary

    def under_way(self) -> tuple[int, int] | None:
        """Of the transaction ids: the oldest that is still running, and the first that is not given out yet."""
        ((oldest, following),) = self.rows(_UNDER_WAY)
        return int(oldest), int(following)

    @staticmethod
    def incomparable(names: Sequence[bytes]) -> str | None:
        """Why partitions of these names cannot be told apart by bytes: they always can."""
        return None

    @staticmethod
    def pairs_parameters(firsts: Sequence[str], seconds: Sequence[str]) -> dict[str, object]:
        """The parameters of pairs()."""
        return {"firsts": list(firsts), "seconds": list(seconds)}

    def server(self) -> Server:
        """What server and account this is."""
        ((version, account, database, schema, replica),) = self.rows(_SERVER)
        version, account, database, schema = ((text or b"").decode() for text in (version, account, database, schema))
        return Server(version, account, database, schema, replica)

    def privileges(self, tables: Sequence[str]) -> list[TablePrivileges]:
        """What the account may do with each of the tables, as they are found without a schema's name."""
        rows = self.rows(_PRIVILEGES, tables=list(tables))
        return [TablePrivileges(name.decode(), exists, read, write) for name, exists, read, write in rows]

    def account_script(self, account: str) -> str:
        """The statement that makes an account."""
        return f"CREATE ROLE {account} LOGIN PASSWORD '...';\n"

    def grant_script(self, server: Server, tables: Sequence[str]) -> str:
        """Statements for the database's owner that let the account read these tables, and nothing else."""
        account, schema = quoted(server.account), quoted(server.schema or "public")
        names = ",\n  ".join(f"{schema}.{quoted(name)}" for name in tables)
        return (
            f"GRANT CONNECT ON DATABASE {quoted(server.database)} TO {account};\n"
            f"GRANT USAGE ON SCHEMA {schema} TO {account};\n"
            f"GRANT SELECT ON\n  {names}\n  TO {account};\n"
        )


def quoted(name: str) -> str:
    """An identifier."""
    return '"' + name.replace('"', '""') + '"'
