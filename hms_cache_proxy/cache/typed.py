"""Which partition keys of a set have values of their type only.

Job: a set carries one byte for each partition key: INTEGER or DATE where the key is of such a type and every value of
the set is one (or the default partition's name), UNKNOWN else. A metastore casts the values of such keys in its
database, and one value that cannot be cast breaks a filter for the whole table; a filter over a set that has none need
not look at all values. A set only ever loses what it has; reloading it finds it again.
Must not know LMDB, filters. Owner: any process; no state.
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
    """What the values of a key of this type have to be."""
    folded = key_type.lower()
    if folded in INTEGER_TYPES:
        return INTEGER
    return DATE if folded == b"date" else UNKNOWN


def kinds(keys: PartitionKeys) -> bytes:
    """What a set of a table with these keys has while it is empty."""
    return b"".join([kind(key_type) for _, key_type in keys])


def is_integer(value: bytes) -> bool:
    """Can a metastore's database cast this value of an integer key?"""
    return value == DEFAULT_PARTITION or _INTEGER.fullmatch(value) is not None


def is_date(value: bytes) -> bool:
    """The same of a date key, written as ISO 8601 does."""
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
    """What is left of `typed` with these partitions in the set."""
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
                continue  # neighbours share their first values
            begin = begins[at]
            value = part[len(begin) :] if part.startswith(begin) else b""
            if value == DEFAULT_PARTITION:
                if _EMPTY in record.values:  # an empty value has the default partition's name, too
                    value = b""
            else:
                last[at] = part
            if not check(value):
                return still(typed[:at] + UNKNOWN + typed[at + 1 :], keys, records)
    return typed


_EMPTY: Final = b"\0\0\0\0"  # the length of an empty string, in an encoded list of values
