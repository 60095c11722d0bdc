"""Options that the commands of this package share.

Job: click options, and what they mean for Spark. Must not know: what a command does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from hms_cache_proxy.pipeline.session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

F = TypeVar("F", bound=Callable[..., Any])
Options = Sequence[Callable[[F], F]]

LOCAL_SHUFFLES: Final = "8"
"""Partitions of a shuffle in this process; Spark's own default is made for clusters."""

SPARK: Options[Any] = (
    click.option("--master", metavar="URL", default="local[*]", help="Of Spark. [local[*]: in this process]"),
    click.option("--conf", "settings", metavar="KEY=VALUE", multiple=True, help="A setting of Spark; repeatable."),
)


def options(some: Options[F]) -> Callable[[F], F]:
    """A decorator that adds them to a command, in this order."""

    def add(command: F) -> F:
        for option in reversed(some):
            command = option(command)
        return command

    return add


def spark_session(master: str, settings: tuple[str, ...], *, bar: bool = True) -> AbstractContextManager[SparkSession]:
    """The session that the options SPARK ask for; `bar`: Spark's own, on a terminal. Raises UsageError for a setting
    that is none."""
    found = {} if bar else {"spark.ui.showConsoleProgress": "false"}
    if master.startswith("local"):
        found["spark.sql.shuffle.partitions"] = LOCAL_SHUFFLES
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or not key.strip():
            raise click.UsageError(f"--conf {setting}: is not KEY=VALUE")
        found[key.strip()] = value
    return session(master, found)
