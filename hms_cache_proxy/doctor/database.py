"""The doctor's look at the backing database, with the code that the follower reads it with. Only SELECTs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from hms_cache_proxy.config import Config, mask_url
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
    """Findings, the database's uuid (None if it is not known, empty if it has none), and the GRANT script."""
    if config.source != "sql":
        return [_without(config)], None, grant_script()
    try:
        report = privileges_report(config.store_url)
    except StoreError as error:
        product = _product(config.store_url)
        return [_unreadable(config, str(error), product)], None, grant_script(product=product)
    uuid = report.identity.database_uuid if report.identity else None
    script = report.grant_script
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
            f"correct store_url ({mask_url(config.store_url)}), or let this machine in"
            " (pg_hba.conf, the account's host in MySQL, firewall)"
        )
    elif config.embedded:
        return Finding(_SUBJECT, Severity.NOTE, error, "right before the first start of `serve --embedded`")
    else:
        advice = (
            "give the path of an embedded metastore's database; this account has to read the file, and to write to the"
            " -shm file beside it, by which SQLite's readers and writers know of each other"
        )
    return Finding(_SUBJECT, Severity.ERROR, error, advice)


def _without(config: Config) -> Finding:
    if config.source == "none":
        return Finding(
            _SUBJECT, Severity.WARNING, "store = none: everything is relayed, nothing is cached", "set store_url"
        )
    text = "store_url is not set: the cache is read from the metastore itself"
    advice = "that works, and is slower; make an account for its database with the script below, and set store_url"
    return Finding(_SUBJECT, Severity.NOTE, text, advice)


def grant_script(
    server: DatabaseServer | None = None, tables: Sequence[str] = READ_TABLES, *, product: str = POSTGRES
) -> str:
    """What the database's owner runs to make a new account that can read what is read, and nothing else; empty for
    SQLite, which has none."""
    if product == SQLITE:
        return ""
    server = DatabaseServer(
        version="",
        account=READER,
        database=server.database if server else "metastore",
        schema=server.schema if server else "public",
        is_replica=False,
    )
    writer = PostgresPieces() if product == POSTGRES else MySQLPieces()
    return writer.account_script(READER) + writer.grant_script(server, tables)


def _findings(report: PrivilegesReport) -> Iterator[Finding]:
    server, identity = report.server, report.identity
    text = f"{server.product} {server.version}, database {server.database}"
    if server.account:
        text += f", schema {server.schema}, as {server.account}"
    yield Finding(_SUBJECT, Severity.OK, text)
    if server.is_replica:
        advice = "it may lag behind the metastore, which cannot be noticed: give the primary's address in store_url"
        yield Finding(_SUBJECT, Severity.ERROR, "is a read-only replica", advice)
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
            "calls whose answer depends on the order of names are relayed; not so with a database whose collation is"
            " C, or, in MySQL, names with a _bin collation"
        )
        yield Finding(_SUBJECT, Severity.WARNING, "compares names by a collation that is not bytewise", advice)
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
        advice = "the proxy never does; make an account that can only read, with the script below"
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
        yield Finding(_SUBJECT, Severity.NOTE, text, "right for a metastore where nothing was changed lately")
        return
    hours = (time.time() - retention.oldest_s) / 3600
    text = f"the notification log reaches back {hours:,.1f} hours, from event {retention.oldest_event_id}"
    yield Finding(_SUBJECT, Severity.OK, f"{text} to {retention.newest_event_id}")


def _some(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:5])
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"
