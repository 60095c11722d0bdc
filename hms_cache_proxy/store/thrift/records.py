"""Cuts records out of a metastore's replies. The bytes are the metastore's own; nothing is encoded again.

Job: turn a `Database`, `Table` or `Partition` in a reply into a record. Must not know: connections, snapshots.

A PartitionRecord has the fields of a Partition in runs, so the order of fields does not matter, nor do unknown fields:
1 is `values`, 4 and 5 `times`, 7 `parameters`, 6 the descriptor. Fields 2, 3 and 9 are left out; they must be the names
of its table. All others go into `tail`. A Partition with other names, or with a field twice, cannot be stored without
loss: Unfit.

Owner: the follower; no state.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

from hms_cache_proxy.errors import Unfit, WireError
from hms_cache_proxy.store.part_names import partition_name
from hms_cache_proxy.store.protocol import SKEWED, DatabaseRecord, HiveLine, PartitionRecord, TableRecord
from hms_cache_proxy.wire import facts, spec
from hms_cache_proxy.wire.spans import FieldSpan, fields_of, list_spans

_DATABASE: Final = spec.struct("Database")
_TABLE: Final = spec.struct("Table")
_PARTITION: Final = spec.struct("Partition")
_DESCRIPTOR: Final = spec.struct("StorageDescriptor")
_REMOTE: Final = facts.enum("DatabaseType")["REMOTE"]
_ID_BITS: Final = 63
_HEADER: Final = 3  # bytes of a field's header
_LENGTH: Final = 4  # bytes of a string's length


def database_record(catalog: bytes, reply: bytes, start: int) -> DatabaseRecord:
    """The Database at `start`."""
    row, end = spec.decode(_DATABASE, reply, start)
    return DatabaseRecord(catalog, row.name, reply[start:end], row.type == _REMOTE, row.locationUri)


def table_record(catalog: bytes, reply: bytes, start: int) -> TableRecord:
    """The Table at `start`. If tables have no id (Hive 2.3), one is made from name and creation time."""
    row, end = spec.decode(_TABLE, reply, start)
    parameters: dict[bytes, bytes] = row.parameters or {}
    transactional = parameters.get(b"transactional", b"").lower() == b"true"
    insert_only = parameters.get(b"transactional_properties", b"").lower() == b"insert_only"
    keys = tuple((key.name, key.type) for key in row.partitionKeys or ())
    return TableRecord(
        catalog,
        row.dbName,
        row.tableName,
        row.id or _made_id(catalog, row),
        row.tableType or b"",
        reply[start:end],
        transactional,
        row.tableType == b"MATERIALIZED_VIEW",
        keys,
        None if row.sd is None else row.sd.location,
        transactional and not insert_only,
    )


def _made_id(catalog: bytes, row: Any) -> int:
    """An id that differs from that of an earlier table with the same name, unless both were created in the same second.
    In that case the log shows the change."""
    named = b"%b\0%b\0%b\0%d" % (catalog, row.dbName, row.tableName, row.createTime or 0)
    return int.from_bytes(hashlib.blake2b(named, digest_size=8).digest(), "big") >> (64 - _ID_BITS) or 1


def partition_record(
    table: TableRecord, reply: bytes, start: int, shared: dict[bytes, bytes], *, line: HiveLine
) -> PartitionRecord:
    """The Partition at `start`. `shared` makes equal runs one object. Raises Unfit."""
    spans = fields_of(reply, start, _PARTITION)
    runs = {number: reply[at - _HEADER : end] for number, _, at, end in spans}
    places = {number: (at, end) for number, _, at, end in spans}
    _named_as(table, reply, places, with_catalog=line != "2.3")
    if len(runs) != len(spans):
        raise Unfit("a partition with a field twice")
    head, location, tail = _descriptor(reply, spans)
    if line == "3.1" and tail and tail not in shared and _is_skewed(tail):
        raise Unfit(SKEWED, partition=_name(table, reply, places))
    return PartitionRecord(
        _name(table, reply, places),
        runs.get(1, b""),
        runs.get(4, b"") + runs.get(5, b""),
        location,
        runs.get(7, b""),
        b"".join(run for number, run in runs.items() if number not in _HELD),
        shared.setdefault(head, head),
        shared.setdefault(tail, tail),
    )


_HELD: Final = frozenset((1, 2, 3, 4, 5, 6, 7, 9))


def _is_skewed(descriptor: bytes) -> bool:
    """Are there skewedColValues (field 2) in its skewedInfo (field 11)?"""
    start = 0
    for number in (11, 2):
        place = next((at for field, _, at, _ in fields_of(descriptor, start) if field == number), None)
        if place is None:
            return False
        start = place
    return bool(list_spans(descriptor, start))


def _named_as(table: TableRecord, reply: bytes, places: dict[int, tuple[int, int]], *, with_catalog: bool) -> None:
    expected = {2: table.database, 3: table.name, 9: table.catalog if with_catalog else None}
    for number, name in expected.items():
        place = places.get(number)
        if (None if place is None else reply[place[0] + _LENGTH : place[1]]) != name:
            raise Unfit(f"a partition whose field {number} is not its table's {name!r}")


def _name(table: TableRecord, reply: bytes, places: dict[int, tuple[int, int]]) -> bytes:
    keys = [key for key, _ in table.partition_keys]
    spans = list_spans(reply, places[1][0]) if 1 in places else []
    try:
        return partition_name(keys, [reply[at + _LENGTH : end] for at, end in spans])
    except WireError as error:
        raise Unfit(f"a partition whose values do not fit its table's keys: {error}") from error


def _descriptor(reply: bytes, spans: list[FieldSpan]) -> tuple[bytes, bytes | None, bytes]:
    """(header of field 6 and columns, location, rest with its stop byte); empty if field 6 is unset."""
    place = next((at for number, _, at, _ in spans if number == 6), None)
    if place is None:
        return b"", None, b""
    head, location, tail = reply[place - _HEADER : place], None, b""
    fields = fields_of(reply, place, _DESCRIPTOR)
    if len({number for number, *_ in fields}) != len(fields):
        raise Unfit("a storage descriptor with a field twice")
    for number, _, at, end in fields:
        if number == 1:
            head += reply[at - _HEADER : end]
        elif number == 2:
            location = reply[at + _LENGTH : end]
        else:
            tail += reply[at - _HEADER : end]
    return head, location, tail + b"\0"
