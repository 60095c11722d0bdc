"""All reads that there are, hostile ones too, as each version of Hive has them."""

from __future__ import annotations

from tests.differential.contents import World
from tests.differential.reads import METHODS_23, OldReads, Reads, Reads31
from tests.differential.requests import RequestReads

ONE_TRY = {
    f"{prefix}.hmshandler.retry.{name}": value
    for prefix in ("metastore", "hive")
    for name, value in (("attempts", "1"), ("interval", "10ms"))
}
"""Else a metastore asks its database for 20 s before it refuses what that cannot answer."""


class AllReads(Reads, RequestReads):
    """More methods, and requests that nobody sends by chance: what `Reads` has and what it has not."""

    hostile = True


class AllReads40(OldReads, RequestReads):
    """The same for 4.0, which still has the old methods."""

    hostile = True


class AllReads31(Reads31, RequestReads):
    """The same for 3.1."""

    hostile = True


class AllReads23(OldReads):
    """The same for 2.3."""

    hostile = True

    def __init__(self, world: World, seed: int) -> None:
        super().__init__(world, seed, METHODS_23)
