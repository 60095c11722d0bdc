"""What the commands that run Spark jobs share: options for Spark and the database, and a hint in errors.

Job: define the click options, and turn them into values. Must not know: what a job does.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from hms_cache_proxy.cli.options import CONFIG_FILE, Options, load_config
from hms_cache_proxy.config import Config
from hms_cache_proxy.errors import AuditError, ConfigError, SnapshotError, StoreError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NO_DATABASE = (
    "store_url: is not set: give --store-url postgresql://USER:PASSWORD@HOST:PORT/DATABASE, or the key `store_url` in a"
    " --config file, or HMS_CACHE_PROXY_STORE_URL"
)

SPARK: Options[Any] = (
    click.option(
        "--master",
        metavar="URL",
        help="Master URL of Spark. [the configured one; if there is none, local[*]: in this process]",
    ),
    click.option("--conf", "settings", metavar="KEY=VALUE", multiple=True, help="Spark setting; may be repeated."),
)


DATABASE: Options[Any] = (
    CONFIG_FILE,
    click.option("--store-url", metavar="URL", help="SQLAlchemy URL of the database, with a SELECT-only account."),
)


@dataclass(frozen=True, slots=True)
class SparkOptions:
    """The options SPARK: Spark's master, and its settings as KEY=VALUE."""

    master: str | None
    settings: tuple[str, ...]

    def session(self, *, bar: bool = True, short: bool = True) -> AbstractContextManager[SparkSession]:
        """The session with these options. `bar`: whether Spark shows its own progress bar on a terminal; `short`:
        whether Spark's JVM has little work to do itself. Raises UsageError for a setting that is not KEY=VALUE."""
        found = {} if bar else {"spark.ui.showConsoleProgress": "false"}
        for setting in self.settings:
            key, equals, value = setting.partition("=")
            if not equals or not key.strip():
                raise click.UsageError(f"--conf {setting}: is not KEY=VALUE")
            found[key.strip()] = value
        from hms_cache_proxy.pipeline.session import session

        return session(self.master, found, short=short)


@dataclass(frozen=True, slots=True)
class DatabaseOptions:
    """The options DATABASE: a file of settings, and a URL that replaces the file's."""

    file: str | None
    store_url: str | None

    def config(self, *, data_dir: str | None = None) -> Config:
        """The settings. Raises ConfigError if they name no database."""
        config = load_config(self.file, {"store_url": self.store_url, "data_dir": data_dir})
        if not config.store_url:
            raise ConfigError(NO_DATABASE)
        return config


@contextmanager
def explaining_privileges() -> Iterator[None]:
    """Add a hint to an error that says that the account may not read something."""
    try:
        yield
    except (StoreError, SnapshotError, AuditError) as error:
        if "denied" not in str(error) or "database, " not in str(error):
            raise
        raise type(error)(f"{error}; `hms-cache-proxy doctor` prints the GRANT script for the account") from error


def uri_of(place: str) -> str:
    """The place as a URI; a local path becomes a file: URI."""
    from hms_cache_proxy.snapshots.place import as_uri

    return as_uri(place)
