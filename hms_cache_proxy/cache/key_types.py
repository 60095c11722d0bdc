"""Keeps which partition keys of a set have only values of their type.

Job: maintain one byte for each partition key of a set. It is INTEGER or DATE if the key has such a type and every value
in the set is one (or the default partition's name), else UNKNOWN. A metastore's database casts the values of such keys,
and one value that cannot be cast breaks a filter on the whole table; if there is no such value, the cache need not look
at all values. A byte changes only to UNKNOWN; a reload determines it again. Must not know LMDB, filters. Owner: any
process; no state.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import date
from typing import Final

from hms_cache_proxy.store.part_names import DEFAULT_PARTITION as DEFAULT_PARTITION
from hms_cache_proxy.store.protocol import PartitionRecord

INTEGER: Final = b"i"
DATE: Final = b"d"
UNKNOWN: Final = b"-"

INTEGER_TYPES: Final = frozenset((b"tinyint", b"smallint", b"int", b"bigint"))
_INTEGER = re.compile(rb"-?[0-9]{1,20}")  # the database casts to decimal(21,0)
_DATE = re.compile(rb"[0-9]{4}-[0-9]{2}-[0-9]{2}")

PartitionKeys = Sequence[tuple[bytes, bytes]]


def kind(key_type: bytes) -> bytes:
    """INTEGER, DATE or UNKNOWN for a key of this type."""
    folded = key_type.lower()
    if folded in INTEGER_TYPES:
        return INTEGER
    return DATE if folded == b"date" else UNKNOWN


def kinds(keys: PartitionKeys) -> bytes:
    """The bytes of an empty set of a table with these keys."""
    return b"".join([kind(key_type) for _, key_type in keys])


def is_integer(value: bytes) -> bool:
    """Can a metastore's database cast this value of an integer key?"""
    return value == DEFAULT_PARTITION or _INTEGER.fullmatch(value) is not None


def is_date(value: bytes) -> bool:
    """The same for a date key; only the ISO 8601 form counts."""
    if value == DEFAULT_PARTITION:
        return True
    if _DATE.fullmatch(value) is None:
        return False
    try:
        date.fromisoformat(value.decode("ascii"))
    except ValueError:
        return False
    return True


CHECKS: Final[dict[bytes, Callable[[bytes], bool]]] = {INTEGER: is_integer, DATE: is_date}


def still(typed: bytes, keys: PartitionKeys, records: Sequence[PartitionRecord]) -> bytes:
    """`typed` after these partitions are added to the set. Each different value of a key is looked at once."""
    wanted = [(at, CHECKS[letter]) for at in range(len(keys)) if (letter := typed[at : at + 1]) in CHECKS]
    if not wanted:
        return UNKNOWN * len(keys)
    names = [record.name.split(b"/") for record in records]
    if any([len(name) != len(keys) for name in names]):
        return UNKNOWN * len(keys)
    for at, check in wanted:
        begin = keys[at][0].lower() + b"="
        parts = {name[at] for name in names}
        right = all(part.startswith(begin) and check(part[len(begin) :]) for part in parts)
        if not right or (begin + DEFAULT_PARTITION in parts and _any_empty(records, names, at)):
            typed = typed[:at] + UNKNOWN + typed[at + 1 :]
    return typed


def _any_empty(records: Sequence[PartitionRecord], names: list[list[bytes]], at: int) -> bool:
    """Whether a default partition of this key may have an empty value: names are the same for both."""
    pairs = zip(records, names, strict=True)
    return any(_EMPTY in record.values for record, name in pairs if name[at].endswith(DEFAULT_PARTITION))


_EMPTY: Final = b"\0\0\0\0"  # the length of an empty string in an encoded list of values
