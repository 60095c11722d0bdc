"""The command line of `hms-cache-proxy snapshot` and `audit`.

Job: options to calls, results to lines. Spark and everything that needs it is imported by the command that runs it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from hms_cache_proxy.config import CONFIG_FILE_VARIABLE, Config, load
from hms_cache_proxy.errors import AuditError, ConfigError, SnapshotError, StoreError
from hms_cache_proxy.pipeline.options import SPARK, options, spark_session
from hms_cache_proxy.pipeline.progress import reporting

if TYPE_CHECKING:
    from hms_cache_proxy.pipeline.audit import Found

NO_DATABASE = (
    "store_url: is not set: give --store-url postgresql://USER:PASSWORD@HOST:PORT/DATABASE, or the key `store_url` in a"
    " --config file, or HMS_CACHE_PROXY_STORE_URL"
)
LISTED = 20
"""Differences that are printed."""

WIDTH = 200
"""Characters of a line where the output is no terminal."""

_BUILD = (
    click.option("--config", "file", metavar="FILE", envvar=CONFIG_FILE_VARIABLE, help="Settings, as TOML."),
    click.option("--store-url", metavar="URL", help="SQLAlchemy URL of the database (a SELECT-only account)."),
    click.option(
        "--connections", metavar="N", type=click.IntRange(1, 1000), default=4, help="Tasks that read at once. [4]"
    ),
    *SPARK,
)


@click.group()
def snapshot() -> None:
    """Snapshots of a whole catalog in Parquet files, made by Spark (docs/pipeline.md).

    A new proxy fills its cache from one (`serve --bootstrap URI`) instead of reading the database.
    """


@snapshot.command()
@click.option("--out", metavar="URI", required=True, help="A new directory, on any file system of Spark's.")
@click.option("--resume", is_flag=True, help="Go on with a build to the same place that has ended early.")
@options(_BUILD)
def build(out: str, resume: bool, file: str | None, store_url: str | None, connections: int, **spark: Any) -> None:
    """Read the metastore's database into one snapshot.

    What `include` and `exclude` of the settings leave out is only listed.
    """
    config = _config(file, store_url)
    from hms_cache_proxy.pipeline.build import Build, summary

    with spark_session(**spark, bar=False) as session, reporting() as report, _granted():
        made = Build(session, config, _uri(out), connections, report, resume).run()
    click.echo(f"{_uri(out)}: {summary(made)}")


@snapshot.command()
@click.option("--out", metavar="URI", required=True, help="The directory of the snapshots.")
@click.option("--keep", metavar="K", type=click.IntRange(1), default=3, help="Snapshots that are kept. [3]")
@options(_BUILD)
def publish(out: str, keep: int, file: str | None, store_url: str | None, connections: int, **spark: Any) -> None:
    """Make a snapshot beside older ones, and remove all but the newest K: for cron, and --bootstrap."""
    config = _config(file, store_url)
    from hms_cache_proxy.pipeline import publish as publishing
    from hms_cache_proxy.pipeline.build import summary

    with spark_session(**spark, bar=False) as session, reporting() as report, _granted():
        place, made = publishing.publish(session, config, _uri(out), keep, connections, report)
    click.echo(f"{place}: {summary(made)}")


@snapshot.command()
@click.argument("sql")
@click.option("--uri", metavar="URI", required=True, help="A snapshot, or a directory of published ones.")
@click.option("--limit", metavar="N", type=click.IntRange(1), default=1000, help="Rows that are shown. [1000]")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
@options(SPARK)
def query(sql: str, uri: str, limit: int, as_json: bool, **spark: Any) -> None:
    """Ask a snapshot in SQL: views databases, tables, columns, partitions, parameters, statistics."""
    from hms_cache_proxy.pipeline.query import query as ask

    with spark_session(**spark) as session:
        columns, rows = ask(session, _uri(uri), sql, limit + 1)
    more, rows = len(rows) > limit, rows[:limit]
    if as_json:
        for row in rows:
            click.echo(json.dumps(row, default=str))
    elif columns:
        _show(columns, rows)
    if more:
        click.echo(f"only the first {limit:,} rows are shown; --limit N shows more", err=True)


@click.command()
@click.option("--config", "file", metavar="FILE", envvar=CONFIG_FILE_VARIABLE, help="Settings of the proxy, as TOML.")
@click.option("--data-dir", metavar="DIR", help="Of the proxy. [./hms-cache-proxy-data]")
@click.option("--store-url", metavar="URL", help="SQLAlchemy URL of the database (a SELECT-only account).")
@click.option("--out", metavar="URI", default="", help="A new directory for the differences, as Parquet.")
@click.option("--connections", metavar="N", type=click.IntRange(1, 1000), default=4, help="Tasks at once. [4]")
@click.option("--json", "as_json", is_flag=True, help="The result as JSON.")
@options(SPARK)
def audit(
    file: str | None,
    data_dir: str | None,
    store_url: str | None,
    out: str,
    connections: int,
    as_json: bool,
    **spark: Any,
) -> None:
    """Compare the cache of a running proxy with the database as of one event, object by object.

    Runs on the proxy's machine. Exit code 1 if they differ.
    """
    if not str(spark["master"]).startswith("local"):
        raise click.UsageError("--master: an audit runs on the proxy's machine, where its cache is")
    config = _config(file, store_url, data_dir)
    from hms_cache_proxy.pipeline.audit import Audit

    with spark_session(**spark, bar=False) as session, reporting() as report, _granted():
        found = Audit(session, config, _uri(out) if out else "", connections, report).run()
    if as_json:
        from hms_cache_proxy.pipeline.values import values

        shown = [
            {
                **{key: value for key, value in row._asdict().items() if key not in ("cached", "stored")},
                "values": values(row),
            }
            for row in found.shown
        ]
        click.echo(json.dumps({**asdict(found), "shown": shown}))
    else:
        _tell_audit(found)
    sys.exit(1 if found.differences else 0)


@contextmanager
def _granted() -> Iterator[None]:
    """Says what to do where the account may not read something."""
    try:
        yield
    except (StoreError, SnapshotError, AuditError) as error:
        if "denied" not in str(error) or "database, " not in str(error):
            raise
        raise type(error)(f"{error}; `hms-cache-proxy doctor` prints the GRANT script of an account") from error


def _tell_audit(found: Found) -> None:
    from hms_cache_proxy.pipeline.values import values

    compared = ", ".join(f"{number} {kind}" for kind, number in found.compared.items())
    click.echo(f"compared as of event {found.event_id}: {compared}")
    for reason, number in sorted(found.not_loaded.items()):
        click.echo(f"not loaded, so relayed ({reason}): {number}")
    for what, number in sorted(found.by_field.items()):
        click.echo(f"{what}: {number}")
    for row in found.shown[:LISTED]:
        place = ".".join(part for part in (row.catalog, row.database, row.table) if part)
        words = row.kind, place, row.partition, row.difference, row.field
        click.echo("  " + " ".join(word for word in words if word))
        for value in values(row):
            click.echo(f"    {value}")
    click.echo(f"{found.differences} differences" if found.differences else "no difference")


def _show(columns: list[str], rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(*columns)
    for row in rows:
        table.add_row(*("" if row[column] is None else str(row[column]) for column in columns))
    width = None if sys.stdout.isatty() else WIDTH
    Console(width=width, markup=False, highlight=False).print(table)


def _config(file: str | None, store_url: str | None, data_dir: str | None = None) -> Config:
    config = load(file, os.environ, {"store_url": store_url, "data_dir": data_dir})
    if not config.store_url:
        raise ConfigError(NO_DATABASE, key="store_url")
    return config


def _uri(place: str) -> str:
    from hms_cache_proxy.snapshots.place import as_uri

    return as_uri(place)
