"""Options that several commands share, and the settings that result from them.

Job: define the click options; `load_config` reads the settings as `serve` does. Must not know: what a command does.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import wraps
from typing import Any, TypeVar

import click

from hms_cache_proxy.config import CONFIG_FILE_VARIABLE, Config, load
from hms_cache_proxy.errors import ConfigError

F = TypeVar("F", bound=Callable[..., Any])
Options = Sequence[Callable[[F], F]]

NO_UPSTREAM = (
    "upstream: is not set: give --upstream thrift://HOST:PORT, or the key `upstream` in a --config file, "
    "or HMS_CACHE_PROXY_UPSTREAM; or use --embedded to start a metastore, or --replay to answer from a recording"
)

CONFIG_FILE = click.option(
    "--config", "file", metavar="FILE", envvar=CONFIG_FILE_VARIABLE, help="TOML file with settings."
)

SECTIONS = ("admin", "metastore")
"""Sections with settings that have an option: it is named after both, as admin_listen."""

SETTINGS: Options[Any] = (
    CONFIG_FILE,
    click.option("--listen", metavar="HOST:PORT", help="Address for Thrift clients. [0.0.0.0:9083]"),
    click.option("--http", metavar="HOST:PORT", help="Address for metrics, health and status. [0.0.0.0:9084]"),
    click.option("--admin-listen", metavar="HOST:PORT", help="Address of POST /admin/flush. [127.0.0.1:9085]"),
    click.option("--upstream", metavar="URIS", help="Metastores: thrift://HOST:PORT[,thrift://HOST:PORT]."),
    click.option(
        "--embedded", is_flag=True, default=None, help="Start the embedded metastore, and use it as the upstream."
    ),
    click.option("--store", metavar="KIND", help="What the cache is read from: auto, sql, thrift or none. [auto]"),
    click.option("--store-url", metavar="URL", help="SQLAlchemy URL of their database; SELECT-only account."),
    click.option("--bootstrap", metavar="URI", help="Snapshot to fill an empty cache from (see `snapshot`)."),
    click.option(
        "--data-dir", metavar="DIR", help="Directory for the cache and all other state. [./hms-cache-proxy-data]"
    ),
    click.option("--workers", metavar="N", help="Number of worker processes. [usable cores]"),
    click.option("--consistency", metavar="MODE", help="Mode: eventual, session, bounded or strict. [session]"),
    click.option("--max-staleness-ms", metavar="N", help="Maximum age of an answer, with --consistency bounded."),
    click.option("--peers", metavar="LIST", help="All proxies of this metastore: HOST:PORT,... or dns+NAME:PORT."),
    click.option("--peer-listen", metavar="HOST:PORT", help="Address where other proxies connect. [0.0.0.0:9086]"),
    click.option("--record", metavar="FILE", help="Record every read and its result in this file."),
    click.option("--record-for", metavar="TIME", help="How long to record, such as 30m or 8h. [until the proxy stops]"),
    click.option("--replay", metavar="FILE", help="Answer from this recording alone: no metastore, no writes."),
)


def options(some: Options[F]) -> Callable[[F], F]:
    """A decorator that adds these options to a command, in this order."""

    def add(command: F) -> F:
        for option in reversed(some):
            command = option(command)
        return command

    return add


def gathered(name: str, kind: type[Any], some: Options[Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator that adds these options to a command. The command gets them as one argument, `name`: a `kind`, which
    is a dataclass with a field for each option."""
    parts = [field.name for field in fields(kind)]

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def run(**given: Any) -> Any:
            value = kind(**{part: given.pop(part) for part in parts})
            return command(**{name: value}, **given)

        added: Callable[..., Any] = options(some)(run)
        return added

    return add


def load_config(file: str | None, given: dict[str, object]) -> Config:
    """The settings of the file, the environment and the options (by name; None: not given)."""
    return load(file, os.environ, {_key(name): value for name, value in given.items()})


def _key(option: str) -> str:
    section, _, rest = option.partition("_")
    return f"{section}.{rest}" if section in SECTIONS else option


def require_source(config: Config) -> None:
    """Raise ConfigError if there is neither a metastore nor a recording to answer from."""
    if not config.upstream and not config.embedded and not config.replay:
        raise ConfigError(NO_UPSTREAM)
