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
def doctor(file: str | None, as_json: bool, **given: object) -> None:
    """Check the metastores, the database and the data directory of these settings, and say what to fix.

    Prints the script that creates a SELECT-only account. The exit code is 1 if something is wrong.
    """
    config = load_config(file, given)
    if not config.upstream and not config.embedded:
        raise ConfigError(NO_UPSTREAM, key="upstream")
    from hms_cache_proxy.doctor import diagnose, print_diagnosis

    diagnosis = diagnose(config)
    if as_json:
        click.echo(json.dumps(diagnosis.as_dict(), indent=2))
    else:
        print_diagnosis(diagnosis)
    sys.exit(1 if diagnosis.bad else 0)
