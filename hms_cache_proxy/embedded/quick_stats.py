"""Basic statistics that the metastore itself writes into parameters: files and bytes of a directory.

Job: do as MetaStoreServerUtils.updateTableStatsSlow and updatePartitionStatsFast of Hive 4.2. Must not know: the
database.
Owner: the thread of a call.
"""

from __future__ import annotations

from hms_cache_proxy.embedded.failures import meta
from hms_cache_proxy.embedded.stats_accurate import ACCURATE as ACCURATE
from hms_cache_proxy.embedded.stats_accurate import set_basic
from hms_cache_proxy.embedded.warehouse import Warehouse
from hms_cache_proxy.wire.spec import Struct

FAST = ("numFiles", "totalSize", "numFilesErasureCoded")
SUPPORTED = (*FAST, "numRows", "rawDataSize")
DO_NOT_UPDATE = "DO_NOT_UPDATE_STATS"
BASIC_ONLY = '{"BASIC_STATS":"true"}'
"""COLUMN_STATS_ACCURATE where the basic statistics are accurate, and those of no column are known to be."""
DDL_TIME = "transient_lastDdlTime"


def context(environment: Struct | None) -> dict[str, str]:
    """The properties of an EnvironmentContext."""
    return {} if environment is None else environment.properties or {}


def fill(
    thing: Struct,
    warehouse: Warehouse,
    *,
    made: bool,
    forced: bool,
    properties: dict[str, str],
) -> None:
    """Write the totals of a table's directory into its parameters; `made`: the directory is new, and empty.

    `forced`: even if the parameters have numbers already.
    """
    parameters = thing.parameters if thing.parameters is not None else {}
    thing.parameters = parameters
    unwanted = declined(thing)
    parameters.pop(DO_NOT_UPDATE, None)
    looks = looks_at_files(properties)
    if unwanted or made or thing.sd is None or looks and thing.sd.location is None:
        return
    if not forced and _has_all(parameters):
        return
    if looks:
        _count(thing, warehouse)
    _say(parameters, properties)


def looks_at_files(properties: dict[str, str]) -> bool:
    """May files be counted, or does a property forbid it? Even then the numbers are no longer marked as accurate."""
    return properties.get("DO_NOT_POPULATE_QUICK_STATS") != "true"


def fill_partition(
    partition: Struct, table: Struct, warehouse: Warehouse, *, made: bool, properties: dict[str, str]
) -> None:
    """The same for a new partition, unless its table declines statistics."""
    if declined(table) or _has_all(partition.parameters):
        return
    parameters = partition.parameters if partition.parameters is not None else {}
    partition.parameters = parameters
    if partition.sd is None or partition.sd.location is None:
        raise meta("java.lang.IllegalArgumentException: Can not create a Path from a null string")
    if not made:
        _count(partition, warehouse)
        _say(parameters, properties)


def fill_changed(
    before: Struct,
    after: Struct,
    table: Struct,
    warehouse: Warehouse,
    properties: dict[str, str],
    *,
    moved: bool = False,
) -> None:
    """The same for a partition that is altered, or renamed (`moved`), unless all its numbers are given and unchanged.
    Partitions of transactional tables are not counted."""
    if properties.get(DO_NOT_UPDATE) == "true" or table.tableType == "VIRTUAL_VIEW":
        return
    parameters = after.parameters if after.parameters is not None else {}
    after.parameters = parameters
    same = _same(before.parameters or {}, parameters)
    if same and properties.get("STATS_GENERATED") not in ("TASK", "USER"):
        return
    if same and not moved:
        _say(parameters, properties)
    elif (table.parameters or {}).get("transactional", "").lower() != "true":
        _count(after, warehouse)
        _say(parameters, properties)


def _has_all(parameters: dict[str, str] | None) -> bool:
    return all(name in (parameters or {}) for name in FAST)


def _same(before: dict[str, str], after: dict[str, str]) -> bool:
    """Are the numbers present and unchanged? (isFastStatsSame, which fails for text that is not a number.)"""
    if not _has_all(before) or not _has_all(after):
        return False
    try:
        return all(int(before[name]) == int(after[name]) for name in FAST)
    except ValueError as error:
        raise meta(f"java.lang.NumberFormatException: {error}") from error


def _count(thing: Struct, warehouse: Warehouse) -> None:
    if not thing.sd.location:
        what = "a null" if thing.sd.location is None else "an empty"
        raise meta(f"java.lang.IllegalArgumentException: Can not create a Path from {what} string")
    files, size = warehouse.totals(thing.sd.location)
    thing.parameters |= {"numFiles": str(files), "totalSize": str(size), "numFilesErasureCoded": "0"}


def _say(parameters: dict[str, str], properties: dict[str, str]) -> None:
    """Mark the numbers as accurate if a task gathered them, else remove the mark (updateBasicState)."""
    set_basic(parameters, right=properties.get("STATS_GENERATED") == "TASK")


def declined(thing: Struct) -> bool:
    """Does a parameter forbid to read the directory? (fill() removes the parameter.)"""
    return bool((thing.parameters or {}).get(DO_NOT_UPDATE, "").lower() == "true")


def declined_by_client(properties: dict[str, str]) -> bool:
    """Do the properties of a call that creates a table forbid it?"""
    return properties.get(DO_NOT_UPDATE, "").lower() == "true"


def wanted_after_alter(table: Struct, properties: dict[str, str]) -> bool:
    """Are a table's statistics computed after it was altered? (requireCalStats without partitions.)"""
    if properties.get(DO_NOT_UPDATE) == "true":
        return False
    return bool(table.tableType != "VIRTUAL_VIEW")


def stamp(thing: Struct, now: int, *, zero_is_none: bool = False) -> None:
    """Set the time of the last DDL unless the client has set it. `zero_is_none`: 0 counts as not set (an altered
    partition)."""
    parameters = thing.parameters if thing.parameters is not None else {}
    thing.parameters = parameters
    given = parameters.get(DDL_TIME)
    if given is None or zero_is_none and given == "0":
        parameters[DDL_TIME] = str(now)
