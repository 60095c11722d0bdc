"""`hms-cache-proxy metastore`."""

from __future__ import annotations

import sys

import click

from hms_cache_proxy.cli.options import CONFIG_FILE, load_config
from hms_cache_proxy.errors import ConfigError


@click.command()
@CONFIG_FILE
@click.option("--listen", metavar="HOST:PORT", help="Address for Thrift clients. [0.0.0.0:9083]")
@click.option(
    "--url", "metastore_url", metavar="URL", help="URL of its database, SQLite or PostgreSQL. [SQLite in --data-dir]"
)
@click.option("--warehouse", "metastore_warehouse_dir", metavar="URI", help="Warehouse of managed tables.")
@click.option("--external", "metastore_external_dir", metavar="URI", help="Warehouse of all other tables.")
@click.option("--data-dir", metavar="DIR", help="Default place of database and warehouses. [./hms-cache-proxy-data]")
def metastore(file: str | None, **given: object) -> None:
    """Run the embedded metastore alone, without a proxy, until SIGTERM or Ctrl-C.

    docs/metastore.md says what it can do. `serve --embedded` runs it behind the proxy.
    """
    config = load_config(file, given)
    if config.security.transports != ("plain",):
        key = "security.transports"
        raise ConfigError(f"{key}: the metastore alone speaks plain Thrift only; put a proxy in front of it")
    from hms_cache_proxy.embedded import runner
    from hms_cache_proxy.processes import log

    log.setup(config, "metastore")
    sys.exit(runner.run(config))
