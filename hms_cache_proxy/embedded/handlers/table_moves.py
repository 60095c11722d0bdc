"""The location of a table after an alteration, and the files that move with it.

Job: decide which renames move a directory, where to, and which locations of partitions follow. Must not know: what else
an alteration changes. Source: HiveAlterHandler.alterTable of 4.2, and answers of a running one. Owner: the thread of a
call.

The files of a renamed table move if the metastore chose their location: those of a managed table if they are in its
database's managed directory, and those of a table that was created as managed and is shown as external, wherever they
are. The files of every other table stay where they are, and it gets the location in the call.
"""

from __future__ import annotations

from dataclasses import dataclass

from hms_cache_proxy.embedded import directories, names, transformer
from hms_cache_proxy.embedded.call import Call
from hms_cache_proxy.embedded.failures import invalid_operation, meta
from hms_cache_proxy.embedded.rows import partitions as partition_rows
from hms_cache_proxy.embedded.rows import tables as rows
from hms_cache_proxy.embedded.warehouse import path_text
from hms_cache_proxy.wire.spec import Struct

REPLICATED = "REPL_DATA_LOCATION_CHANGED"
"""A property: the caller has moved the files; what is left at the old location is removed."""


@dataclass(frozen=True, slots=True)
class Renamed:
    """A table under its new name: its new database and name."""

    database: Struct
    table: str


def is_translated(table: Struct) -> bool:
    """Was it created as a managed table?"""
    return _is_true(table, "TRANSLATED_TO_EXTERNAL")


def _is_true(table: Struct, name: str) -> bool:
    return bool((table.parameters or {}).get(name, "").upper() == "TRUE")


def is_told_where(before: Struct, table: Struct) -> bool:
    """Does the metastore, not the call, determine the location of a renamed table? Then its files are not counted."""
    if (table.parameters or {}).get("table_type", "").upper() == "ICEBERG":
        return False
    if _is_true(before, "EXTERNAL"):
        return not is_translated(before) or _shown_as_external(table)
    return table.sd.location in ("", before.sd.location)


def _shown_as_external(table: Struct) -> bool:
    return _is_true(table, "EXTERNAL") and is_translated(table) and table.sd.location is not None


def check_place(before: Struct, table: Struct) -> None:
    """MetaException if a renamed table has no location, before or after: Hive compares the two."""
    if before.sd.location is None:
        raise meta(
            'java.lang.NullPointerException: Cannot invoke "String.compareTo(String)" because the return value of'
            ' "org.apache.hadoop.hive.metastore.api.StorageDescriptor.getLocation()" is null'
        )
    if table.sd.location is None:
        raise meta('java.lang.NullPointerException: Cannot read field "value" because "<parameter1>" is null')


def move(call: Call, row: rows.StoredTable, table: Struct, old: Struct, new: Renamed) -> None:
    """Move the files of a renamed table from database `old`, if they move, and set the new table's location."""
    before = row.table
    target = _target(call, before, table, old, new)
    if target is None:
        return
    if call.warehouse.exists(target):
        name = names.qualified(before.catName, new.database.name, new.table)
        raise invalid_operation(f"New location for this table {name} already exists : {target}")
    source = before.sd.location
    moves = call.warehouse.exists(source) or call.warehouse.local(source) is None
    directories.move(call, source, target, describe(before), lambda tenant: tenant.table_id == row.table_id)
    table.sd.location = target
    if moves and before.partitionKeys:
        partition_rows.move(call, row.table_id, path_text(source), target)


def _target(call: Call, before: Struct, table: Struct, old: Struct, new: Renamed) -> str | None:
    """The new location of the files; None if they stay."""
    managed = transformer.managed_path(old, call.warehouse)
    own = f"{path_text(managed)}/{before.tableName}".lower() == path_text(before.sd.location).lower()
    if _is_true(before, "EXTERNAL"):
        if own:
            return path_text(table.sd.location)
        return f"{transformer.external_path(new.database, call.warehouse)}/{new.table}"
    return f"{transformer.managed_path(new.database, call.warehouse)}/{new.table}" if own else None


def replicated(call: Call, row: rows.StoredTable, table: Struct) -> None:
    """The caller has moved the files of a table: change the partitions' locations, and remove the old directory."""
    source = row.table.sd.location
    if row.table.partitionKeys:
        partition_rows.move(call, row.table_id, path_text(source), path_text(table.sd.location))
    purge = _is_true(row.table, "skip.trash") or _is_true(row.table, "auto.purge")
    directories.remove(call, source, describe(row.table), purge=purge)


def describe(table: Struct) -> str:
    """The name of a table in messages."""
    return f"table {names.qualified(table.catName, table.dbName, table.tableName)}"
