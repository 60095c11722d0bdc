"""What the parts of `Reads` and `Changes` ask of the whole that they are a part of."""

from __future__ import annotations

import random
from abc import abstractmethod
from typing import Any

from tests.differential.contents import TableNote, World
from tests.differential.variants import Variants
from tests.differential.writer import Writer
from tests.testbed.client import MetastoreClient


class PartOfReads:
    """Names and places, right and wrong ones."""

    rng: random.Random
    world: World

    @abstractmethod
    def names(self) -> tuple[str, str]: ...
    @abstractmethod
    def spell(self, name: str) -> str: ...
    @abstractmethod
    def partitioned(self) -> TableNote: ...
    @abstractmethod
    def partition_name(self, note: TableNote) -> str: ...


class PartOfChanges:
    """Objects to change."""

    rng: random.Random
    world: World
    client: MetastoreClient
    writer: Writer

    @abstractmethod
    def _note(self, *kinds: str) -> TableNote: ...
    @abstractmethod
    def _table(self, note: TableNote) -> Any: ...
    @abstractmethod
    def _write(self, variants: Variants, client: MetastoreClient | None = None) -> str:
        """By one of these calls, with `client` if no other is given; returns the method. Refused as Writer says."""

    @abstractmethod
    def _some_partition(self) -> tuple[TableNote, list[str]]: ...
    @abstractmethod
    def partition_name(self, note: TableNote, values: list[str]) -> str: ...
