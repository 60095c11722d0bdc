"""PostgreSQL: connecting, read-only repeatable snapshots, rows.

Job: do what is special to PostgreSQL, together with postgres_pieces. Must not know: the metastore's tables. The rules
are those of dialect.py. Owner: the store's one thread.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import psycopg2
import psycopg2.extensions
from sqlalchemy import Integer, cast, literal_column
from sqlalchemy.engine import URL

from hms_cache_proxy.store.sql.common import CommonDatabase, connect_timeout_s, decoded, server_place
from hms_cache_proxy.store.sql.dialect import Column, DatabaseServer, Row, TablePrivileges
from hms_cache_proxy.store.sql.postgres_pieces import UTF_8, PostgresPieces

_BEGIN = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;"
_OPTIONS = (
    "SET LOCAL jit = off;"  # it costs more than our statements
    "SET LOCAL max_parallel_workers_per_gather = 0;"  # leave the server's other cores to the metastore
    "SET LOCAL idle_in_transaction_session_timeout = 0;"  # a step may work for a while on what it has read
)
_COLLATION = """
SELECT d.datcollate::text, to_jsonb(d)->>'datlocprovider', pg_encoding_to_char(d.encoding)::text FROM pg_database d
WHERE d.datname = current_database()"""
_BYTEWISE = (b"C", b"POSIX", b"C.UTF-8", b"C.utf8")  # the last two order by code point, which is the same in UTF-8
_ANY_BYTES = b"SQL_ASCII"  # the encoding of a database that stores what it gets, as UTF-8 here
_BUILTIN, _ICU = b"b", b"i"  # providers: PostgreSQL's own, whose locales all compare bytes; ICU
_REPLICA = """CASE WHEN pg_is_in_recovery() THEN true
  WHEN current_setting('default_transaction_read_only') = 'off' THEN false
  ELSE (SELECT source IN ('configuration file', 'command line') FROM pg_settings
    WHERE name = 'default_transaction_read_only') END"""
_SERVER = f"""
SELECT current_setting('server_version'), current_user::text, current_database()::text, current_schema()::text,
  {_REPLICA}"""
_PRIVILEGES = """
SELECT name, id IS NOT NULL, coalesce(has_table_privilege(id, 'SELECT'), false),
  coalesce(has_table_privilege(id, 'INSERT, UPDATE, DELETE, TRUNCATE'), false)
FROM (SELECT name, to_regclass(quote_ident(name))::oid AS id FROM unnest(%(tables)s::text[]) AS name) found"""
_UNDER_WAY = """
SELECT txid_snapshot_xmin(now_at), txid_snapshot_xmax(now_at) FROM (SELECT txid_current_snapshot() AS now_at) seen"""
_KEEPALIVE = {"keepalives": 1, "keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3}
_FETCH = "FETCH 50000 FROM stream"
_EXPORT = "SELECT pg_export_snapshot()"
_EXPORTED = re.compile(r"[0-9A-F]+(-[0-9A-F]+)*")


class Postgres(CommonDatabase, PostgresPieces):
    """A connection by psycopg2."""

    errors = psycopg2.Error
    isolation = "SHOW transaction_isolation"

    def __init__(self, url: URL, *, statement_timeout_s: float, answered: Callable[[], None]) -> None:
        super().__init__(server_place(url, 5432), statement_timeout_s, answered)
        self._arguments: dict[str, Any] = {  # all parameters of libpq
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
            "connect_timeout": connect_timeout_s(statement_timeout_s),
            "client_encoding": "UTF8",
            "application_name": "hms-cache-proxy",
        }
        self._imported = ""

    # -- life of a connection and a snapshot

    def _connect(self) -> Any:
        return psycopg2.connect(**self._arguments)

    def _prepare(self, connection: Any) -> None:
        connection.autocommit = True  # BEGIN is sent by _begin, in one round trip with the first statement
        psycopg2.extensions.register_type(psycopg2.extensions.BYTES, connection)
        with connection.cursor() as cursor:
            cursor.execute(f"SET statement_timeout = {int(self._statement_timeout_s * 1000)}")

    def _run(self, statement: str, parameters: dict[str, object] | None) -> list[Row]:
        with self._open().cursor() as cursor:
            cursor.execute(statement, parameters)
            return list(cursor.fetchall()) if cursor.description else []

    def _begin(self, first: str) -> list[Row]:
        return self._execute(_BEGIN + self._imported + _OPTIONS + first)

    def export_snapshot(self) -> str:
        ((name,),) = self._execute(_EXPORT)
        return str(name, "ascii")

    def import_snapshot(self, name: str) -> None:
        assert _EXPORTED.fullmatch(name), f"{name!r} is no name of a snapshot"
        self._imported = f"SET TRANSACTION SNAPSHOT '{name}';"

    def stream(self, statement: str, **parameters: object) -> Iterator[list[Row]]:
        self._execute("DECLARE stream NO SCROLL CURSOR FOR " + statement, parameters)
        while batch := self._execute(_FETCH):
            yield batch
        self._execute("CLOSE stream")

    # -- what the database is

    def binary_collation(self) -> bool:
        ((collation, provider, encoding),) = self.rows(_COLLATION)
        self.codec = UTF_8 if encoding == _ANY_BYTES else psycopg2.extensions.encodings.get(encoding.decode(), "ascii")
        self.is_binary = bool(provider == _BUILTIN or (provider != _ICU and collation in _BYTEWISE))
        return self.is_binary

    def replica(self) -> Column:
        """Whether the server is in recovery, or its settings make transactions read-only, as tools that switch over set
        them on the old primary: connections stay open, and have the new setting from their next statement on. What is
        set for the account, its database or this connection says nothing about others, and is ignored."""
        return cast(literal_column(_REPLICA), Integer)

    def under_way(self) -> tuple[int, int] | None:
        ((oldest, following),) = self.rows(_UNDER_WAY)
        return int(oldest), int(following)

    def server(self) -> DatabaseServer:
        ((*texts, replica),) = self.rows(_SERVER)
        version, account, database, schema = decoded(texts)
        return DatabaseServer(version, account, database, schema, replica)

    def privileges(self, tables: Sequence[str]) -> list[TablePrivileges]:
        rows = self.rows(_PRIVILEGES, tables=list(tables))
        return [TablePrivileges(name.decode(), exists, read, write) for name, exists, read, write in rows]
