"""`hms-cache-proxy doctor`."""

from __future__ import annotations

import json
import sys

import click

from hms_cache_proxy.cli.options import NO_UPSTREAM, SETTINGS, load_config, options
from hms_cache_proxy.errors import ConfigError


@click.command()
@options(SETTINGS)
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
@click.option(
    "--grant-script", "only_script", is_flag=True, help="Print only the script for the account of --store-url."
)
def doctor(file: str | None, as_json: bool, only_script: bool, **given: object) -> None:
    """Check the metastores, the database and the data directory of these settings, and say what to fix.

    If the account of the database cannot be used as it is, prints the script that creates a SELECT-only account. The
    exit code is 1 if something is wrong.
    """
    if as_json and only_script:
        raise click.UsageError("--grant-script has no meaning with --json, which has the script as grant_script")
    config = load_config(file, given)
    if not config.upstream and not config.embedded:
        raise ConfigError(NO_UPSTREAM)
    from hms_cache_proxy.doctor import diagnose, look_at_database, print_diagnosis

    if only_script:
        if config.source != "sql":
            raise ConfigError("store_url: is not set; --grant-script needs to know the database")
        _, _, script = look_at_database(config)
        click.echo(script or "-- Nothing to grant: the account of store_url may read what the proxy reads.")
        return
    diagnosis = diagnose(config)
    if as_json:
        click.echo(json.dumps(diagnosis.as_dict(), indent=2))
    else:
        print_diagnosis(diagnosis)
    sys.exit(1 if diagnosis.bad else 0)
