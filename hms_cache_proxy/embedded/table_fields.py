"""The projections of get_table_objects_by_name_req.

Job: make from a list of fields the part of a table that is sent. If the list names a field with several values, all
fields are sent, as in Hive. Must not know: rows. Source: TableFields and ObjectStore.getTableObjectsByName of 4.0.
Owner: any thread; no state.
"""

from __future__ import annotations

from collections.abc import Sequence

from hms_cache_proxy.embedded.failures import invalid_operation, meta
from hms_cache_proxy.embedded.rows.databases import OWNER_TYPES
from hms_cache_proxy.embedded.values import new
from hms_cache_proxy.wire.spec import Struct

_SIMPLE = frozenset(
    "id tableName dbName owner ownerType createTime lastAccessTime retention viewOriginalText viewExpandedText"
    " rewriteEnabled tableType writeId".split()
)
_OF_DESCRIPTOR = {
    f"sd.{name}": name for name in ("location", "inputFormat", "outputFormat", "compressed", "numBuckets")
}
_OF_SERDE = {
    f"sd.serdeInfo.{name}": name
    for name in ("name", "serializationLib", "description", "serializerClass", "deserializerClass", "serdeType")
}
_SINGLE = _SIMPLE | _OF_DESCRIPTOR.keys() | _OF_SERDE.keys() | {"sd.storedAsSubDirectories"}
_MULTIPLE = frozenset(
    "values sd.cols.name sd.cols.type sd.cols.comment sd.serdeInfo.parameters sd.bucketCols sd.sortCols.col"
    " sd.sortCols.order sd.parameters sd.skewedInfo.skewedColNames sd.skewedInfo.skewedColValues"
    " sd.skewedInfo.skewedColValueLocationMaps partitionKeys.name partitionKeys.type partitionKeys.comment"
    " parameters".split()
)
_VIEWS = ("VIRTUAL_VIEW", "MATERIALIZED_VIEW")


def check(projection: Struct | None) -> Sequence[str]:
    """The requested fields; empty for all. InvalidOperationException or MetaException for invalid ones."""
    if projection is None:
        return ()
    if projection.fieldList is None and (projection.includeParamKeyPattern or projection.excludeParamKeyPattern):
        raise invalid_operation("Include and Exclude Param key are not supported.")
    fields: Sequence[str] = projection.fieldList or ()
    wrong = [name for name in fields if name not in _SINGLE and name not in _MULTIPLE]
    if wrong:
        raise meta(f"Invalid table fields in the projection spec[{', '.join(wrong)}]")
    return () if any(name in _MULTIPLE for name in fields) else fields


def projected(table: Struct, fields: Sequence[str]) -> Struct:
    """A table with these fields; numbers that are left out are 0, as in Java."""
    if not fields:
        return table
    part = new(
        "Table", createTime=0, lastAccessTime=0, retention=0, ownerType=OWNER_TYPES["USER"], rewriteEnabled=False, id=0
    )
    part.writeId = 0
    for name in _SIMPLE.intersection(fields):
        setattr(part, name, getattr(table, name))
    if part.tableType not in _VIEWS:
        was_view = part.viewOriginalText is not None
        part.viewOriginalText = part.viewExpandedText = None
        part.tableType = part.tableType or ("VIRTUAL_VIEW" if was_view else "MANAGED_TABLE")
    if any(name.startswith("sd.") for name in fields) and table.sd is not None:
        part.sd = _descriptor(table.sd, fields)
    return part


def _descriptor(sd: Struct, fields: Sequence[str]) -> Struct:
    part = new("StorageDescriptor", compressed=False, numBuckets=0, skewedInfo=new("SkewedInfo"))
    part.storedAsSubDirectories = bool("sd.storedAsSubDirectories" in fields and sd.storedAsSubDirectories)
    for path, name in _OF_DESCRIPTOR.items():
        if path in fields:
            setattr(part, name, getattr(sd, name))
    if sd.serdeInfo is not None and any(path in fields for path in _OF_SERDE):
        part.serdeInfo = new("SerDeInfo")
        for path, name in _OF_SERDE.items():
            if path in fields:
                setattr(part.serdeInfo, name, getattr(sd.serdeInfo, name))
    return part
