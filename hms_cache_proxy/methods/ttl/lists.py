"""Keeps lists of partitions whole, and also fills the entries of the partitions in them: if a client lists a table and
then asks for some of its partitions by name, this costs the metastore one call.

Job: turn a reply into the entries that it may fill. Must not know: ages, claims.

A list fills entries only if it shows a partition as calls by names do: get_partitions on every Hive, and the other
lists on 2.3 (hms_cache_proxy/store/README.md). Names are made of the values and of the table's partition keys, so the
table has to be in the cache (every engine asks for it first). A list is answered from its own entry, in one look-up,
not composed of a thousand entries. Owner: one per request.
"""

from __future__ import annotations

from typing import Any, Final

from hms_cache_proxy.cache.ttl import EntryKind, NewEntry
from hms_cache_proxy.store.protocol import TableKey
from hms_cache_proxy.wire.message import Header

from ..readers.part_names import make_name, split_name
from .looking import OneStepConversation, RequestView
from .partitions import PLAIN, PartitionEntries, Shown, partitions_in, table_of
from .tables import partition_keys
from .whole import Whole

FILLED_AT_ONCE: Final = 1000
"""A longer list fills nothing: it would take more than 10 ms of the loop, and evict what others use."""

_SAYS_WHAT_NAMES_SAY: Final = b"get_partitions"


class ListConversation(OneStepConversation):
    """One list of partitions."""

    def __init__(self, look: RequestView, header: Header, table: TableKey, arguments: bytes) -> None:
        self.look = look
        self.kind = EntryKind.PARTITION
        self._method = header.name
        self._table = table
        self._whole = Whole(look, header.name.decode(), arguments, EntryKind.PARTITION)

    def wanted(self) -> tuple[bytes | None, list[bytes]]:
        """The result, or its key."""
        return self._whole.wanted()

    def learn(self, reply: bytes) -> None:
        """Keep the reply, and the partitions in it."""
        item = self._whole.item(reply)
        if item is None:
            self._whole.learn(reply)
        else:
            self.look.publish([item, *self._entries(reply)])

    def _entries(self, reply: bytes) -> list[NewEntry]:
        shown = partitions_in(self._method.decode(), reply, wrapped=False) or []
        keys = partition_keys(self.look, self._table) if 0 < len(shown) <= FILLED_AT_ONCE else None
        if keys is None:
            return []
        names: dict[tuple[bytes, ...], bytes] = {}
        alike: list[Shown] = []
        for partition in shown:
            if partition.privileged or (partition.shape != PLAIN and self._method != _SAYS_WHAT_NAMES_SAY):
                continue
            name = _name(keys, partition.values)
            if name is not None:
                names[partition.values] = name
                alike.append(partition)
        return PartitionEntries(self.look, self._table).items(alike, names, counted=True)


def listed(look: RequestView, header: Header, args: Any, arguments: bytes) -> ListConversation | None:
    """The conversation; None if the request names no table that can be read."""
    table = table_of(args.db_name, args.tbl_name)
    return None if table is None else ListConversation(look, header, table, arguments)


def _name(keys: tuple[bytes, ...], values: tuple[bytes, ...]) -> bytes | None:
    """The name of a partition with these values; None if the name would not be read as these values."""
    if len(keys) != len(values) or not all(values):
        return None
    name = make_name([(key, b"") for key in keys], values)
    parts = split_name(name)
    return name if parts is not None and tuple(parts.values()) == values else None
