"""`hms-cache-proxy status`."""

from __future__ import annotations

import json
import sys

import click

from hms_cache_proxy.config import HTTP_URL_VARIABLE

DEFAULT_URL = "http://127.0.0.1:9084"


@click.command()
@click.option(
    "--url",
    metavar="URL",
    envvar=HTTP_URL_VARIABLE,
    default=DEFAULT_URL,
    help=f"The proxy's http address. [{DEFAULT_URL}]",
)
@click.option("--json", "as_json", is_flag=True, help="Print the answer of /status unchanged.")
@click.option("--watch", is_flag=True, help="Show it again every few seconds, until Ctrl-C.")
def status(url: str, as_json: bool, watch: bool) -> None:
    """Show the status of a running proxy. The exit code is 1 if it is not ready or does not answer.

    The numbers of calls are up to six seconds old.
    """
    if watch and as_json:
        raise click.UsageError("--watch has no meaning with --json")
    from hms_cache_proxy.cli import remote

    if watch:
        remote.watch_status(url)
    answer = remote.get_status(url)
    if as_json:
        click.echo(json.dumps(answer, indent=2))
    else:
        remote.print_status(url, answer)
    sys.exit(0 if answer["ready"] else 1)
