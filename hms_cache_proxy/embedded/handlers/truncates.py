"""Truncating tables and partitions.

Job: decide which directories a truncation empties, and how it changes parameters and the log. Source:
HMSHandler.truncateTableInternal of 4.2, and answers of a running one. Owner: the thread of a call.

For a partitioned table, no list of names means every partition, and an empty list none; names that do not exist are
ignored. The directory of a partitioned table itself is never emptied.
"""

from __future__ import annotations

from collections.abc import Sequence

from hms_cache_proxy.embedded import acid, base_files, directories, events, names, quick_stats
from hms_cache_proxy.embedded.call import Call, writes
from hms_cache_proxy.embedded.failures import meta
from hms_cache_proxy.embedded.handlers.partition_changes import put
from hms_cache_proxy.embedded.handlers.table_changes import must_purge
from hms_cache_proxy.embedded.handlers.table_moves import describe
from hms_cache_proxy.embedded.handlers.tables import found
from hms_cache_proxy.embedded.rows import partitions as partition_rows
from hms_cache_proxy.embedded.rows import tables as rows
from hms_cache_proxy.embedded.rows.locations import TenantTest
from hms_cache_proxy.embedded.values import copy, new
from hms_cache_proxy.wire.spec import Struct

SKIP_DELETION = "truncateSkipDataDeletion"


def truncate_table(call: Call, args: Struct) -> None:
    """Remove the files of a table, or of some of its partitions."""
    _truncate(call, args.dbName, args.tableName, args.partNames)


def truncate_table_req(call: Call, args: Struct) -> Struct:
    """The same by request. A property makes the files stay; a base directory then makes them invalid."""
    request = args.req
    properties = quick_stats.context(request.environmentContext)
    write = acid.write_of(request)
    keeps = properties.get(SKIP_DELETION, "").lower() == "true"
    _truncate(call, request.dbName, request.tableName, request.partNames, write=write, keeps_files=keeps)
    return new("TruncateTableResponse")


def _truncate(
    call: Call,
    database: str,
    table: str,
    chosen: list[str] | None,
    *,
    write: acid.AcidWrite = acid.NO_WRITE,
    keeps_files: bool = False,
) -> None:
    row = found(call, *names.both(database), table)
    keyed = bool(row.table.partitionKeys)
    parts = partition_rows.find(call, row, names=chosen) if keyed else []
    places = [part.partition.sd.location for part in parts] if keyed else [row.table.sd.location]
    if None in places:
        raise meta("java.lang.IllegalArgumentException: Can not create a Path from a null string")
    if not keeps_files:
        ids = {part.partition_id for part in parts}
        named = _named(row, None if chosen is None or not keyed else ids)
        directories.empty(call, places, describe(row.table), named, purge=must_purge(row.table, {}))
    elif rows.is_transactional(row.table.parameters):
        for place in places:
            base_files.write(call, place, write.write_id, base_files.TRUNCATED)
    if keyed:
        _partitions_emptied(call, row, parts, write)
    else:
        _table_emptied(call, row, write)


def _named(row: rows.StoredTable, chosen: set[int] | None) -> TenantTest:
    """The objects that the call names: some partitions of a table, or the table with all of them."""
    return lambda tenant: tenant.table_id == row.table_id and (chosen is None or tenant.partition_id in chosen)


def _partitions_emptied(
    call: Call, row: rows.StoredTable, parts: Sequence[partition_rows.Part], write: acid.AcidWrite
) -> None:
    """Log one event for all partitions; none if there are no partitions."""
    changed = []
    for part in parts:
        after = copy(part.partition)
        after.parameters = {**_emptied(after.parameters), quick_stats.DDL_TIME: str(call.now)}
        if write.write_id > 0:
            after.writeId = write.write_id
        put(call, row, part, after, write)
        changed.append(after)
    if changed:
        events.alter_partitions(call, row.table, changed, truncated=True)


def _table_emptied(call: Call, row: rows.StoredTable, write: acid.AcidWrite) -> None:
    after = copy(row.table)
    after.parameters = _emptied(after.parameters)
    acid.check_statistics(row.table, after.parameters, write)
    events.alter_table(call, after, after, truncated=True, write_id=write.write_id)
    if write.write_id > 0 and write.valid is not None and rows.is_transactional(row.table.parameters):
        acid.keep_accurate(row.table, after.parameters, write)
        rows.set_write_id(call, row.table_id, write.write_id)
    rows.update_parameters(call, row.table_id, after.parameters)


def _emptied(parameters: dict[str, str] | None) -> dict[str, str]:
    """The parameters with all present numbers 0 and accurate; column statistics are no longer accurate."""
    zero = {name: "0" for name in quick_stats.SUPPORTED if name in (parameters or {})}
    return {**(parameters or {}), **zero, quick_stats.ACCURATE: quick_stats.BASIC_ONLY}


METHODS = writes(truncate_table=truncate_table, truncate_table_req=truncate_table_req)
