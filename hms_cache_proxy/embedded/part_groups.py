"""Groups partitions by what their storage descriptors have in common, as Hive 4 does when it sends many partitions.

Job: make PartitionSpecs of partitions (MetaStoreServerUtils.getPartitionspecsGroupedByStorageDescriptor of 4.0), and
choose the parameters that are sent. Must not know: calls, the database. Owner: any thread; no state.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from hms_cache_proxy.embedded.values import as_json, copy, new
from hms_cache_proxy.filters.wildcards import any_text_between, literal
from hms_cache_proxy.wire.spec import Struct


def grouped(table: Struct, partitions: Sequence[Struct]) -> list[Struct]:
    """Partitions in the table's directory, grouped by what their descriptors have in common; the others in a list."""
    root = table.sd.location if table.sd is not None else None
    shared: dict[Any, tuple[Struct, list[Struct]]] = {}
    outside: list[Struct] = []
    buckets = partitions[0].sd.numBuckets if partitions and partitions[0].sd is not None else None
    for partition in partitions:
        sd = partition.sd
        if sd is None:
            key, base, relative = None, None, None
        else:
            alone = bool(sd.skewedInfo is not None and sd.skewedInfo.skewedColNames) or sd.numBuckets != buckets
            inside = not alone and sd.location is not None and root is not None and sd.location.startswith(root)
            base = root if inside else sd.location
            if base is not None and base != root:
                outside.append(partition)
                continue
            key = _alike(sd, base)
            relative = sd.location[len(root) :] if sd.location is not None and root is not None else None
        if key not in shared:
            common = new("StorageDescriptor") if sd is None else copy(sd)
            common.location = base
            shared[key] = common, []
        shared[key][1].append(
            new(
                "PartitionWithoutSD",
                values=partition.values,
                createTime=partition.createTime or 0,
                lastAccessTime=partition.lastAccessTime or 0,
                relativePath=relative,
                parameters=partition.parameters,
            )
        )
    place = {"catName": table.catName, "dbName": table.dbName, "tableName": table.tableName}
    found_ones = [
        new(
            "PartitionSpec",
            **place,
            rootPath=common.location,
            sharedSDPartitionSpec=new("PartitionSpecWithSharedSD", partitions=some, sd=common),
        )
        for common, some in shared.values()
    ]
    if outside:
        listed = new("PartitionListComposingSpec", partitions=outside)
        found_ones.append(new("PartitionSpec", **place, partitionList=listed))
    return found_ones


def _alike(sd: Struct, base: str | None) -> tuple[Any, ...]:
    """What the partitions of a group have in common (StorageDescriptorKey)."""
    library = None if sd.serdeInfo is None else sd.serdeInfo.serializationLib
    columns = None if sd.cols is None else tuple(as_json(column) for column in sd.cols)
    return base, library, sd.inputFormat, sd.outputFormat, columns


def parameters_like(parameters: dict[str, str], include: str | None, exclude: str | None) -> dict[str, str]:
    """The parameters whose keys match one LIKE pattern and not the other."""
    if include:
        parameters = {key: value for key, value in parameters.items() if _like(include, key)}
    if exclude:
        parameters = {key: value for key, value in parameters.items() if not _like(exclude, key)}
    return parameters


def _like(pattern: str, key: str) -> bool:
    segments = [literal(text, "_") for text in pattern.split("%")]
    return re.fullmatch(any_text_between(segments), key, re.DOTALL) is not None
