"""`hms-cache-proxy audit`."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from hms_cache_proxy.cli.options import Options, gathered
from hms_cache_proxy.cli.spark import DATABASE, SPARK, DatabaseOptions, SparkOptions, explaining_privileges, uri_of
from hms_cache_proxy.config import Config
from hms_cache_proxy.pipeline.progress import JobReport, reporting
from hms_cache_proxy.plurals import counted, listed

if TYPE_CHECKING:
    from hms_cache_proxy.pipeline.audit_plan import AuditPlan
    from hms_cache_proxy.pipeline.audit_progress import AuditResult

LISTED = 20
"""Number of differences that are printed."""

CONNECTIONS = 4


@dataclass(frozen=True, slots=True)
class AuditOptions:
    """The options AUDIT: which proxy, how much of it, and where the differences go."""

    data_dir: str | None
    proxy: str | None
    out: str
    sample: float
    seed: int
    resume: bool
    connections: int | None

    def plan(self, config: Config) -> AuditPlan:
        """What to compare. Raises UsageError for options that do not go together."""
        from hms_cache_proxy.pipeline.audit_plan import AuditPlan, Sample

        if self.resume and not self.out:
            raise click.UsageError("--resume needs --out, where the progress of an audit is kept")
        if self.proxy is not None and self.data_dir is not None:
            raise click.UsageError("give --data-dir or --proxy, not both")
        sample = Sample(self.sample / 100, self.seed)
        return AuditPlan(config, uri_of(self.out) if self.out else "", sample, self.resume)

    def at_once(self, config: Config) -> int:
        """How many connections read. Raises UsageError for more than there can be."""
        many = self.proxy is None and config.store_url.startswith("postgres")
        if self.connections is not None and self.connections > 1 and not many:
            raise click.UsageError(
                "--connections: with --proxy, and without PostgreSQL, which alone can show one state to several"
                " connections, an audit has one"
            )
        return self.connections or (CONNECTIONS if many else 1)


AUDIT: Options[Any] = (
    click.option("--data-dir", metavar="DIR", help="The proxy's data directory. [./hms-cache-proxy-data]"),
    click.option("--proxy", metavar="URI", help="Ask this proxy instead (thrift://HOST:PORT), on any machine."),
    click.option("--out", metavar="URI", default="", help="New directory for the differences, in Parquet."),
    click.option(
        "--sample",
        metavar="PERCENT",
        type=click.FloatRange(0, 100, min_open=True),
        default=100.0,
        help="Share of the tables, and of the partitions of large ones, to compare. [100]",
    ),
    click.option("--seed", metavar="N", type=int, default=0, help="Another number, another sample. [0]"),
    click.option("--resume", is_flag=True, help="Resume the interrupted audit in --out; if there is none, start one."),
    click.option(
        "--connections",
        metavar="N",
        type=click.IntRange(1, 1000),
        help="Number of Spark tasks that read at once; 1: without Spark. [4 on PostgreSQL, else 1]",
    ),
)


@click.command()
@gathered("database", DatabaseOptions, DATABASE)
@gathered("options", AuditOptions, AUDIT)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@gathered("spark", SparkOptions, SPARK)
def audit(database: DatabaseOptions, options: AuditOptions, as_json: bool, spark: SparkOptions) -> None:
    """Compare the cache of a running proxy with the database as of one event, object by object.

    Run it on the machine of the proxy, or with --proxy on any machine. The exit code is 1 if they differ.
    """
    config = database.config(data_dir=options.data_dir)
    plan, connections = options.plan(config), options.at_once(config)
    if connections == 1 and (spark.master or spark.settings):
        raise click.UsageError("--master and --conf are for Spark, and an audit over one connection does not use it")
    with reporting() as report, explaining_privileges():
        if options.proxy is not None:
            found = _of_a_proxy(plan, options.proxy, report)
        elif connections > 1:
            found = _on_spark(plan, connections, spark, report)
        else:
            from hms_cache_proxy.pipeline.audit import Audit

            found = Audit(plan, 1, report).run()
    _tell(found, as_json)
    sys.exit(1 if found.differences else 0)


def _of_a_proxy(plan: AuditPlan, uri: str, report: JobReport) -> AuditResult:
    from hms_cache_proxy.config.address import parse_upstream
    from hms_cache_proxy.pipeline.audit_proxy import ProxyAudit
    from hms_cache_proxy.security.metastore_security import towards_metastores

    try:
        address = parse_upstream(uri)
    except ValueError as error:
        raise click.UsageError(f"--proxy: {error}") from None
    return ProxyAudit(plan, address, report, towards_metastores(plan.config)).run()


def _on_spark(plan: AuditPlan, connections: int, spark: SparkOptions, report: JobReport) -> AuditResult:
    if spark.master is None:
        spark = replace(spark, master="local[*]")
    elif not spark.master.startswith("local"):
        raise click.UsageError(
            "--master: an audit must run locally (local, local[N]), because it reads the proxy's cache file"
        )
    from hms_cache_proxy.pipeline.audit import Audit
    from hms_cache_proxy.pipeline.session import on

    with spark.session(bar=False) as session:
        return Audit(plan, connections, report, on(session)).run()


def _tell(found: AuditResult, as_json: bool) -> None:
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


def _tell_audit(found: AuditResult) -> None:
    from hms_cache_proxy.pipeline.values import values

    first = "" if found.first_event_id == found.event_id else f"s {found.first_event_id} to"
    click.echo(f"compared as of event{first} {found.event_id}: {listed(found.compared)}")
    for reason, number in sorted(found.not_loaded.items()):
        click.echo(f"not loaded, so relayed ({reason}): {number}")
    if found.unsettled:
        click.echo(f"changed whenever they were compared: {found.unsettled}")
    for what, number in sorted(found.by_field.items()):
        click.echo(f"{what}: {number}")
    for row in found.shown[:LISTED]:
        place = ".".join(part for part in (row.catalog, row.database, row.table) if part)
        words = row.kind, place, row.partition, row.difference, row.field
        click.echo("  " + " ".join(word for word in words if word))
        for value in values(row):
            click.echo(f"    {value}")
    click.echo(counted(found.differences, "difference") if found.differences else "no difference")
