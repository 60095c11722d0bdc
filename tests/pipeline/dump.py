"""All that a cache says, without the numbers that depend on how it was filled: for comparing two caches."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hms_cache_proxy.cache.entries import TableEntry
from hms_cache_proxy.cache.reader import CacheReader
from hms_cache_proxy.cache.segments import Variant
from hms_cache_proxy.cache.sets import SetRow
from hms_cache_proxy.cache.snapshot import CacheSnapshot

TAGS = (b"d", b"n", b"t", b"w", b"k", b"a", b"c")


def dump(reader: CacheReader, *, changed: bool = False) -> dict[Any, Any]:
    """Every row by kind and name; every partition by table and name, as each kind of call shows it, with statistics.

    `changed`: partitions may have been changed since they were loaded: what a set knows of all of its partitions (that
    none has statistics, or an odd value) may have been lost on the way.
    """
    found: dict[Any, Any] = {}
    with reader.snapshot() as cache:
        found["meta"] = (
            *(cache.meta.cursor, cache.meta.fingerprint, cache.meta.held),
            *(cache.meta.databases, cache.meta.tables, cache.meta.partitions),
        )
        for tag in TAGS:
            found |= {(tag, name): value for name, value in cache.rows(tag, b"")}
        for table_id, row in cache.rows(b"s", b""):
            found[b"s", table_id] = replace(SetRow.unpack(row), number=0, loading=0)
            if changed:
                found[b"s", table_id] = replace(found[b"s", table_id], typed=b"", statistics=0, long_names=False)
        for name, _ in cache.rows(b"t", b""):
            catalog, database, table = name.split(b"\0")
            entry = cache.table(catalog, database, table)
            assert isinstance(entry, TableEntry)
            found |= _partitions(cache, name, entry)
    return found


def _partitions(cache: CacheSnapshot, table: bytes, entry: TableEntry) -> dict[Any, Any]:
    if not entry.partition_keys or not entry.partitions_loaded:
        return {}
    names = cache.partition_names(entry)
    found: dict[Any, Any] = {(table, "names"): names}
    for variant in Variant:
        bodies = zip(names, cache.partitions(entry, names, variant), strict=True)
        found |= {(table, variant, name): body for name, body in bodies}
    if entry.statistics_of_partitions:
        found |= {
            (table, "statistics", name): some for name, some in cache.partition_statistics(entry, names, None, None)
        }
    return found


def differences(left: dict[Any, Any], right: dict[Any, Any]) -> list[Any]:
    """The keys whose values are not the same."""
    return [key for key in {**left, **right} if left.get(key) != right.get(key)]
