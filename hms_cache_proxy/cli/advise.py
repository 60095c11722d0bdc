"""`hms-cache-proxy advise`.

Job: options to calls, results to files. Spark, matplotlib and what needs them are imported when the command runs.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from hms_cache_proxy.cli.options import options
from hms_cache_proxy.cli.spark import SPARK, spark_session
from hms_cache_proxy.errors import AdviceError
from hms_cache_proxy.pipeline.session import require


@click.command()
@click.argument("logs", nargs=-1, required=True, metavar="LOG...")
@click.option(
    "--out", metavar="DIR", default="./hms-cache-proxy-advice", show_default=True, help="Report and settings."
)
@click.option("--hit-ratio", type=click.FloatRange(0, 1), default=0.9, show_default=True, help="Wanted, of all reads.")
@click.option("--metastore", metavar="URI", help="thrift://HOST:PORT that knows all tables; the proxy does.")
@click.option("--tables", metavar="FILE", help="A list of all tables instead: database.table a line.")
@click.option("--json", "as_json", is_flag=True, help="The advice as one JSON object, instead of text.")
@options(SPARK)
def advise(
    logs: tuple[str, ...],
    out: str,
    hit_ratio: float,
    metastore: str | None,
    tables: str | None,
    as_json: bool,
    **spark: Any,
) -> None:
    """Say from access logs how the proxy should be set up, and who asks what it should not.

    LOG: files, directories or patterns, as Spark reads them (also .gz, hdfs://, s3a://). Writes report.html, plots,
    advice.toml (include, exclude, cache.max_bytes) and advice.json into --out.
    """
    if metastore and tables:
        raise click.UsageError("--metastore or --tables, not both")
    opened = spark_session(**spark)
    require("pyspark", "matplotlib")
    directory = _directory(out)

    from hms_cache_proxy.config.sections import parse_upstream
    from hms_cache_proxy.pipeline.advise import catalogue, lines, plots, questions, report, snippet, terminal
    from hms_cache_proxy.pipeline.advise.advice import advise as decide

    known = None
    if tables:
        known = catalogue.from_file(tables)
    elif metastore:
        try:
            address = parse_upstream(metastore)
        except ValueError as error:
            raise click.UsageError(f"--metastore: {error}") from None
        known = catalogue.from_metastore(address)
    with opened as running:
        read = lines.read(running, logs)
        answers = questions.ask(running)
    advice = decide(logs, read, answers, known, hit_ratio)
    toml = snippet.snippet(advice)
    drawn = plots.plots(advice, directory)
    summary = json.dumps(advice.summary(), indent=2, ensure_ascii=False)
    written = {
        "report.html": report.report(advice, toml, drawn),
        "advice.toml": toml,
        "advice.json": summary + "\n",
    }
    for name, text in written.items():
        (directory / name).write_text(text, "utf-8")
    if as_json:
        click.echo(summary)
    else:
        terminal.show(advice, [str(directory / name) for name in written])


def _directory(out: str) -> Path:
    directory = Path(out)
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise AdviceError(f"{out}: cannot be made: {error.strerror}") from error
    return directory
