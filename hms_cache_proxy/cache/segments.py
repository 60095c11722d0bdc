"""Stores partitions as small rows, and separately what these share, and joins both to Thrift structs.

A reply with 1,000 partitions of 1.5 kB is built from 1,000 rows of about 150 bytes. What most partitions of a table
share (columns, formats, serde, the location's directory, keys of parameters) is stored once for each set, so a
partition becomes

    prefix  own  body  location  end     pieces of one big join; `end` is joined to the next partition's prefix

    prefix    header of field 7 and the parameters that are alike (SHARED_PARAMETERS), then the key of the first
              other parameter
    own       the rest of field 7, field 1 (values), field 4 and, unless it is zero, field 5 (times); fields 10 and up
              (the write id), unless they are in the body
    body      field 5 if zero, fields 10 and up if they are among the MAX_ALIKE first ones of the set, fields 2, 3 and 9
              (the table's names), then field 6 up to the location's directory: columns, sd fields 3 to 12, header and
              length of sd field 2
    location  usually the partition's name
    end       stop of the sd, stop of the struct

So the fields of a Partition and of its sd are not in the order of their ids, and shared parameters come before the
others. The decoded value is equal, because Thrift identifies fields by id, and the order of a map has no meaning.

    partition row   u24 template, then: the location's own part (length in the template; none if it is the name), `own`
    shared row      u24 index -> b"B" 16-byte hash, zlib(bytes)                          a run of bytes
                    b"T" mode u8, suffix length u32, 6 * u24 (prefix, sd_head, sd_tail, sd_tail_single, sd_tail_filter,
                    directory), after                                                   a template
    modes           0 no location   1 directory + the name   2 directory + own part

Must not know: LMDB, more of Thrift than the headers in this module. Owner: the follower encodes, workers join.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from struct import Struct
from struct import error as StructError
from typing import Any, Final

from hms_cache_proxy.errors import CacheError
from hms_cache_proxy.store.protocol import PartitionRecord

SHARED_PARAMETERS: Final = frozenset(
    (
        b"COLUMN_STATS_ACCURATE",
        b"DO_NOT_UPDATE_STATS",
        b"EXTERNAL",
        b"STATS_GENERATED",
        b"STATS_GENERATED_VIA_STATS_TASK",
    )
)
"""Parameters whose values are mostly equal in all partitions of a table."""

MAX_ALIKE: Final = 64  # the most directories, beginnings of parameters, and write ids, that a set shares
KEPT_TEMPLATES: Final = 4096  # templates that an encoder remembers; a forgotten one is found again by its content

_I32: Final = Struct(">i")
_PARAMETERS_HEADER: Final = b"\x0d\x00\x07\x0b\x0b"
_NO_ACCESS_TIME: Final = b"\x08\x00\x05\x00\x00\x00\x00"
_NONE: Final = b"nothing begins like this"
_LOCATION_HEADER: Final = b"\x0b\x00\x02"
_TEMPLATE: Final = Struct(">BI3s3s3s3s3s3s")
_NO_LOCATION, _NAME, _OWN = range(3)

INDEX_BYTES: Final = 3
BLOB: Final = b"B"
TEMPLATE: Final = b"T"


class Variant(IntEnum):
    """The kind of call: a metastore fills the sd differently for each (store/protocol.py)."""

    LIST = 0
    SINGLE = 1
    FILTER = 2


def pack_index(index: int) -> bytes:
    """A shared row's number, as it is in rows and keys."""
    return index.to_bytes(INDEX_BYTES, "big")


def digest(data: bytes) -> bytes:
    """The hash by which equal runs are recognised and stored once."""
    return hashlib.blake2b(data, digest_size=16).digest()


def blob_row(data: bytes) -> bytes:
    """The shared row of a run of bytes."""
    return BLOB + digest(data) + zlib.compress(data, 6)


def blob_data(row: bytes) -> bytes:
    """The run of bytes in a shared row."""
    if row[:1] != BLOB:
        raise CacheError("a shared row is not the run of bytes that it should be")
    return zlib.decompress(row[17:])


def identity_of(row: bytes) -> bytes:
    """Equal for equal shared rows: the hash of a run, or the whole of a template."""
    return row[:17] if row[:1] == BLOB else row


# Encoding


class SetEncoder:
    """Encodes the partitions of one set. `intern` stores a shared row if it is new, and returns its index.

    Values that are usually equal may all differ (each partition in another directory, all statistics different, another
    write id with each write), and would need a template for each partition or write. So after MAX_ALIKE different
    values, further ones go into the partitions' own bytes.
    """

    __slots__ = ("_directories", "_directory", "_intern", "_prefix", "_prefixes", "_tail", "_tails", "_templates")

    def __init__(self, intern: Callable[[bytes], bytes]) -> None:
        self._intern = intern
        self._templates: dict[tuple[Any, ...], bytes] = {}
        self._directories: set[bytes] = set()
        self._directory = _NONE
        self._prefix = _NONE
        self._prefixes: set[bytes] = set()
        self._tail = _NONE
        self._tails: set[bytes] = set()

    def encode(self, record: PartitionRecord, directory: bytes | None) -> bytes:
        """The partition's row. `directory`: the table's location and a slash."""
        mode, base, suffix = self._split_location(record, directory)
        prefix, run = self._prefix, record.parameters
        if run.startswith(prefix):  # equal to those of the previous partition
            rest = run[len(prefix) :]
        else:
            prefix, rest = split_parameters(run)
            if not _room(self._prefixes, prefix):
                prefix, rest = split_parameters(run, frozenset())
            self._prefix = prefix or _NONE
        times, access = record.times, b""
        if times.endswith(_NO_ACCESS_TIME):
            times, access = times[: -len(_NO_ACCESS_TIME)], _NO_ACCESS_TIME
        tail, own_tail = record.tail, b""
        if tail != self._tail:  # that of the previous partition
            if _room(self._tails, tail):
                self._tail = tail
            else:
                tail, own_tail = b"", tail
        length = len(record.name) if mode == _NAME else len(suffix)
        head, tails = record.sd_head, (record.sd_tail, record.sd_tail_single, record.sd_tail_filter)
        key = (mode, length, prefix, head, tails, base, access, tail)
        template = self._templates.get(key)
        if template is None:
            if len(self._templates) >= KEPT_TEMPLATES:
                self._templates.clear()
            template = self._template(mode, length, (prefix, head), tails, base, access + tail)
            self._templates[key] = template
        own = rest + record.values + times + own_tail
        return template + (suffix + own if mode == _OWN else own)

    def _split_location(self, record: PartitionRecord, directory: bytes | None) -> tuple[int, bytes, bytes]:
        """(mode, shared directory, own part)."""
        location = record.location
        if location == self._directory + record.name:  # as that of the previous partition
            return _NAME, self._directory, b""
        if location is None:
            return _NO_LOCATION, b"", b""
        if location.endswith(b"/" + record.name):
            base = location[: -len(record.name)]
            if base == directory or _room(self._directories, base):
                self._directory = base
                return _NAME, base, b""
        if directory is not None and location.startswith(directory):
            return _OWN, directory, location[len(directory) :]
        return _OWN, b"", location

    def _template(
        self,
        mode: int,
        length: int,
        runs: tuple[bytes, bytes],
        tails: tuple[bytes, bytes | None, bytes | None],
        base: bytes,
        after: bytes,
    ) -> bytes:
        parts = (*runs, *(tails[0] if tail is None else tail for tail in tails), base)
        indexes = (self._intern(blob_row(part)) for part in parts)
        return self._intern(TEMPLATE + _TEMPLATE.pack(mode, length, *indexes) + after)


def _room(known: set[bytes], value: bytes) -> bool:
    """Whether a value is one of the first MAX_ALIKE values."""
    if value not in known:
        if len(known) >= MAX_ALIKE:
            return False
        known.add(value)
    return True


def split_parameters(run: bytes, alike: frozenset[bytes] = SHARED_PARAMETERS) -> tuple[bytes, bytes]:
    """Cuts field 7 into the part that is equal in most partitions of a table, and the rest. Shared entries move to the
    front.

    A run that is not a map of strings is all rest. Raises CacheError if lengths do not add up.
    """
    if not run.startswith(_PARAMETERS_HEADER):
        return b"", run
    try:
        at = _after_shared(run, alike)
        if any(map(run[at:].__contains__, alike)):  # out of order, or a value that contains such a key
            run, at = _shared_first(run, alike)
        if at < len(run):
            at += 4 + _I32.unpack_from(run, at)[0]
    except StructError as error:
        raise CacheError("parameters of a partition end before their lengths say") from error
    if at > len(run):
        raise CacheError("parameters of a partition end before their lengths say")
    return run[:at], run[at:]


def _after_shared(run: bytes, alike: frozenset[bytes]) -> int:
    """Where the shared entries at the front end."""
    at = len(_PARAMETERS_HEADER) + 4
    while at < len(run):
        key_end = at + 4 + _I32.unpack_from(run, at)[0]
        if run[at + 4 : key_end] not in alike:
            break
        at = key_end + 4 + _I32.unpack_from(run, key_end)[0]
    return at


def _shared_first(run: bytes, alike: frozenset[bytes]) -> tuple[bytes, int]:
    """The map with its shared entries at the front, and where they end."""
    at = len(_PARAMETERS_HEADER) + 4
    shared = [run[:at]]
    others: list[bytes] = []
    while at < len(run):
        key_end = at + 4 + _I32.unpack_from(run, at)[0]
        end = key_end + 4 + _I32.unpack_from(run, key_end)[0]
        (shared if run[at + 4 : key_end] in alike else others).append(run[at:end])
        at = end
    if at != len(run):
        raise CacheError("parameters of a partition do not end where their lengths say")
    front = b"".join(shared)
    return front + b"".join(others), len(front)


# Joining


@dataclass(frozen=True, slots=True)
class TableNames:
    """The fields that a partition has from its table. `catalog` is None if the metastore's partitions have no such
    field."""

    database: bytes
    table: bytes
    catalog: bytes | None

    def fields(self) -> bytes:
        """Fields 2, 3 and 9 as they are on the wire."""
        run = b"\x0b\x00\x02" + _string(self.database) + b"\x0b\x00\x03" + _string(self.table)
        return run if self.catalog is None else run + b"\x0b\x00\x09" + _string(self.catalog)


PartitionPieces = tuple[bytes, bytes, int]
"""`END` of the previous partition and the prefix; the body; the length of the location's own part (-1: it is the
name)."""

END: Final = b"\0\0"
"""Stop of the sd, stop of the struct: the last piece of every partition, joined to the first of the next."""


def pieces(
    template_row: bytes, names: TableNames, variant: Variant, shared: Callable[[bytes], bytes]
) -> PartitionPieces:
    """Resolves a template. `shared` returns the row of an index."""
    if template_row[:1] != TEMPLATE:
        raise CacheError("a partition's template is not one")
    fixed, after = template_row[1 : 1 + _TEMPLATE.size], template_row[1 + _TEMPLATE.size :]
    mode, length, prefix, sd_head, *tails, directory = _TEMPLATE.unpack(fixed)
    body = after + names.fields() + blob_data(shared(sd_head)) + blob_data(shared(tails[variant]))[:-1]
    begin = END + blob_data(shared(prefix))
    if mode == _NO_LOCATION:
        return begin, body, 0
    base = blob_data(shared(directory))
    body += _LOCATION_HEADER + _I32.pack(len(base) + length) + base
    return begin, body, -1 if mode == _NAME else length


def _string(data: bytes) -> bytes:
    return _I32.pack(len(data)) + data
