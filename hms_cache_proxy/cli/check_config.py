"""`hms-cache-proxy check-config`."""

from __future__ import annotations

import json
from typing import Any

import click

from hms_cache_proxy.cli.options import SETTINGS, load_config, options, require_source


@click.command("check-config")
@options(SETTINGS)
@click.option("--json", "as_json", is_flag=True, help="Print the settings as JSON.")
def check_config(file: str | None, as_json: bool, **given: object) -> None:
    """Read the settings as `serve` does, and print them with secrets masked."""
    config = load_config(file, given)
    require_source(config)
    from hms_cache_proxy.security import check

    check.files(config)
    if config.traces.wanted:
        from hms_cache_proxy.server import traces

        traces.check(config)
    if as_json:
        click.echo(json.dumps(config.shown(), indent=2))
        return
    for key, value in _flat(config.shown()):
        click.echo(f"{key} = {json.dumps(value)}")


def _flat(values: dict[str, Any], prefix: str = "") -> list[tuple[str, object]]:
    rows: list[tuple[str, object]] = []
    for key, value in values.items():
        rows += _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else [(prefix + key, value)]
    return rows
