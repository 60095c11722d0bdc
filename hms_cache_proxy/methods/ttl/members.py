"""Targets that let partitions be invalidated one by one.

Job: make the targets of single partitions and of lists, and say which kinds of entries are about partitions. An entry
of one partition depends on its table and on the partition's own target; every other entry of these kinds (lists, names,
filters, aggregates) depends on its table and on the target of the table's lists. Flushing a partition invalidates its
own target and that of the lists. Must not know: entries, requests. Owner: any process; no state.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from hms_cache_proxy.cache import targets
from hms_cache_proxy.cache.targets import Target
from hms_cache_proxy.cache.ttl import EntryKind
from hms_cache_proxy.store.protocol import TableKey

from ..readers.part_names import split_name

OF_PARTITIONS: Final = frozenset(
    {EntryKind.PARTITION, EntryKind.PARTITION_NAMES, EntryKind.PARTITION_FILTER, EntryKind.PARTITION_STATISTICS}
)


class Members(NamedTuple):
    """Partitions of a table, by their names in a request."""

    table: TableKey
    names: Sequence[bytes]

    @property
    def prefix(self) -> Target:
        """The common beginning of their targets."""
        return targets.partition(*self.table, b"")

    def target(self, number: int) -> Target:
        """The target of one of them."""
        return target_of(self.table, self.names[number])


def target_of(table: TableKey, name: bytes) -> Target:
    """The target of a partition, made of its values: the same for every spelling of its name."""
    parts = split_name(name)
    if parts is None:
        return targets.partition(*table, name)
    return targets.partition(*table, b"\0".join(b"%b=%b" % (key.lower(), value) for key, value in parts.items()))


def flushed(table: TableKey, name: bytes) -> tuple[Target, ...]:
    """The targets to invalidate to remove everything about a partition."""
    return target_of(table, name), targets.partition_lists(*table)
