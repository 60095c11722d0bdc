"""Which partition keys of a set only have values of their type.

Job: a set has one byte for each partition key: INTEGER or DATE if the key has such a type and every value in the set is
one (or the default partition's name), else UNKNOWN. A metastore's database casts the values of such keys, and one value
that cannot be cast breaks a filter on the whole table; if there is no such value, the cache need not look at all
values. A byte can change only to UNKNOWN; a reload determines it again. Must not know LMDB, filters. Owner: any
process; no state.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from typing import Final

from hms_cache_proxy.store.protocol import PartitionRecord

INTEGER: Final = b"i"
DATE: Final = b"d"
UNKNOWN: Final = b"-"

DEFAULT_PARTITION: Final = b"__HIVE_DEFAULT_PARTITION__"
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


def still(typed: bytes, keys: PartitionKeys, records: Iterable[PartitionRecord]) -> bytes:
    """`typed` after these partitions are added to the set."""
    wanted = [(at, CHECKS[letter]) for at in range(len(keys)) if (letter := typed[at : at + 1]) in CHECKS]
    if not wanted:
        return UNKNOWN * len(keys)
    begins = [key.lower() + b"=" for key, _ in keys]
    last: dict[int, bytes] = {}
    for record in records:
        parts = record.name.split(b"/")
        for at, check in wanted:
            part = parts[at] if len(parts) == len(keys) else b""
            if last.get(at) == part:
                continue  # neighbours often share their first values
            begin = begins[at]
            value = part[len(begin) :] if part.startswith(begin) else b""
            if value == DEFAULT_PARTITION:
                if _EMPTY in record.values:  # in names, an empty value is also written as the default partition's name
                    value = b""
            else:
                last[at] = part
            if not check(value):
                return still(typed[:at] + UNKNOWN + typed[at + 1 :], keys, records)
    return typed


_EMPTY: Final = b"\0\0\0\0"  # the length of an empty string in an encoded list of values
