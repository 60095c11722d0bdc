"""Makes one PartitionSpec of partitions that share a storage descriptor.

Job: make the struct for the partitions with given names. A metastore groups partitions by what their descriptors have
in common, and returns the groups in the order of a Java hash map. So only a single group is answered here: partitions
that are all in the table's directory, with descriptors that differ only in the location. Must not know: requests.
Source: MetaStoreServerUtils. getPartitionspecsGroupedByStorageDescriptor of Hive 4. Owner: the worker's loop.
"""

from __future__ import annotations

from collections.abc import Generator
from struct import Struct as Packer
from typing import Final

from hms_cache_proxy.cache.entries import TableEntry
from hms_cache_proxy.cache.segments import Variant
from hms_cache_proxy.consistency.gate import Reason
from hms_cache_proxy.store import encode
from hms_cache_proxy.wire import spec
from hms_cache_proxy.wire.spans import fields_of

from .base import STOP, Context, Decline

AT_ONCE: Final = 50
"""Partitions of one turn of the loop (about 1 ms)."""
MOST: Final = 10_000
"""Partitions of one answer."""
_COUNT: Final = Packer("!i")
_VALUES, _CREATED, _ACCESSED, _DESCRIPTOR, _PARAMETERS = 1, 4, 5, 6, 7  # of a Partition
_LOCATION = 2  # of a StorageDescriptor
_LOCATION_HEADER: Final = encode.header(encode.STRING, _LOCATION)
_SHARED: Final = encode.header(encode.STRUCT, 4) + encode.header(encode.LIST, 1)  # sharedSDPartitionSpec.partitions
_SHARED_DESCRIPTOR: Final = encode.header(encode.STRUCT, 2)
_DATABASE, _TABLE, _ROOT, _CATALOG = 1, 2, 3, 6  # of a PartitionSpec


def shared_specs(
    context: Context, entry: TableEntry, names: list[bytes], variant: Variant
) -> Generator[None, None, bytes]:
    """The one element of the list of PartitionSpecs; empty if there are no partitions."""
    if not names:
        return b""
    root = entry.location
    if len(names) > MOST or not root:
        raise Decline(Reason.ARGUMENTS)
    head: bytes | None = None
    pieces: list[bytes] = []
    for at in range(0, len(names), AT_ONCE):
        for struct in context.snapshot.partitions(entry, names[at : at + AT_ONCE], variant):
            assert struct is not None, "a name of this very snapshot"
            parts = {field: struct[start:end] for field, _, start, end in fields_of(struct)}
            descriptor = parts.get(_DESCRIPTOR, b"")
            head = _head(descriptor) if head is None else head
            pieces.append(_without_descriptor(parts, _relative(descriptor, head, root)))
        yield
    assert head is not None
    place = (_DATABASE, entry.database), (_TABLE, entry.name), (_ROOT, root)
    before = b"".join(encode.string_field(field, value) for field, value in place)
    shared = _SHARED_DESCRIPTOR + head + encode.string_field(_LOCATION, root) + STOP
    after = shared + STOP + encode.string_field(_CATALOG, entry.catalog) + STOP
    return b"".join((before, _SHARED, encode.structs(pieces), after))


def _head(descriptor: bytes) -> bytes:
    """The part of a descriptor before its location, which the cache writes last."""
    spans = fields_of(descriptor) if descriptor else []
    if not spans or spans[-1][0] != _LOCATION:
        raise Decline(Reason.ARGUMENTS)
    decoded = spec.decode(spec.struct("StorageDescriptor"), descriptor)[0]
    if decoded.skewedInfo is not None and decoded.skewedInfo.skewedColNames:
        raise Decline(Reason.ARGUMENTS)
    return descriptor[: spans[-1][2] - len(_LOCATION_HEADER)]


def _relative(descriptor: bytes, head: bytes, root: bytes) -> bytes:
    """The location of a partition of the group, relative to the table's."""
    begin = head + _LOCATION_HEADER
    start = len(begin) + _COUNT.size
    location = descriptor[start : -len(STOP)]
    if not descriptor.startswith(begin + _COUNT.pack(len(location))) or not location.startswith(root):
        raise Decline(Reason.ARGUMENTS)
    return location[len(root) :]


def _without_descriptor(parts: dict[int, bytes], relative: bytes) -> bytes:
    """A PartitionWithoutSD."""
    if not {_VALUES, _CREATED, _ACCESSED, _PARAMETERS} <= parts.keys():
        raise Decline(Reason.ARGUMENTS)
    return b"".join(
        (
            encode.header(encode.LIST, 1),
            parts[_VALUES],
            encode.header(encode.I32, 2),
            parts[_CREATED],
            encode.header(encode.I32, 3),
            parts[_ACCESSED],
            encode.string_field(4, relative),
            encode.header(encode.MAP, 5),
            parts[_PARAMETERS],
            STOP,
        )
    )
