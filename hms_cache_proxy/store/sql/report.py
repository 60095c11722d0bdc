"""What `doctor` reports about the database in store_url.

Job: find everything that prevents a store from being opened or trusted, without stopping at the first problem. Must not
know: how it is printed.

Owner: the caller; the connection lives for one call.
"""

from __future__ import annotations

from dataclasses import dataclass

from hms_cache_proxy.errors import StoreError
from hms_cache_proxy.store.protocol import StoreIdentity
from hms_cache_proxy.store.sql.dialect import DatabaseServer, Dialect
from hms_cache_proxy.store.sql.schema import READ_TABLES, Schema, hive_line
from hms_cache_proxy.store.sql.store import SqlStore, open_database, schema_version


@dataclass(frozen=True, slots=True)
class LogRetention:
    """How far the notification log goes back. A follower that is stopped for longer must reload everything."""

    oldest_event_id: int | None
    newest_event_id: int
    oldest_s: int | None  # seconds since the epoch


@dataclass(frozen=True, slots=True)
class PrivilegesReport:
    """Facts about a metastore's database and the account.

    `identity` and `retention` are None if the store cannot be opened; `failure` says why. `grant_script`: statements
    for the database's owner that let the account read the tables that the proxy reads, and nothing else.
    """

    server: DatabaseServer
    isolation: str
    tables: tuple[str, ...]  # all tables that are read
    missing: tuple[str, ...]
    unreadable: tuple[str, ...]
    writable: tuple[str, ...]
    grant_script: str
    identity: StoreIdentity | None
    retention: LogRetention | None
    failure: str | None


def privileges_report(url: str) -> PrivilegesReport:
    """Examines the database of a metastore. Raises StoreError only if it cannot be reached."""
    database = open_database(url)
    try:
        return _report(database)
    finally:
        database.close()


def _report(database: Dialect) -> PrivilegesReport:
    server = database.server()
    names = _tables(database)
    tables = database.privileges(names)
    identity, retention, failure = None, None, None
    with database.snapshot(database.isolation) as ((isolation,),):
        pass
    try:
        store = SqlStore(database)
        identity = store.identity
        retention = _retention(store)
    except StoreError as error:
        failure = str(error)
    return PrivilegesReport(
        server,
        isolation.decode(),
        names,
        tuple(table.table for table in tables if not table.exists),
        tuple(table.table for table in tables if table.exists and not table.may_read),
        tuple(table.table for table in tables if table.may_write),
        database.grant_script(server, names),
        identity,
        retention,
        failure,
    )


def _tables(database: Dialect) -> tuple[str, ...]:
    """The tables that are read from this database; those of the newest Hive if its version cannot be read."""
    try:
        return Schema.of(hive_line(schema_version(database)), folds=database.folds_names).names
    except StoreError:
        return READ_TABLES


def _retention(store: SqlStore) -> LogRetention:
    with store.snapshot() as snapshot:
        oldest = snapshot.oldest_event_id()
        events = [] if oldest is None else snapshot.events(oldest - 1, 1)
        return LogRetention(oldest, snapshot.event_id, events[0].time_s if events else None)
