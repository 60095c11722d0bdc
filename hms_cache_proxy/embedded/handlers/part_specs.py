"""Partitions in groups (PartitionSpec), added and read, and parts of partitions (get_partitions_with_specs).

Job: carry out the calls. Must not know: rows. The partitions of a group share a storage descriptor, or are complete.
Source: HMSHandler, MetaStoreServerUtils.getPartitionspecsGroupedByStorageDescriptor and PartitionProjectionEvaluator of
4.0. Owner: the thread of a call.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hms_cache_proxy.embedded import names
from hms_cache_proxy.embedded.call import Call, reads, writes
from hms_cache_proxy.embedded.failures import internal, meta
from hms_cache_proxy.embedded.handlers import partition_changes
from hms_cache_proxy.embedded.handlers import partitions as reading
from hms_cache_proxy.embedded.handlers.tables import found
from hms_cache_proxy.embedded.part_groups import grouped, parameters_like
from hms_cache_proxy.embedded.rows import partitions as rows
from hms_cache_proxy.embedded.rows import tables as table_rows
from hms_cache_proxy.embedded.values import copy, new
from hms_cache_proxy.wire.facts import enum
from hms_cache_proxy.wire.spec import Struct

_GROUPED = "hive.hcatalog.partition.spec.grouping.enabled"
_BY_NAMES, _BY_VALUES, _BY_EXPR = (
    int(enum("PartitionFilterMode")[name]) for name in ("BY_NAMES", "BY_VALUES", "BY_EXPR")
)


def add_partitions_pspec(call: Call, args: Struct) -> int:
    """Add the partitions of some groups, all or none; returns their number."""
    specs = args.new_parts
    if specs is None:
        raise internal("there are no groups")
    if not specs:
        return 0
    first = specs[0]
    catalog = first.catName or names.DEFAULT_CATALOG
    if first.dbName is None or first.tableName is None:
        raise meta("The database and table name cannot be null.")
    partitions = [partition for spec in specs for partition in _partitions(spec, catalog)]
    if any(partition.dbName is None or partition.tableName is None for partition in partitions):
        raise meta("The database and table name must be set in the partition.")
    if not partitions:
        return 0
    place = (catalog, names.fold(first.dbName), names.fold(first.tableName))
    return len(partition_changes.add(call, partitions, {}, place=place))


def _partitions(spec: Struct, catalog: str) -> Iterable[Struct]:
    """The partitions of a group (PartitionSpecProxy)."""
    if spec.partitionList is not None:
        if spec.partitionList.partitions is None:
            raise meta("The partition list cannot be null.")
        for partition in spec.partitionList.partitions:
            if not partition.values:
                raise meta("The partition value list cannot be null or empty.")
            partition.catName = partition.catName or catalog
            yield partition
        return
    shared = spec.sharedSDPartitionSpec
    if shared is None:
        raise meta("java.lang.NullPointerException: a group of partitions is empty")
    if shared.sd is None:
        raise meta("The shared storage descriptor must be set.")
    if shared.partitions is None:
        raise meta("java.lang.NullPointerException: a group of partitions is empty")
    for each in shared.partitions:
        sd = copy(shared.sd)
        sd.location = f"{_java(sd.location)}{_java(each.relativePath)}"
        yield new(
            "Partition",
            values=each.values,
            dbName=spec.dbName,
            tableName=spec.tableName,
            createTime=each.createTime,
            lastAccessTime=each.lastAccessTime,
            sd=sd,
            parameters=each.parameters,
            catName=spec.catName or catalog,
        )


def _java(text: str | None) -> str:
    return "null" if text is None else text


def get_partitions_pspec(call: Call, args: Struct) -> list[Struct]:
    """A table's partitions as one group, or grouped if the table's parameters ask for it."""
    if args.tbl_name is None:
        raise internal("the table has no name")
    shown = args.tbl_name.lower()
    row = reading.found(call, args.db_name, shown)
    partitions = [part.partition for part in reading.all_of(call, row, _short(args.max_parts))]
    return _groups(row.table, partitions, catName=row.table.catName, dbName=row.table.dbName, tableName=shown)


def get_part_specs_by_filter(call: Call, args: Struct) -> list[Struct]:
    """The same for the partitions that a filter selects."""
    row = reading.found(call, args.db_name, args.tbl_name)
    chosen = reading.selected(call, row, args.filter, _short(args.max_parts))
    catalog, database = names.as_written(args.db_name)
    return _groups(row.table, chosen, catName=catalog, dbName=database, tableName=args.tbl_name)


def _short(number: int) -> int:
    """The lowest 16 bits of a limit, as Java's cast leaves them."""
    return (number + 0x8000 & 0xFFFF) - 0x8000


def _found(call: Call, database: str, table: str, catalog: str | None = None) -> table_rows.StoredTable:
    found_catalog, found_database = names.both(database, catalog)
    return found(call, found_catalog, found_database, table)


def _groups(table: Struct, partitions: list[Struct], **place: str) -> list[Struct]:
    if (table.parameters or {}).get(_GROUPED, "").lower() == "true":
        return grouped(table, partitions)
    composed = new("PartitionListComposingSpec", partitions=partitions)
    return [new("PartitionSpec", **place, rootPath=table.sd.location, partitionList=composed)]


def get_partitions_with_specs(call: Call, args: Struct) -> Struct:
    """Some fields of some partitions, in groups."""
    request = args.request
    row = _found(call, request.dbName, request.tblName, request.catName)
    projection, chosen = request.projectionSpec, request.filterSpec
    fields = [] if projection is None else projection.fieldList or []
    if not fields:  # as in Hive, which then ignores the filter
        partitions = [part.partition for part in rows.find(call, row)]
    else:
        partitions = [part.partition for part in _chosen(call, row, chosen)]
    if projection is not None:
        for partition in partitions:
            kept = parameters_like(
                partition.parameters, projection.includeParamKeyPattern, projection.excludeParamKeyPattern
            )
            partition.parameters = kept or None if fields else kept
    for path in fields:
        if not _known(path):
            raise meta(f"Invalid partition fields in the projection spec[{path}]")
    if fields:
        partitions = [_projected(partition, fields) for partition in partitions]
        for partition in partitions:
            if partition.sd is None:
                partition.sd = new("StorageDescriptor")
            partition.createTime = partition.createTime or 0
            partition.lastAccessTime = partition.lastAccessTime or 0
            partition.sd.compressed = bool(partition.sd.compressed)
            partition.sd.numBuckets = partition.sd.numBuckets or 0
    return new("GetPartitionsResponse", partitionSpec=grouped(row.table, partitions))


def _chosen(call: Call, row: table_rows.StoredTable, chosen: Struct | None) -> list[rows.Part]:
    if chosen is None or chosen.filterMode is None:
        return rows.find(call, row)
    if not chosen.filters:
        raise meta("Portion of expression could not be parsed: )")  # the result of Hive's database query
    if chosen.filterMode == _BY_NAMES:
        return rows.find(call, row, names=chosen.filters)
    if chosen.filterMode == _BY_VALUES:
        return rows.find(call, row, names=reading.names_like(call, row, chosen.filters, None))
    if chosen.filterMode == _BY_EXPR:
        text = " AND ".join(f"({each})" for each in chosen.filters)
        return rows.find(call, row, names=reading.chosen_names(call, row, text))
    raise meta(f"Unsupported filter mode {chosen.filterMode}")


def _known(path: str) -> bool:
    """Is it a field of a partition, such as `sd.serdeInfo.name`?"""
    kind: str | None = "Partition"
    for name in path.split("."):
        if kind is None or name not in new(kind)._names:
            return False
        kind = _NESTED.get((kind, name))
    return True


_NESTED = {
    ("Partition", "sd"): "StorageDescriptor",
    ("StorageDescriptor", "serdeInfo"): "SerDeInfo",
    ("StorageDescriptor", "skewedInfo"): "SkewedInfo",
}


def _projected(value: Struct, paths: Sequence[str], at: str = "") -> Struct:
    """A copy with only the fields that these paths name."""
    taken = {}
    for name in value._names:
        path, field = at + name, getattr(value, name)
        if path in paths:
            taken[name] = field
        elif isinstance(field, Struct) and any(each.startswith(f"{path}.") for each in paths):
            taken[name] = _projected(field, paths, f"{path}.")
    return type(value)(**taken)


METHODS = {
    **reads(
        get_partitions_pspec=get_partitions_pspec,
        get_part_specs_by_filter=get_part_specs_by_filter,
        get_partitions_with_specs=get_partitions_with_specs,
    ),
    **writes(add_partitions_pspec=add_partitions_pspec),
}
