"""Byte layout of the cache: keys, fixed records, and names that are longer than an LMDB key.

All numbers are big-endian. `gen` is the u32 generation: rows of another generation are invisible and are deleted later.
A *set* (u32) is one complete collection of a table's partitions. A reload fills a new set, then the table's `s` row
points to it. Set numbers are never reused, so a new set sorts after all others and is written in append mode.

    meta        b"meta"                    Meta (below)
                b"identity"                JSON: format, store identity, scope
                b"boot"                    boot id of the last writer
                b"transactions"            the open transactions, for the next follower
    objects     gen b"d" cat \\0 db         u8 flags (1 remote), then the Database struct
                gen b"n" cat \\0 db \\0 tbl  a name in a listing: NAME_ROW, type, reason or summary
                gen b"t" cat \\0 db \\0 tbl  a loaded table: TABLE_ROW, type, location, partition keys, the Table struct
                gen b"s" u64 table id      SET_ROW, reason, owner: which set has a table's partitions
                gen b"x" u64 table id      no value: its set is not complete, or another one is being filled
                gen b"w" u64 table id      WriteIdsRow of a transactional table
                gen b"o" u64 table id      no value: it has an open or aborted write
                gen b"k" u64 table id      the table's constraints, if it has any: cache/attachments.py
                gen b"f" u64 id, u64 id    no value: the second table has a foreign key that refers to the first
                gen b"a" u64 table id      the table's column statistics, if it has any: cache/statistics.py
                gen b"u" cat \\0 db         u32: how many names of its listing are not loaded, if any are
                gen b"c" target            a list that is complete, no value; or what is known by its mark: the mark
    partitions  set name                   cache/segments.py
    statistics  set name                   column statistics of a partition that has any: cache/statistics.py
    shared      set u24 index              what partitions of a set share: cache/segments.py
    versions    target                     u64 sequence number of the last commit that touched it
    garbage     set                        a set that nothing points to, to be deleted in slices
                b"versions"                rows of `versions` at or below the floor are to be deleted; value: where
                                           to continue

**Long names.** A key has at most 511 bytes, but a name can be longer (a partition's up to 767). The key is the name cut
to what fits, so the order of keys is the order of names: a <= b bytewise implies cut(a) <= cut(b). A key of exactly 511
bytes is a *bucket*: its value is the sorted list of all names with that prefix, `(u32 length, rest of the name, u32
length, value)*`. There are no hashes, so there are no collisions, and listings are in exact order.

Must not know: what a reply looks like. Owner: the follower writes, every process reads.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, replace
from struct import Struct
from typing import Any, Final, NamedTuple

from hms_cache_proxy.errors import CacheError

FORMAT: Final = 9
KEY_BYTES: Final = 511

GENERATION: Final = Struct(">I")
SET: Final = Struct(">I")
SEQ: Final = Struct(">Q")
TABLE_ID: Final = Struct(">Q")
NOT_LOADED: Final = Struct(">I")
_LENGTH: Final = Struct(">I")

META_KEY: Final = b"meta"
IDENTITY_KEY: Final = b"identity"
BOOT_KEY: Final = b"boot"
TRANSACTIONS_KEY: Final = b"transactions"
SWEEP_VERSIONS: Final = b"versions"

NAME_ROW: Final = Struct(">QBI")
"""Table id, flags, length of the type; then the type, then the reason why it is not loaded, or its summary."""
TABLE_ROW: Final = Struct(">QBIII")  # table id, flags, lengths of type, location and partition keys
SET_ROW: Final = Struct(">IIIBBHH")
"""Set, set being loaded, partitions, state, flags, lengths of reason and of `typed`; then both, then the owner."""

REMOTE: Final = 1
LOADED: Final = 1  # NAME_ROW: there is a `t` row
SUMMARISED: Final = 2  # NAME_ROW: there is a summary (TableRecord.summary)
TRANSACTIONAL: Final = 1
MATERIALIZED_VIEW: Final = 2
HAS_LOCATION: Final = 4
CONSTRAINTS_KNOWN: Final = 8  # TABLE_ROW: if there is no `k` row, it has none
STATISTICS_KNOWN: Final = 16  # TABLE_ROW: if there is no `a` row, it has none

PARTITIONS_LOADED: Final = 1  # SET_ROW state: the set is complete
LONG_NAMES: Final = 1  # SET_ROW flag: some key of the set is a bucket
HAS_STATISTICS: Final = 2  # SET_ROW flag: some partition may have statistics
STATISTICS_UNKNOWN: Final = 4  # SET_ROW flag: those of some partition are not known


@dataclass(frozen=True, slots=True)
class Meta:
    """The record of a commit, written in the same transaction as its objects.

    `floor_version`: lower versions count as this one. A Reset or a touch of ALL raises it, and so touches every target.
    """

    generation: int = 1
    seq: int = 0
    cursor: int = 0
    done_ticket: int = 0
    floor_version: int = 0
    next_set: int = 1
    databases: int = 0
    tables: int = 0
    partitions: int = 0
    write_ids: int = 0  # transactional tables whose write ids are known
    being_written: int = 0  # those of them that an open transaction has changed
    fingerprint: bytes | None = None  # of the cursor's own event row
    held: frozenset[bytes] = frozenset()  # targets whose objects must not be used in this commit

    def pack(self) -> bytes:
        """The row `meta`."""
        return _META.pack(
            FORMAT,
            self.generation,
            self.seq,
            self.cursor,
            self.done_ticket,
            self.floor_version,
            self.next_set,
            self.databases,
            self.tables,
            self.partitions,
            self.write_ids,
            self.being_written,
        ) + _strings_pack((b"" if self.fingerprint is None else b"\1" + self.fingerprint, *sorted(self.held)))

    @classmethod
    def unpack(cls, row: bytes | None) -> Meta:
        """Read the row `meta`. Raises CacheError for another format."""
        if row is None or len(row) <= _META.size:
            raise CacheError("its meta record is missing")
        version, *numbers = _META.unpack_from(row)
        if version != FORMAT:
            raise CacheError(f"its format is version {version}, this program's is {FORMAT}")
        fingerprint, *held = _strings(row[_META.size :])
        return replace(cls(*numbers), fingerprint=fingerprint[1:] if fingerprint else None, held=frozenset(held))


_META: Final = Struct(">HIQqQQIIIQII")


class WriteIdsRow(NamedTuple):
    """The writes to a transactional table. `text`: its ValidWriteIdList in Hive's form. `writers`: open write ids under
    which the table was already changed. `owner`: the table's name, as in its key."""

    owner: bytes
    text: bytes
    writers: tuple[int, ...] = ()


def write_ids_pack(row: WriteIdsRow) -> bytes:
    """Three lines. No part can contain a line end."""
    return b"%b\n%b\n%b" % (row.owner, ",".join(map(str, row.writers)).encode(), row.text)


def write_ids_unpack(packed: bytes) -> WriteIdsRow:
    """The inverse of `write_ids_pack`."""
    owner, writers, text = packed.split(b"\n")
    return WriteIdsRow(owner, text, tuple(map(int, writers.split(b","))) if writers else ())


def objects_prefix(generation: int, tag: bytes) -> bytes:
    """The beginning of the keys of one kind of row."""
    return GENERATION.pack(generation) + tag


def version_key(target: bytes) -> bytes:
    """The key of a target in `versions`, and of other rows that need no order; hashed if it is too long."""
    if len(target) < KEY_BYTES:
        return target
    return target[:400] + b"\0\0" + hashlib.blake2b(target, digest_size=32).digest()


def partition_keys_pack(keys: tuple[tuple[bytes, bytes], ...]) -> bytes:
    """(name, type) pairs as length-prefixed strings."""
    return _strings_pack(part for key in keys for part in key)


def partition_keys_unpack(row: bytes) -> tuple[tuple[bytes, bytes], ...]:
    """The inverse of `partition_keys_pack`."""
    parts = _strings(row)
    return tuple(zip(parts[::2], parts[1::2], strict=True))


def _strings_pack(parts: Iterable[bytes]) -> bytes:
    return b"".join(_LENGTH.pack(len(part)) + part for part in parts)


def _strings(row: bytes) -> list[bytes]:
    parts, at = [], 0
    while at < len(row):
        end = at + 4 + _LENGTH.unpack_from(row, at)[0]
        parts.append(row[at + 4 : end])
        at = end
    return parts


# Ordered maps from names of any length to values, under a prefix


def bucket_items(bucket: bytes) -> list[tuple[bytes, bytes]]:
    """(rest of the name, value) of a bucket, in order."""
    parts = _strings(bucket)
    return list(zip(parts[::2], parts[1::2], strict=True))


def _bucket_pack(items: list[tuple[bytes, bytes]]) -> bytes:
    return _strings_pack(part for item in items for part in item)


def is_long(prefix: bytes, name: bytes) -> bool:
    """Whether the key of this name is a bucket."""
    return len(prefix) + len(name) >= KEY_BYTES


def find(txn: Any, db: Any, prefix: bytes, name: bytes) -> bytes | None:
    """The value of a name; None if it has none."""
    key = prefix + name
    if len(key) < KEY_BYTES:
        found: bytes | None = txn.get(key, db=db)
        return found
    bucket = txn.get(key[:KEY_BYTES], db=db)
    return None if bucket is None else dict(bucket_items(bucket)).get(key[KEY_BYTES:])


def store(txn: Any, db: Any, prefix: bytes, name: bytes, value: bytes, *, append: bool = False) -> bool:
    """Sets the value of a name; True if it had none. `append`: first tries to write it after the last key."""
    key = prefix + name
    if len(key) < KEY_BYTES:
        if append and txn.put(key, value, append=True, db=db):
            return True
        if txn.put(key, value, overwrite=False, db=db):
            return True
        txn.put(key, value, db=db)
        return False
    items = bucket_items(txn.get(key[:KEY_BYTES], b"", db=db))
    rest = key[KEY_BYTES:]
    at = bisect_left(items, rest, key=lambda item: item[0])
    known = at < len(items) and items[at][0] == rest
    items[at : at + known] = [(rest, value)]
    txn.put(key[:KEY_BYTES], _bucket_pack(items), db=db)
    return not known


def remove(txn: Any, db: Any, prefix: bytes, name: bytes) -> bool:
    """Deletes a name; True if it was there."""
    key = prefix + name
    if len(key) < KEY_BYTES:
        return bool(txn.delete(key, db=db))
    items = bucket_items(txn.get(key[:KEY_BYTES], b"", db=db))
    left = [item for item in items if item[0] != key[KEY_BYTES:]]
    if len(left) == len(items):
        return False
    if left:
        txn.put(key[:KEY_BYTES], _bucket_pack(left), db=db)
    else:
        txn.delete(key[:KEY_BYTES], db=db)
    return True


def names_under(txn: Any, db: Any, prefix: bytes, begin: bytes, limit: int | None = None) -> list[tuple[bytes, bytes]]:
    """(name, value) of every name under `prefix` that begins with `begin`, in bytewise order; the first `limit`."""
    wanted = (prefix + begin)[:KEY_BYTES]
    rows: list[tuple[bytes, bytes]] = []
    cut = len(prefix)
    with txn.cursor(db) as cursor:
        if not cursor.set_range(wanted):
            return rows
        for key, value in cursor.iternext():
            if not key.startswith(wanted) or (limit is not None and len(rows) >= limit):
                break
            if len(key) < KEY_BYTES:
                rows.append((key[cut:], value))
            else:
                inside = ((key[cut:] + rest, inner) for rest, inner in bucket_items(value))
                rows.extend(row for row in inside if row[0].startswith(begin))
    return rows[:limit]
