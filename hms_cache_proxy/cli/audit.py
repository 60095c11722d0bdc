"""`hms-cache-proxy audit`."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import click

from hms_cache_proxy.cli.options import gathered
from hms_cache_proxy.cli.spark import DATABASE, SPARK, DatabaseOptions, SparkOptions, explaining_privileges, uri_of
from hms_cache_proxy.pipeline.progress import reporting

if TYPE_CHECKING:
    from hms_cache_proxy.pipeline.audit import AuditResult

LISTED = 20
"""Number of differences that are printed."""


@click.command()
@gathered("database", DatabaseOptions, DATABASE)
@click.option("--data-dir", metavar="DIR", help="The proxy's data directory. [./hms-cache-proxy-data]")
@click.option("--out", metavar="URI", default="", help="New directory for the differences, in Parquet.")
@click.option(
    "--connections", metavar="N", type=click.IntRange(1, 1000), default=4, help="Number of tasks that read at once. [4]"
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@gathered("spark", SparkOptions, SPARK)
def audit(
    database: DatabaseOptions,
    data_dir: str | None,
    out: str,
    connections: int,
    as_json: bool,
    spark: SparkOptions,
) -> None:
    """Compare the cache of a running proxy with the database as of one event, object by object.

    Run it on the machine of the proxy. The exit code is 1 if they differ.
    """
    if spark.master is None:
        spark = replace(spark, master="local[*]")
    elif not spark.master.startswith("local"):
        raise click.UsageError(
            "--master: an audit must run locally (local, local[N]), because it reads the proxy's cache file"
        )
    config = database.config(data_dir=data_dir)
    from hms_cache_proxy.pipeline.audit import Audit

    with spark.session(bar=False) as session, reporting() as report, explaining_privileges():
        found = Audit(session, config, uri_of(out) if out else "", connections, report).run()
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


def _tell_audit(found: AuditResult) -> None:
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
