"""The doctor's check of the backing database. It reads it with the follower's code, and runs only SELECTs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from hms_cache_proxy.config import Config
from hms_cache_proxy.config.urls import account_of, database_of, masked
from hms_cache_proxy.doctor.finding import Finding, Severity
from hms_cache_proxy.errors import StoreError
from hms_cache_proxy.store.sql.dialect import DatabaseServer
from hms_cache_proxy.store.sql.mysql_pieces import MySQLPieces
from hms_cache_proxy.store.sql.postgres_pieces import PostgresPieces
from hms_cache_proxy.store.sql.report import PrivilegesReport, privileges_report
from hms_cache_proxy.store.sql.schema import READ_TABLES

READER = "hms_reader"
_SUBJECT = "database"
POSTGRES, MYSQL, SQLITE = "PostgreSQL", "MySQL", "SQLite"


def look_at_database(config: Config) -> tuple[list[Finding], str | None, str]:
    """The findings, the database's id (None if it is not known, empty if it has none), and the GRANT script."""
    if config.source != "sql":
        return [_without(config)], None, ""
    try:
        report = privileges_report(config.store_url)
    except StoreError as error:
        product = _product(config.store_url)
        url = config.store_url
        script = grant_script(product=product, database=database_of(url), account=account_of(url) or READER)
        return [_unreadable(config, str(error), product)], None, script
    uuid = report.identity.database_uuid if report.identity else None
    script = report.grant_script if report.unreadable else ""
    if report.writable:
        script = grant_script(report.server, report.tables, product=report.server.product)
    return list(_findings(report)), uuid, script


def _product(url: str) -> str:
    if url.startswith("sqlite"):
        return SQLITE
    return MYSQL if url.startswith(("mysql", "mariadb")) else POSTGRES


def _unreadable(config: Config, error: str, product: str) -> Finding:
    if product != SQLITE:
        advice = (
            f"correct store_url ({masked(config.store_url)}), or allow connections from this machine"
            " (pg_hba.conf, the account's host in MySQL, firewall)"
        )
    elif config.embedded:
        return Finding(
            _SUBJECT, Severity.NOTE, error, "this is normal until `serve --embedded` has run for the first time"
        )
    else:
        advice = (
            "give the path of an embedded metastore's database; this account must be able to read the file, and to"
            " write the -shm file beside it, which SQLite's readers and writers share"
        )
    return Finding(_SUBJECT, Severity.ERROR, error, advice)


def _without(config: Config) -> Finding:
    if config.source == "none":
        return Finding(
            _SUBJECT, Severity.WARNING, "store = none: everything is relayed, nothing is cached", "set store_url"
        )
    text = "store_url is not set: the cache is read from the metastore itself"
    advice = (
        "this works but is slower; to read the metastore's database instead, run the doctor with --store-url, and it"
        " prints the script that creates the account (the account need not exist yet)"
    )
    return Finding(_SUBJECT, Severity.NOTE, text, advice)


def grant_script(
    server: DatabaseServer | None = None,
    tables: Sequence[str] = READ_TABLES,
    *,
    product: str = POSTGRES,
    database: str = "metastore",
    account: str = READER,
) -> str:
    """The script that creates an account with SELECT on the required tables, and no other privilege. The owner of the
    database runs it. It is empty for SQLite, which has no accounts. `database`: its name if no `server` is given."""
    if product == SQLITE:
        return ""
    server = DatabaseServer(
        version="",
        account=account,
        database=server.database if server else database,
        schema=server.schema if server else "public",
        is_replica=False,
    )
    writer = PostgresPieces() if product == POSTGRES else MySQLPieces()
    return writer.account_script(account) + writer.grant_script(server, tables)


def _findings(report: PrivilegesReport) -> Iterator[Finding]:
    server, identity = report.server, report.identity
    text = f"{server.product} {server.version}, database {server.database}"
    if server.account:
        text += f", schema {server.schema}, as {server.account}"
    yield Finding(_SUBJECT, Severity.OK, text)
    if server.is_replica:
        advice = "it can lag behind the metastore, and the proxy cannot detect that: set store_url to the primary"
        yield Finding(_SUBJECT, Severity.ERROR, "the database is a read-only replica", advice)
    if report.isolation != "repeatable read":
        advice = "a pooler or a setting overrides it; connect to the database directly"
        yield Finding(_SUBJECT, Severity.ERROR, f"transactions are {report.isolation}, not repeatable read", advice)
    yield from _privileges(report)
    if identity is None:
        yield Finding(_SUBJECT, Severity.ERROR, report.failure or "cannot be read", "")
        return
    yield Finding(
        _SUBJECT, Severity.OK, f"metastore schema {identity.schema_version}, id {identity.database_uuid or 'none'}"
    )
    if not identity.binary_collation:
        advice = (
            "calls whose answer depends on the order of names are relayed; to cache them, use a database with collation"
            " C (in MySQL: a _bin collation for names)"
        )
        yield Finding(_SUBJECT, Severity.WARNING, "the database's collation of names is not bytewise", advice)
    yield from _log(report)


def _privileges(report: PrivilegesReport) -> Iterator[Finding]:
    if report.missing:
        text = f"tables are missing: {_some(report.missing)}"
        yield Finding(
            _SUBJECT, Severity.ERROR, text, "is this the metastore's database, and its schema on the search path?"
        )
    if report.unreadable:
        text = f"the account may not read: {_some(report.unreadable)}"
        yield Finding(_SUBJECT, Severity.ERROR, text, "run the script below as the owner of the metastore's tables")
    if report.writable:
        text = f"the account may write: {_some(report.writable)}"
        advice = "the proxy never writes; create a read-only account with the script below"
        yield Finding(_SUBJECT, Severity.WARNING, text, advice)
    if not (report.missing or report.unreadable or report.writable):
        yield Finding(
            _SUBJECT, Severity.OK, f"the account may read the {len(report.tables)} tables it needs, and write none"
        )


def _log(report: PrivilegesReport) -> Iterator[Finding]:
    retention = report.retention
    if retention is None:
        return
    if retention.oldest_s is None:
        text = f"the notification log is empty (newest event {retention.newest_event_id})"
        yield Finding(_SUBJECT, Severity.NOTE, text, "this is normal if nothing has changed lately")
        return
    hours = (time.time() - retention.oldest_s) / 3600
    text = f"the notification log reaches back {hours:,.1f} hours, from event {retention.oldest_event_id}"
    yield Finding(_SUBJECT, Severity.OK, f"{text} to {retention.newest_event_id}")


def _some(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:5])
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"
