"""`hms-cache-proxy flush`."""

from __future__ import annotations

import json
import os

import click

from hms_cache_proxy.config import ADMIN_URL_VARIABLE, load
from hms_cache_proxy.plurals import counted

DEFAULT_URL = "http://127.0.0.1:9085"


@click.command()
@click.option(
    "--url",
    metavar="URL",
    envvar=ADMIN_URL_VARIABLE,
    default=DEFAULT_URL,
    help=f"The proxy's admin address. [{DEFAULT_URL}]",
)
@click.option("--all", "everything", is_flag=True, help="Reload everything.")
@click.option("--catalog", metavar="NAME", help="Catalog of --db. [hive]")
@click.option("--db", metavar="NAME", help="Reload this database and all its tables.")
@click.option("--table", metavar="NAME", help="Reload this table of --db, with its partitions.")
@click.option("--partition", metavar="NAME", help="Reload this partition (outside TTL mode: its whole table).")
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
def flush(url: str, everything: bool, as_json: bool, **selection: str | None) -> None:
    """Make a running proxy reload objects, including objects that its cache takes for absent.

    Until they are reloaded, calls about them go to the metastore. If the proxy requires a token, set
    HMS_CACHE_PROXY_ADMIN_TOKEN or HMS_CACHE_PROXY_ADMIN_TOKEN_FILE.
    """
    query = {key: value for key, value in selection.items() if value is not None}
    if everything == bool(query):
        raise click.UsageError("say what to flush: --all, or --db (with --table, --partition)")
    token = load(None, {k: v for k, v in os.environ.items() if "ADMIN_TOKEN" in k}).admin.token
    from hms_cache_proxy.cli import remote

    answer = remote.post_flush(url, query, token)
    if as_json:
        click.echo(json.dumps(answer, indent=2))
    else:
        done = "reloaded" if answer["done"] else "not reloaded yet; until then, calls about them go to the metastore"
        click.echo(f"{counted(answer['targets'], 'target')}: {done}")
