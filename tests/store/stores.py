"""The stores that the contract suite runs through, and how their records are put together for a comparison.

Job: a table of factories; a new RawStore joins the suite by a line in it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from hms_cache_proxy.store.protocol import PartitionRecord, RawStore, TableRecord
from hms_cache_proxy.store.sql.store import open_sql_store
from hms_cache_proxy.store.thrift.store import open_thrift_store
from tests.testbed.metastore import Metastore
from tests.testbed.untyped import decode_struct

LIST, SINGLE, FILTER = "list", "single", "filter"


def _sql(metastore: Metastore) -> RawStore:
    assert metastore.database is not None
    return open_sql_store(metastore.database.reader_url)


def _thrift(metastore: Metastore) -> RawStore:
    return open_thrift_store([metastore.address])


FACTORIES: dict[str, Callable[[Metastore], RawStore]] = {"sql": _sql, "thrift": _thrift}


def whole_partition(table: TableRecord, record: PartitionRecord, variant: str) -> dict[int, tuple[int, Any]]:
    """The Partition struct that a record stands for, decoded."""
    tail = {LIST: record.sd_tail, SINGLE: record.sd_tail_single, FILTER: record.sd_tail_filter}[variant]
    sd = b""
    if record.sd_head:
        location = b"" if record.location is None else _string(2, record.location)
        sd = record.sd_head + location + (record.sd_tail if tail is None else tail)
    names = _string(2, table.database) + _string(3, table.name)
    runs = (record.values, names, record.times, sd, record.parameters, _string(9, table.catalog), record.tail)
    return decode_struct(b"".join(runs) + b"\0")


def _string(number: int, value: bytes) -> bytes:
    return struct.pack(">bhi", 11, number, len(value)) + value
