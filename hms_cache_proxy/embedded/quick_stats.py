"""Basic statistics that the server itself puts into parameters: files and bytes of a directory.

Job: MetaStoreServerUtils.updateTableStatsSlow and updatePartitionStatsFast of Hive 4.2. Must not know: the database.
Owner: the thread of a call.
"""

from __future__ import annotations

from hms_cache_proxy.embedded.warehouse import Warehouse
from hms_cache_proxy.wire.spec import Struct

FAST = ("numFiles", "totalSize", "numFilesErasureCoded")
SUPPORTED = (*FAST, "numRows", "rawDataSize")
DO_NOT_UPDATE = "DO_NOT_UPDATE_STATS"
ACCURATE = "COLUMN_STATS_ACCURATE"
BASIC_ONLY = '{"BASIC_STATS":"true"}'
"""Its value where the numbers are right, and no column's statistics are known to be."""
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
    """Look at the directory of a table or partition, unless it was just made; changes its parameters.

    `forced`: also where the parameters have numbers already.
    """
    parameters = thing.parameters if thing.parameters is not None else {}
    thing.parameters = parameters
    unwanted = declined(thing)
    parameters.pop(DO_NOT_UPDATE, None)
    if unwanted or made or thing.sd is None or thing.sd.location is None:
        return
    if not forced and all(name in parameters for name in FAST):
        return
    if properties.get("DO_NOT_POPULATE_QUICK_STATS", "").upper() != "TRUE":
        files, size = warehouse.totals(thing.sd.location)
        parameters |= {"numFiles": str(files), "totalSize": str(size), "numFilesErasureCoded": "0"}
    if properties.get("STATS_GENERATED") != "TASK":
        parameters.pop(ACCURATE, None)


def declined(thing: Struct) -> bool:
    """Does a parameter say that its directory is not to be looked at? (fill() takes it away.)"""
    return bool((thing.parameters or {}).get(DO_NOT_UPDATE, "").lower() == "true")


def wanted_after_alter(table: Struct, properties: dict[str, str]) -> bool:
    """Are a table's statistics looked at after an alter? (requireCalStats with no partitions.)"""
    if properties.get(DO_NOT_UPDATE, "").lower() == "true":
        return False
    return bool(table.tableType != "VIRTUAL_VIEW")


def stamp(thing: Struct, now: int) -> None:
    """The time of the last DDL, where the client did not say it."""
    parameters = thing.parameters if thing.parameters is not None else {}
    thing.parameters = parameters
    if parameters.get(DDL_TIME, "0") == "0":
        parameters[DDL_TIME] = str(now)
