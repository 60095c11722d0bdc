"""`hms-cache-proxy advise`.

Job: turn options into calls, and results into files. Spark, matplotlib and the modules that need them are imported when
the command runs.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hms_cache_proxy.cli import files
from hms_cache_proxy.cli.options import Options, gathered
from hms_cache_proxy.cli.spark import SPARK, SparkOptions
from hms_cache_proxy.errors import AdviceError

if TYPE_CHECKING:
    from hms_cache_proxy.pipeline.advise.patterns import KnownTable

CATALOGUE: Options[Any] = (
    click.option("--metastore", metavar="URI", help="Metastore or proxy (thrift://HOST:PORT) to ask for all tables."),
    click.option("--tables", metavar="FILE", help="File that lists all tables, one database.table per line."),
)


@dataclass(frozen=True, slots=True)
class CatalogueOptions:
    """The options CATALOGUE: at most one of a metastore and a file."""

    metastore: str | None
    tables: str | None

    def __post_init__(self) -> None:
        if self.metastore and self.tables:
            raise click.UsageError("give --metastore or --tables, not both")

    def known(self) -> frozenset[KnownTable] | None:
        """All existing tables; None if neither option is given."""
        from hms_cache_proxy.config.address import parse_upstream
        from hms_cache_proxy.pipeline.advise import catalogue

        if self.tables:
            return catalogue.from_file(self.tables)
        if not self.metastore:
            return None
        try:
            address = parse_upstream(self.metastore)
        except ValueError as error:
            raise click.UsageError(f"--metastore: {error}") from None
        return catalogue.from_metastore(address)


@click.command()
@click.argument("logs", nargs=-1, required=True, metavar="LOG...")
@click.option(
    "--out",
    metavar="DIR",
    default="./hms-cache-proxy-advice",
    show_default=True,
    help="Directory for the report and the settings.",
)
@click.option(
    "--hit-ratio",
    type=click.FloatRange(0, 1),
    default=0.9,
    show_default=True,
    help="Share of the reads to be answered from the cache.",
)
@gathered("catalogue", CatalogueOptions, CATALOGUE)
@click.option("--json", "as_json", is_flag=True, help="Print the advice as one JSON object.")
@gathered("spark", SparkOptions, SPARK)
def advise(
    logs: tuple[str, ...],
    out: str,
    hit_ratio: float,
    catalogue: CatalogueOptions,
    as_json: bool,
    spark: SparkOptions,
) -> None:
    """Recommend settings based on access logs, and name the clients that send too many requests.

    LOG is a file, a directory or a pattern that Spark can read (also .gz, hdfs://, s3a://). The command writes
    report.html, plots, advice.toml (include, exclude, cache.max_bytes) and advice.json to --out.
    """
    from hms_cache_proxy.pipeline.advise import size

    opened = spark.session(short=size.is_small(logs))
    from hms_cache_proxy.pipeline.session import require

    require("pyspark", "matplotlib")
    directory = _directory(out)

    from hms_cache_proxy.pipeline.advise import lines, plots, questions, report, snippet, terminal
    from hms_cache_proxy.pipeline.advise.advice import advise as decide

    known = catalogue.known()
    with opened as running:
        read = lines.read(running, logs)
        answers = questions.ask(running)
    advice = decide(logs, read, answers, known, hit_ratio)
    toml = snippet.snippet(advice)
    drawn = plots.plots(advice)
    summary = json.dumps(advice.summary(), indent=2, ensure_ascii=False)
    texts = {
        "report.html": report.report(advice, toml, drawn),
        "advice.toml": toml,
        "advice.json": summary + "\n",
    }
    for plot in drawn:
        files.write(directory / plot.name, plot.png, AdviceError)
    for name, text in texts.items():
        files.write(directory / name, text.encode(), AdviceError)
    if as_json:
        click.echo(summary)
    else:
        terminal.show(advice, [str(directory / name) for name in texts])


def _directory(out: str) -> Path:
    directory = Path(out)
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise AdviceError(f"{out}: cannot create this directory: {error.strerror}") from error
    return directory
