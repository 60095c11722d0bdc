"""`hms-cache-proxy snapshot build | publish | query | report | export | diff`."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hms_cache_proxy.cli import files
from hms_cache_proxy.cli.options import Options, gathered
from hms_cache_proxy.cli.spark import DATABASE, SPARK, DatabaseOptions, SparkOptions, explaining_privileges, uri_of
from hms_cache_proxy.errors import SnapshotError
from hms_cache_proxy.pipeline.progress import reporting
from hms_cache_proxy.pipeline.ready_questions import QUESTIONS, given
from hms_cache_proxy.plurals import fitting, listed

if TYPE_CHECKING:
    from hms_cache_proxy.pipeline.query import Catalog

WIDTH = 200
"""Line width if the output is not a terminal."""

_connections = click.option(
    "--connections", metavar="N", type=click.IntRange(1, 1000), default=4, help="Number of tasks that read at once. [4]"
)


@click.group()
def snapshot() -> None:
    """Make, query and compare snapshots of a whole catalog in Parquet files (docs/pipeline.md).

    A new proxy can fill its cache from a snapshot (`serve --bootstrap URI`) instead of the database.
    """


@snapshot.command()
@click.option("--out", metavar="URI", required=True, help="New directory, on any file system that Spark can write to.")
@click.option("--resume", is_flag=True, help="Resume an unfinished build in the same directory.")
@gathered("database", DatabaseOptions, DATABASE)
@_connections
@gathered("spark", SparkOptions, SPARK)
def build(out: str, resume: bool, database: DatabaseOptions, connections: int, spark: SparkOptions) -> None:
    """Make one snapshot of the metastore's database.

    Tables that `include` and `exclude` leave out are only listed by name.
    """
    config = database.config()
    from hms_cache_proxy.pipeline.build import Build, summary
    from hms_cache_proxy.pipeline.session import on

    with spark.session(bar=False) as session, reporting() as report, explaining_privileges():
        made = Build(on(session), config, uri_of(out), connections, report, resume).run()
    click.echo(f"{uri_of(out)}: {summary(made)}")


@snapshot.command()
@click.option("--out", metavar="URI", required=True, help="Directory of the snapshots.")
@click.option("--keep", metavar="K", type=click.IntRange(1), default=3, help="Number of snapshots to keep. [3]")
@click.option(
    "--increment",
    is_flag=True,
    help="Bring the newest snapshot up to date from the notification log, without Spark, if that is possible.",
)
@gathered("database", DatabaseOptions, DATABASE)
@_connections
@gathered("spark", SparkOptions, SPARK)
def publish(
    out: str, keep: int, increment: bool, database: DatabaseOptions, connections: int, spark: SparkOptions
) -> None:
    """Add a snapshot to a directory of snapshots, and remove all but the newest K. It can run from cron."""
    config = database.config()
    from hms_cache_proxy.pipeline import publish as publishing
    from hms_cache_proxy.pipeline.build import summary
    from hms_cache_proxy.pipeline.increment import NoIncrement
    from hms_cache_proxy.pipeline.session import on

    if increment:
        with reporting() as report, explaining_privileges():
            try:
                place, made = publishing.increment(config, uri_of(out), keep, report)
            except NoIncrement as why:
                report.tell(f"making a full snapshot: {why}")
            else:
                click.echo(f"{place}: {summary(made)}")
                return
    with spark.session(bar=False) as session, reporting() as report, explaining_privileges():
        place, made = publishing.publish(on(session), config, uri_of(out), keep, connections, report)
    click.echo(f"{place}: {summary(made)}")


@dataclass(frozen=True, slots=True)
class CatalogOptions:
    """The options CATALOG: what is asked."""

    uri: str
    before: str | None
    logs: tuple[str, ...]

    def catalog(self) -> Catalog:
        """With URIs for paths."""
        from hms_cache_proxy.pipeline.query import Catalog

        return Catalog(uri_of(self.uri), uri_of(self.before) if self.before else "", self.logs)


CATALOG: Options[Any] = (
    click.option("--uri", metavar="URI", required=True, help="A snapshot, or a directory of published snapshots."),
    click.option("--before", metavar="URI", help="An earlier snapshot: more views, before_tables and so on."),
    click.option(
        "--access-log", "logs", metavar="FILES", multiple=True, help="Access logs: one more view, calls. Repeatable."
    ),
)


@dataclass(frozen=True, slots=True)
class Asked:
    """The options ASKED: a question, in SQL or by name."""

    sql: str | None
    question: str | None

    def statement(self, catalog: CatalogOptions) -> str:
        """In SQL. Raises UsageError if there is no question, or two, or one that needs more than is given."""
        if (self.sql is None) == (self.question is None):
            raise click.UsageError("give a query in SQL, or --question NAME")
        if self.sql is not None:
            return self.sql
        ready = QUESTIONS[self.question or ""]
        if ready.needs not in given(catalog.before, catalog.logs):
            raise click.UsageError(f"--question {self.question} needs {ready.needs.value}")
        return ready.sql


ASKED: Options[Any] = (
    click.argument("sql", required=False),
    click.option(
        "--question",
        metavar="NAME",
        type=click.Choice(list(QUESTIONS)),
        help="A question that is ready: " + ", ".join(QUESTIONS) + ".",
    ),
)


@snapshot.command()
@gathered("asked", Asked, ASKED)
@gathered("options", CatalogOptions, CATALOG)
@click.option(
    "--limit", metavar="N", type=click.IntRange(1), default=1000, help="Maximum number of rows to show. [1000]"
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
@gathered("spark", SparkOptions, SPARK)
def query(asked: Asked, options: CatalogOptions, limit: int, as_json: bool, spark: SparkOptions) -> None:
    """Query a snapshot in SQL, or ask a question that is ready.

    Views: databases, tables, columns, partitions, parameters, statistics.
    """
    text = asked.statement(options)
    with spark.session() as session:
        found = options.catalog().views(session, partial(click.echo, err=True))(text, limit + 1)
    columns, rows = found.columns, found.rows
    more, rows = len(rows) > limit, rows[:limit]
    if as_json:
        for row in rows:
            click.echo(json.dumps(row, default=str))
    elif columns:
        _show(columns, rows)
    if more:
        first = fitting(limit, "the first row is", f"the first {limit:,} rows are")
        click.echo(f"only {first} shown; --limit N shows more", err=True)


@snapshot.command()
@gathered("options", CatalogOptions, CATALOG)
@click.option("--out", metavar="FILE", type=click.Path(dir_okay=False), required=True, help="The HTML file to write.")
@gathered("spark", SparkOptions, SPARK)
def report(options: CatalogOptions, out: str, spark: SparkOptions) -> None:
    """Ask all questions that are ready, and write the answers to an HTML file, with plots.

    `growth` is asked with --before, `unread` with --access-log.
    """
    from hms_cache_proxy.pipeline.session import require
    from hms_cache_proxy.pipeline.snapshot_report import report as written

    require("matplotlib")
    with spark.session() as session:
        found = written(session, options.catalog())
    files.write(Path(out), found.encode(), SnapshotError)
    click.echo(out)


@snapshot.command()
@click.option("--uri", metavar="URI", required=True, help="A snapshot, or a directory of published snapshots.")
@click.option("--out", metavar="URI", required=True, help="New directory for the files.")
@click.option("--jobs", metavar="N", type=click.IntRange(1, 1000), help="Number of processes. [usable cores]")
def export(uri: str, out: str, jobs: int | None) -> None:
    """Write a snapshot as plain Parquet, for DuckDB, pandas, Spark SQL and others. Without Spark.

    Directories: databases, tables, columns, partitions, statistics (docs/snapshot-format.md).
    """
    from hms_cache_proxy.pipeline.export import Export
    from hms_cache_proxy.processes.cores import usable_cores

    with reporting() as report:
        counts = Export(uri_of(uri), uri_of(out), jobs or usable_cores(), report).run()
    click.echo(f"{uri_of(out)}: {listed(counts)}")


@snapshot.command()
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def diff(a: str, b: str, as_json: bool) -> None:
    """Show what differs from snapshot A to snapshot B: databases, tables, and numbers of partitions. Without Spark.

    A and B are snapshots, or directories of published snapshots, of which the newest is taken.
    """
    from hms_cache_proxy.cli.snapshot_diff import document, lines
    from hms_cache_proxy.snapshots.difference import difference
    from hms_cache_proxy.snapshots.place import newest

    before, after = newest(a), newest(b)
    found = difference(before, after)
    if as_json:
        click.echo(json.dumps(document(before, after, found)))
        return
    for line in lines(before, after, found):
        click.echo(line)


def _show(columns: list[str], rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(*columns)
    for row in rows:
        table.add_row(*("" if row[column] is None else str(row[column]) for column in columns))
    width = None if sys.stdout.isatty() else WIDTH
    Console(width=width, markup=False, highlight=False).print(table)
