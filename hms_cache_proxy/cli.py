"""The command line: `hms-cache-proxy serve | status | doctor | flush | check-config | metastore | advise | snapshot |
audit`.

Job: options to settings, calls to the modules that do the work, answers for people (rich) or as JSON,
exit codes: 0 fine, 1 a problem was found or the proxy could not be reached, 2 wrong usage or
configuration, in one line, 130 interrupted by Ctrl-C. Modules that a command needs are imported by that
command, so that `--help` does not wait for the codec.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from hms_cache_proxy import __version__
from hms_cache_proxy.config import ADMIN_URL_VARIABLE, CONFIG_FILE_VARIABLE, HTTP_URL_VARIABLE, Config, load
from hms_cache_proxy.errors import INTERRUPTED, ConfigError, ProxyError, exit_code, one_line
from hms_cache_proxy.lean import import_structlog
from hms_cache_proxy.pipeline.advise.command import advise
from hms_cache_proxy.pipeline.commands import audit, snapshot

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_URL = "http://127.0.0.1:9084"
DEFAULT_ADMIN_URL = "http://127.0.0.1:9085"
NO_UPSTREAM = (
    "upstream: is not set: give --upstream thrift://HOST:PORT, or the key `upstream` in a --config file, "
    "or HMS_CACHE_PROXY_UPSTREAM; or --embedded for a metastore of its own, or --replay for a recording"
)


def main() -> None:
    """Entry point of the console script: one line for an error of ours, never a traceback."""
    try:
        sys.exit(commands(standalone_mode=False) or 0)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort:
        _fail("interrupted", INTERRUPTED)
    except ProxyError as error:
        _fail(error, exit_code(error))


def _fail(error: Exception | str, code: int) -> None:
    click.echo(one_line(error), err=True)
    sys.exit(code)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="%(version)s")
def commands() -> None:
    """A caching, version-bridging proxy for the Apache Hive Metastore.

    Every option of `serve` is also a key of the TOML file (see conf/hms-cache-proxy.toml) and an environment variable
    HMS_CACHE_PROXY_<KEY>. Secrets belong into the environment or a file.
    """


commands.add_command(advise)
commands.add_command(snapshot)
commands.add_command(audit)

_SETTINGS: tuple[Callable[[F], F], ...] = (
    click.option("--config", "file", metavar="FILE", envvar=CONFIG_FILE_VARIABLE, help="Settings, as TOML."),
    click.option("--listen", metavar="HOST:PORT", help="Where Thrift clients connect. [0.0.0.0:9083]"),
    click.option("--http", metavar="HOST:PORT", help="Metrics, health and status. [0.0.0.0:9084]"),
    click.option("--upstream", metavar="URIS", help="thrift://HOST:PORT[,thrift://HOST:PORT] of the metastore."),
    click.option(
        "--embedded", is_flag=True, default=None, help="Start a metastore of this package's own as the upstream."
    ),
    click.option("--store-url", metavar="URL", help="SQLAlchemy URL of its database (a SELECT-only account)."),
    click.option("--bootstrap", metavar="URI", help="Snapshot from which an empty cache is filled (see `snapshot`)."),
    click.option("--data-dir", metavar="DIR", help="Cache and lock. [./hms-cache-proxy-data]"),
    click.option("--workers", metavar="N", help="Worker processes. [usable cores]"),
    click.option("--consistency", metavar="MODE", help="eventual, session, bounded or strict. [session]"),
    click.option("--max-staleness-ms", metavar="N", help="For bounded: the oldest answer that is served."),
    click.option("--record", metavar="FILE", help="Keep every read's result, with its request, in this file."),
    click.option("--record-for", metavar="TIME", help="Such as 30m or 8h. [until it is stopped]"),
    click.option("--replay", metavar="FILE", help="Answer from this recording alone: no metastore, no writes."),
)


def _settings_options(command: F) -> F:
    for option in reversed(_SETTINGS):
        command = option(command)
    return command


def _needs_something_to_answer_from(config: Config) -> None:
    if not config.upstream and not config.embedded and not config.replay:
        raise ConfigError(NO_UPSTREAM, key="upstream")


def _load(file: str | None, options: dict[str, object]) -> Config:
    return load(file, os.environ, options)


@commands.command()
@_settings_options
def serve(file: str | None, **options: object) -> None:
    """Run the proxy until SIGTERM or Ctrl-C; a second one ends it at once."""
    config = _load(file, options)
    _needs_something_to_answer_from(config)
    from hms_cache_proxy import serving

    serving.become(config)


@commands.command("check-config")
@_settings_options
@click.option("--json", "as_json", is_flag=True, help="The settings as JSON.")
def check_config(file: str | None, as_json: bool, **options: object) -> None:
    """Read the settings as `serve` would, and print them, secrets masked."""
    config = _load(file, options)
    _needs_something_to_answer_from(config)
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


_URL = click.option(
    "--url",
    metavar="URL",
    envvar=HTTP_URL_VARIABLE,
    default=DEFAULT_URL,
    help=f"The proxy's http address. [{DEFAULT_URL}]",
)
_ADMIN_URL = click.option(
    "--url",
    metavar="URL",
    envvar=ADMIN_URL_VARIABLE,
    default=DEFAULT_ADMIN_URL,
    help=f"The proxy's admin address. [{DEFAULT_ADMIN_URL}]",
)


@commands.command()
@_URL
@click.option("--json", "as_json", is_flag=True, help="The answer of /status as it is.")
def status(url: str, as_json: bool) -> None:
    """Ask a running proxy how it is; exit code 1 if it is not ready or does not answer."""
    from hms_cache_proxy import remote

    answer = remote.get_status(url)
    if as_json:
        click.echo(json.dumps(answer, indent=2))
    else:
        remote.print_status(url, answer)
    sys.exit(0 if answer["ready"] else 1)


@commands.command()
@_ADMIN_URL
@click.option("--all", "everything", is_flag=True, help="Reload everything.")
@click.option("--catalog", metavar="NAME", help="[hive]")
@click.option("--db", metavar="NAME", help="Reload this database and all its tables.")
@click.option("--table", metavar="NAME", help="Reload this table of --db, with its partitions.")
@click.option("--partition", metavar="NAME", help="Reload this partition (its whole table, but in TTL mode).")
@click.option("--json", "as_json", is_flag=True, help="The answer as JSON.")
def flush(url: str, everything: bool, as_json: bool, **selection: str | None) -> None:
    """Have a running proxy read objects anew from the metastore's database, also ones that do not exist.

    Until they are read, calls about them go to the metastore. With a token: HMS_CACHE_PROXY_ADMIN_TOKEN, or
    HMS_CACHE_PROXY_ADMIN_TOKEN_FILE.
    """
    from hms_cache_proxy import remote

    query = {key: value for key, value in selection.items() if value is not None}
    if everything == bool(query):
        raise click.UsageError("say what to flush: --all, or --db (and --table, --partition)")
    token = load(None, {k: v for k, v in os.environ.items() if "ADMIN_TOKEN" in k}).admin.token
    answer = remote.post_flush(url, query, token)
    if as_json:
        click.echo(json.dumps(answer, indent=2))
    else:
        done = "reloaded" if answer["done"] else "not reloaded yet; calls about it go to the metastore until then"
        click.echo(f"{answer['targets']} targets: {done}")


@commands.command()
@_settings_options
@click.option("--json", "as_json", is_flag=True, help="The findings as JSON.")
def doctor(file: str | None, as_json: bool, **options: object) -> None:
    """Try the metastore, its database and the data directory with these settings, and say what to do.

    Prints the GRANT script of a SELECT-only account. Exit code 1 if something is wrong.
    """
    config = _load(file, options)
    if not config.upstream and not config.embedded:
        raise ConfigError(NO_UPSTREAM, key="upstream")
    from hms_cache_proxy.doctor import diagnose, print_diagnosis

    diagnosis = diagnose(config)
    if as_json:
        click.echo(json.dumps(diagnosis.as_dict(), indent=2))
    else:
        print_diagnosis(diagnosis)
    sys.exit(1 if diagnosis.bad else 0)


@commands.command()
@click.option("--config", "file", metavar="FILE", envvar=CONFIG_FILE_VARIABLE, help="Settings, as TOML.")
@click.option("--listen", metavar="HOST:PORT", help="Where Thrift clients connect. [0.0.0.0:9083]")
@click.option("--url", "metastore_url", metavar="URL", help="SQLite or PostgreSQL. [SQLite in --data-dir]")
@click.option("--warehouse", "metastore_warehouse_dir", metavar="URI", help="Of managed tables.")
@click.option("--external", "metastore_external_dir", metavar="URI", help="Of all other tables.")
@click.option("--data-dir", metavar="DIR", help="Database and warehouses, by default. [./hms-cache-proxy-data]")
def metastore(file: str | None, **options: object) -> None:
    """Run the embedded metastore alone, without a proxy, until SIGTERM or Ctrl-C.

    See docs/metastore.md for what it can do. `serve --embedded` runs it behind the proxy.
    """
    config = _load(file, {key.replace("metastore_", "metastore."): value for key, value in options.items()})
    import_structlog()
    from hms_cache_proxy import log
    from hms_cache_proxy.embedded import runner

    log.setup(config, "metastore")
    sys.exit(runner.run(config))


if __name__ == "__main__":
    main()
