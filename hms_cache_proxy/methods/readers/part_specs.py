"""Readers of partitions by filter as a PartitionSpec, which Flink's Hive catalog requests.

Job: make the result struct of a request from its arguments and a snapshot; base.py says what is declined. Must not
know: sessions, fences.

A metastore returns all partitions as one list with the table's location, unless a parameter of the table asks for
groups by descriptor; such tables are declined. Source: HMSHandler.get_part_specs_by_filter, compared with 3.1.3, 4.0.0
and 4.2.0.
Owner: the worker's loop.
"""

from __future__ import annotations

from functools import partial
from struct import Struct as Packer

from hms_cache_proxy.cache.entries import TableEntry
from hms_cache_proxy.consistency.gate import Reason
from hms_cache_proxy.store import encode
from hms_cache_proxy.wire.spec import Struct

from .base import STOP, Body, Context, DatabaseName, Decline, Unfinished, around_structs, started
from .filters import by_filter

_COUNT = Packer("!i")
_GROUPED = b"hive.hcatalog.partition.spec.grouping.enabled"
_LISTED = b"\x0c\x00\x05\x0f\x00\x01\x0c"  # PartitionSpec.partitionList.partitions, a list of structs
_DATABASE, _TABLE, _ROOT, _CATALOG = 1, 2, 3, 6  # of a PartitionSpec


def get_part_specs_by_filter(context: Context, args: Struct) -> Body | Unfinished:
    """Partitions that a filter selects, in one PartitionSpec. Only the lowest 16 bits of the limit count."""
    context.not_hive2()
    database = context.split(args.db_name)
    if context.table(database, args.tbl_name) is None:  # before the filter is read
        return context.no_table(database, args.tbl_name)
    limit = None if args.max_parts is None else (args.max_parts + 0x8000 & 0xFFFF) - 0x8000
    frame = partial(_around, database, args.tbl_name)
    return started(by_filter(context, database, args.tbl_name, args.filter, limit, frame))


def _around(database: DatabaseName, raw: bytes, entry: TableEntry, count: int) -> tuple[bytes, bytes]:
    """The result without the partitions; names are spelled as in the request."""
    if entry.body is None or _GROUPED in entry.body:
        raise Decline(Reason.ARGUMENTS)
    before, after = around_structs(1, wrapped=False)
    place = (_DATABASE, database.raw), (_TABLE, raw), (_ROOT, entry.location)
    head = b"".join(encode.string_field(number, value) for number, value in place)
    catalog = encode.string_field(_CATALOG, database.raw_catalog)
    return before + head + _LISTED + _COUNT.pack(count), STOP + catalog + STOP + after
