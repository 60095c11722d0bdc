"""Changes how tables look to processors that declare capabilities, and changes the tables that these create.

Job: give the results of Hive's MetastoreDefaultTransformer (4.2) for tables. Must not know: the database, calls. Only
tables of the default catalog are transformed. Owner: any thread; no state.
"""

from __future__ import annotations

from collections.abc import Sequence

from hms_cache_proxy.embedded.failures import meta
from hms_cache_proxy.embedded.names import DEFAULT_CATALOG
from hms_cache_proxy.embedded.rows.tables import is_transactional
from hms_cache_proxy.embedded.warehouse import Warehouse, is_below, path_text, without_scheme
from hms_cache_proxy.wire.spec import Struct

NONE, READ_ONLY, READ_WRITE = 1, 2, 8  # ACCESSTYPE_* of the IDL
_COMMON_WRITES = ["HIVEMANAGESTATS", "HIVECACHEINVALIDATE", "CONNECTORWRITE"]
_ACID_WRITES = ["HIVEFULLACIDWRITE", *_COMMON_WRITES]
_INSERT_WRITES = ["HIVEMANAGEDINSERTWRITE", *_COMMON_WRITES]
CAPABILITIES = "OBJCAPABILITIES"


def shown(table: Struct, capabilities: Sequence[str] | None) -> Struct:
    """A table as a processor sees it; changed in place. Unchanged without capabilities."""
    if capabilities is None or "MANAGERAWMETADATA" in capabilities or table.catName != DEFAULT_CATALOG:
        return table
    able = set(capabilities)
    required = (table.parameters or {}).get(CAPABILITIES)
    if required is None:
        {
            "EXTERNAL_TABLE": _external,
            "MANAGED_TABLE": _managed,
            "VIRTUAL_VIEW": _view,
            "MATERIALIZED_VIEW": _materialized,
        }.get(table.tableType, _none)(table, able)
    else:
        _with_required(table, able, "".join(required.split()).upper().split(","))
    return table


def _none(table: Struct, _able: set[str]) -> None:
    table.accessType = NONE


def _buckets(table: Struct) -> int:
    return 0 if table.sd is None else table.sd.numBuckets or 0


def _external(table: Struct, able: set[str]) -> None:
    if _buckets(table) > 0:
        if "HIVEBUCKET2" in able:
            table.accessType = READ_WRITE
            return
        table.accessType, table.requiredWriteCapabilities = READ_ONLY, ["HIVEBUCKET2"]
        if "ACCEPTS_UNMODIFIED_METADATA" not in able:
            table.sd.numBuckets = -1
    elif {"EXTWRITE", "EXTREAD"} <= able:
        table.accessType = READ_WRITE
    elif "EXTREAD" in able:
        table.accessType, table.requiredWriteCapabilities = READ_ONLY, ["EXTWRITE"]
    else:
        table.accessType = NONE
        table.requiredReadCapabilities, table.requiredWriteCapabilities = ["EXTREAD"], ["EXTWRITE"]


def _managed(table: Struct, able: set[str]) -> None:
    if not is_transactional(table.parameters):
        table.accessType = READ_WRITE
        return
    insert_only = table.parameters.get("transactional_properties", "").lower() == "insert_only"
    kind = "HIVEMANAGEDINSERT" if insert_only else "HIVEFULLACID"
    writes = list(_INSERT_WRITES if insert_only else _ACID_WRITES)
    if able & {f"{kind}WRITE", "CONNECTORWRITE"}:
        table.accessType = READ_WRITE
    elif able & {f"{kind}READ", "CONNECTORREAD"}:
        table.accessType, table.requiredWriteCapabilities = READ_ONLY, writes
    else:
        table.accessType, table.requiredWriteCapabilities = NONE, writes
        table.requiredReadCapabilities = ["CONNECTORREAD", f"{kind}READ"]


def _view(table: Struct, able: set[str]) -> None:
    if able & {"HIVESQL", "CONNECTORREAD"}:
        table.accessType = READ_ONLY
    else:
        table.accessType, table.requiredReadCapabilities = NONE, ["HIVESQL", "CONNECTORREAD"]


def _materialized(table: Struct, able: set[str]) -> None:
    if able & {"CONNECTORREAD", "HIVEFULLACIDREAD"} and "HIVEMQT" in able:
        table.accessType = READ_ONLY
    else:
        table.accessType, table.requiredReadCapabilities = NONE, ["CONNECTORREAD", "HIVEMQT"]


def _writes(capabilities: list[str]) -> list[str]:
    return [name for name in capabilities if name.endswith(("WRITE", "STATS", "INVALIDATE"))]


def _reads(capabilities: list[str]) -> list[str]:
    return [name for name in capabilities if name.endswith(("READ", "SQL"))]


def _missing(required: list[str], able: set[str]) -> list[str]:
    return [name for name in required if name not in able]


def _with_required(table: Struct, able: set[str], required: list[str]) -> None:
    """A table whose parameter OBJCAPABILITIES says what a processor needs."""
    if set(required) <= able:
        table.accessType = READ_ONLY if table.tableType in ("VIRTUAL_VIEW", "MATERIALIZED_VIEW") else READ_WRITE
    elif table.tableType == "EXTERNAL_TABLE":
        _external_with_required(table, able, required)
    elif table.tableType == "MANAGED_TABLE":
        _managed_with_required(table, able, required)
    else:
        table.accessType = NONE
        table.requiredReadCapabilities = _missing(_reads(required), able)
        if table.tableType not in ("VIRTUAL_VIEW", "MATERIALIZED_VIEW"):
            table.requiredWriteCapabilities = _writes(required)


def _external_with_required(table: Struct, able: set[str], required: list[str]) -> None:
    writes: list[str] = []
    bucketed = _buckets(table) > 0
    if "HIVEBUCKET2" in required and "HIVEBUCKET2" not in able:
        if "ACCEPTS_UNMODIFIED_METADATA" not in able and table.sd is not None:
            table.sd.numBuckets = -1
        writes.append("HIVEBUCKET2")
    if "EXTWRITE" in required and "EXTWRITE" in able and not bucketed:
        table.accessType = READ_WRITE
    elif "EXTREAD" in required and "EXTREAD" in able:
        table.accessType, table.requiredWriteCapabilities = READ_ONLY, [*writes, "EXTWRITE"]
    else:
        table.accessType, table.requiredReadCapabilities = NONE, ["EXTREAD"]
        table.requiredWriteCapabilities = [*writes, *_writes(required)]


def _managed_with_required(table: Struct, able: set[str], required: list[str]) -> None:
    if not able:
        table.accessType = NONE
        table.requiredReadCapabilities, table.requiredWriteCapabilities = _reads(required), _writes(required)
        return
    writes = _missing(_writes(required), able)
    if not is_transactional(table.parameters):
        table.accessType, table.requiredWriteCapabilities = READ_ONLY, writes
        return
    insert_only = table.parameters.get("transactional_properties", "").lower() == "insert_only"
    reader = "HIVEMANAGEDINSERTREAD" if insert_only else "HIVEFULLACIDREAD"
    if not writes or able & {"HIVEFULLACIDWRITE", "CONNECTORWRITE"}:
        table.accessType = READ_WRITE
    elif able & {reader, "CONNECTORREAD"} or insert_only and set(_reads(required)) <= able:
        table.accessType, table.requiredWriteCapabilities = READ_ONLY, writes
    else:
        table.accessType, table.requiredWriteCapabilities = NONE, writes
        table.requiredReadCapabilities = _missing(_reads(required), able)


def created(table: Struct, database: Struct, capabilities: list[str] | None, warehouse: Warehouse) -> None:
    """Change a new table in place. MetaException if it may not be created."""
    if table.catName != DEFAULT_CATALOG:
        return
    parameters = table.parameters if table.parameters is not None else {}
    table.parameters = parameters
    if table.tableType == "EXTERNAL_TABLE":
        _external_place(table, database, warehouse)
        return
    if table.tableType != "MANAGED_TABLE":
        return
    insert_only = parameters.get("transactional_properties", "").lower() == "insert_only"
    if parameters.get("transactional", "false").lower() == "false" and not insert_only:
        table.tableType = "EXTERNAL_TABLE"
        parameters.pop("transactional", None)
        parameters.pop("transactional_properties", None)
        parameters |= {"EXTERNAL": "TRUE", "external.table.purge": "TRUE", "TRANSLATED_TO_EXTERNAL": "TRUE"}
        if table.sd is not None and table.sd.location is None:
            table.sd.location = table_path(database, table.tableName, warehouse, external=True)
        return
    _acid(table, database, capabilities, warehouse, insert_only=insert_only)


def altered(before: Struct, table: Struct, database: Struct | None, warehouse: Warehouse) -> None:
    """MetaException if a table is moved to a location that its kind may not have (transformAlterTable).

    `database`: that of the altered table; None if it does not exist.
    """
    places = [None if each.sd is None else each.sd.location for each in (before, table)]
    moved = None not in places and places[0] != places[1]
    translated = "TRANSLATED_TO_EXTERNAL"
    follows = all((each.parameters or {}).get(translated, "").upper() == "TRUE" for each in (before, table))
    if not moved and not follows:
        return
    if database is None:
        raise meta(f"Database {table.dbName} for table {table.tableName} could not be found")
    if not moved:
        return
    if places[1] == "":
        raise meta("java.lang.IllegalArgumentException: Can not create a Path from an empty string")
    check = _managed_place if table.tableType == "MANAGED_TABLE" else _external_place
    check(table, database, warehouse)


def _acid(
    table: Struct, database: Struct, capabilities: list[str] | None, warehouse: Warehouse, *, insert_only: bool
) -> None:
    if not capabilities:
        raise meta("Processor has no capabilities, cannot create an ACID table.")
    _managed_place(table, database, warehouse)
    needed, kind = ("HIVEMANAGEDINSERTWRITE", "INSERT") if insert_only else ("HIVEFULLACIDWRITE", "FULL")
    if needed not in capabilities:
        missing = _missing(list(_INSERT_WRITES if insert_only else _ACID_WRITES), set(capabilities))
        raise meta(f"Processor does not have capabilities to create a {kind} ACID table:[{', '.join(missing)}]")


def _managed_place(table: Struct, database: Struct, warehouse: Warehouse) -> None:
    location = table.sd.location
    if database.managedLocationUri is not None:
        if location is None:
            table.sd.location = table_path(database, table.tableName, warehouse, external=False)
        elif not location.startswith(f"{database.managedLocationUri.rstrip('/')}/"):
            raise meta("Illegal location for managed table, it has to be within database's managed location")
    elif location is None:
        table.sd.location = table_path(database, table.tableName, warehouse, external=False)
    elif not warehouse.in_managed(location):
        raise meta(
            "A managed table's location should be located within managed warehouse root directory or within its"
            f" database's managedLocationUri. Table {table.tableName.lower()}'s location is not valid:{location},"
            f" managed warehouse:{warehouse.managed}"
        )


def _external_place(table: Struct, database: Struct, warehouse: Warehouse) -> None:
    location = table.sd.location
    if location is None:
        table.sd.location = table_path(database, table.tableName, warehouse, external=True)
    elif is_below(without_scheme(warehouse.managed), without_scheme(location)):
        raise meta(
            "An external table's location should not be located within managed warehouse root directory, table:"
            f"{table.tableName.lower()},location:{without_scheme(location)},managed warehouse:"
            f"{without_scheme(warehouse.managed)}"
        )


def table_path(database: Struct, name: str, warehouse: Warehouse, *, external: bool) -> str:
    """The default location of a table of this name (Warehouse.getDefaultTablePath)."""
    root = external_path(database, warehouse) if external else managed_path(database, warehouse)
    return f"{root}/{_encoded(name.lower())}"


def external_path(database: Struct, warehouse: Warehouse) -> str:
    """The location of a database's external tables (Warehouse.getDatabaseExternalPath)."""
    root = path_text(database.locationUri)
    if database.catalogName == DEFAULT_CATALOG and warehouse.in_managed(root):
        return warehouse.database_path(database.name)
    return root


def managed_path(database: Struct, warehouse: Warehouse) -> str:
    """The location of a database's managed tables (Warehouse.getDatabaseManagedPath)."""
    if database.managedLocationUri:
        return path_text(database.managedLocationUri)
    if database.catalogName != DEFAULT_CATALOG:
        return path_text(database.locationUri)
    return warehouse.database_path(database.name, external=False)


def _encoded(name: str) -> str:
    """A table's name in a path: `-47-` for a slash (MetaStoreUtils.encodeTableName)."""
    return "".join(char if char.isalnum() or char == "_" else f"-{ord(char)}-" for char in name)
