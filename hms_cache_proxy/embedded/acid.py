"""Which tables may be transactional, and for which readers their statistics are valid. A transactional table stays
transactional.

Job: do the checks of Hive's TransactionalValidationListener (4.2) when a table is created or altered; both change the
new table's parameters in place. Apply ObjectStore's rules to statistics that were written under a write id. Must not
know: the database, calls. The names of the files in a table that becomes transactional are not checked. Only tables of
the default catalog are checked. Owner: any thread; no state.
"""

from __future__ import annotations

from dataclasses import dataclass

from hms_cache_proxy.embedded.failures import Failure, internal, meta
from hms_cache_proxy.embedded.names import DEFAULT_CATALOG
from hms_cache_proxy.embedded.stats_accurate import ACCURATE, parsed, set_basic
from hms_cache_proxy.errors import WriteIdsError
from hms_cache_proxy.store.write_ids import ValidWriteIdList
from hms_cache_proxy.wire.spec import Struct

TRANSACTIONAL, PROPERTIES = "transactional", "transactional_properties"
DEFAULT, INSERT_ONLY = "default", "insert_only"
CONVERTED_FILES = 10_000_000
"""The number of write ids that are reserved for the existing files of a table that becomes transactional."""
_FORMATS = ("org.apache.hadoop.hive.ql.io.orc.OrcInputFormat", "org.apache.hadoop.hive.ql.io.orc.OrcOutputFormat")


@dataclass(frozen=True, slots=True)
class AcidWrite:
    """The write id with which a call writes, and the write ids that it sees."""

    write_id: int = -1
    valid: str | None = None


NO_WRITE = AcidWrite()
Parameters = dict[str, str] | None


def write_of(request: Struct) -> AcidWrite:
    """The write of a request."""
    return AcidWrite(-1 if request.writeId is None else request.writeId, request.validWriteIdList)


def are_valid(owner: Struct, valid: str | None, *, replaced: bool = False) -> bool:
    """Are the statistics of a table or partition valid for one who sees these write ids?

    `replaced`: the one replaces them. Whether they are accurate does then not matter, nor that their writer has failed.
    Failure for a text that is no list. Source: ObjectStore.isCurrentStatsValidForTheQuery.
    """
    write_id = owner.writeId or 0
    if write_id < 1:
        return True
    if valid is None or not (replaced or parsed((owner.parameters or {}).get(ACCURATE)).basic):
        return False
    try:
        seen = ValidWriteIdList.parse(valid.encode())
    except WriteIdsError as error:
        raise internal(f"no list of write ids: {error}") from error
    return seen.is_valid(write_id) or (replaced and write_id in seen.aborted)


def show_to(table: Struct, seen: str) -> None:
    """Say in a transactional table without partition keys whether its statistics are valid for one who sees these write
    ids. If they are not, none are accurate for it."""
    if (_value(table.parameters, TRANSACTIONAL) or "").lower() != "true" or table.partitionKeys:
        return
    table.isStatsCompliant = are_valid(table, seen)
    if not table.isStatsCompliant:
        table.parameters = dict(table.parameters)
        set_basic(table.parameters, right=False)


def keep_accurate(before: Struct, parameters: dict[str, str], write: AcidWrite) -> None:
    """Statistics of a writer that does not see the write of those before are not accurate: of its rows, they know
    nothing. Changes the new parameters of a table in place."""
    if write.valid is not None and write.write_id > 0 and not are_valid(before, write.valid, replaced=True):
        set_basic(parameters, right=False)


def check_statistics(table: Struct, parameters: dict[str, str], write: AcidWrite) -> None:
    """MetaException if the basic statistics of a transactional table would become accurate outside of a transaction.

    Source: ObjectStore.verifyStatsChangeCtx of 4.2, with the names in its order.
    """
    _check_change(table, f"{table.tableName}.{table.dbName}", (table.parameters, parameters), write)


def check_partition_statistics(table: Struct, before: Struct, after: Struct, write: AcidWrite) -> None:
    """The same for a single altered partition, where Hive gives no reason. Hive does not check several partitions."""
    try:
        _check_change(table, f"{table.dbName}.{table.tableName}", (before.parameters, after.parameters), write)
    except Failure as failure:
        raise meta("The transaction for alter partition did not commit successfully.") from failure


def check_column_statistics(table: Struct, before: Parameters, parameters: Parameters, write: AcidWrite) -> None:
    """MetaException for statistics of columns without a write, if the basic statistics are accurate."""
    _check_change(table, f"{table.dbName}.{table.tableName}", (before, parameters), write, columns=True)


def _check_change(
    table: Struct, name: str, parameters: tuple[Parameters, Parameters], write: AcidWrite, *, columns: bool = False
) -> None:
    old, new = ((each or {}).get(ACCURATE) for each in parameters)
    if (_value(table.parameters, TRANSACTIONAL) or "").lower() != "true" or table.catName != DEFAULT_CATALOG:
        return
    if new is None or not parsed(new).basic or write.valid is not None and write.write_id > 0:
        return
    if columns or (old or "").lower() != new.lower():
        raise meta(
            f"Cannot change stats state for a transactional table {name} without providing the transactional write"
            f" state for verification (new write ID {write.write_id}, valid write IDs {write.valid or 'null'}; current"
            f" state {old or 'null'}; new state {new}"
        )


def created(table: Struct) -> None:
    """MetaException if a new table may not be transactional in the way that it asks for."""
    if (table.catName or DEFAULT_CATALOG).lower() != DEFAULT_CATALOG:
        return
    wanted = _take(table, TRANSACTIONAL)
    if wanted is None or wanted.lower() == "false":
        return
    name = _name(table)
    if wanted.lower() != "true":
        raise meta(f"'transactional' property of TBLPROPERTIES may only have value 'true': {name}")
    _check_format(table, _value(table.parameters, PROPERTIES))
    if table.parameters.get("EXTERNAL", "").lower() == "true":
        raise meta(f"{name} cannot be declared transactional because it's an external table")
    table.parameters[TRANSACTIONAL] = "true"
    _normalize(table)
    _check_sorted(table)


def altered(before: Struct, table: Struct) -> bool:
    """MetaException if a table's transactions may not change in this way; True if it becomes full ACID."""
    if (table.catName or DEFAULT_CATALOG).lower() != DEFAULT_CATALOG:
        return False
    table.parameters = table.parameters or {}
    name = _name(table)
    old, old_kind = _value(before.parameters, TRANSACTIONAL), _value(before.parameters, PROPERTIES)
    wanted, kind = _take(table, TRANSACTIONAL), _value(table.parameters, PROPERTIES)
    if wanted is not None and wanted.lower() == "false":
        wanted = None
    if wanted is not None:
        if (before.tableType, table.tableType) == ("MANAGED_TABLE", "EXTERNAL_TABLE"):
            raise meta(f"{name} cannot be converted to external table as it is transactional table.")
        table.parameters[TRANSACTIONAL] = wanted
    gets = (wanted or "").lower() == "true" and (old or "").lower() != "true"
    if gets:
        kind = kind or DEFAULT
        table.parameters.setdefault(PROPERTIES, DEFAULT)
        _check_format(table, kind)
        if table.tableType == "EXTERNAL_TABLE":
            raise meta(f"{name} cannot be declared transactional because it's an external table")
        if kind.lower() != INSERT_ONLY and not table.sd.location:
            raise meta(f"Unable to list files for {name}")
    inserts = (old_kind or "").lower() == INSERT_ONLY and (old or "").lower() == "true"
    if not gets and (old or "").lower() != (wanted or "").lower() and not inserts:
        raise meta(f"TBLPROPERTIES with 'transactional'='true' cannot be unset: {name}")
    if kind is not None and old is None:
        _normalize(table)
    elif kind is not None and (old_kind or "").lower() != kind.lower() and not inserts:
        raise meta("TBLPROPERTIES with 'transactional_properties' cannot be altered after the table is created")
    _check_sorted(table)
    return gets and not _only_inserts(table)


def _name(table: Struct) -> str:
    return f"{table.dbName}.{table.tableName}"


def _value(parameters: dict[str, str] | None, key: str) -> str | None:
    """The value of a parameter; the case of its name does not matter."""
    return next((value for name, value in (parameters or {}).items() if name.lower() == key), None)


def _take(table: Struct, key: str) -> str | None:
    """The same, and remove the parameter."""
    found = _value(table.parameters, key)
    for name in [name for name in table.parameters or () if name.lower() == key]:
        del table.parameters[name]
    return found


def _check_format(table: Struct, kind: str | None) -> None:
    formats = None if table.sd is None else (table.sd.inputFormat, table.sd.outputFormat)
    if formats != _FORMATS and (kind or "").lower() != INSERT_ONLY:
        raise meta(f"The table must be stored using an ACID compliant format (such as ORC): {_name(table)}")


def _normalize(table: Struct) -> None:
    """Write the kind of transactions in lower case, under the name that Hive uses."""
    kind = (_take(table, PROPERTIES) or DEFAULT).lower()
    if kind not in (DEFAULT, INSERT_ONLY):
        why = f"unknown value {kind} for transactional_properties"
        raise meta(f"Invalid transactional properties specified for {_name(table)} with the error {why}")
    table.parameters[PROPERTIES] = kind


def _only_inserts(table: Struct) -> bool:
    return (_value(table.parameters, PROPERTIES) or "").lower() == INSERT_ONLY


def _check_sorted(table: Struct) -> None:
    acid = (table.parameters.get(TRANSACTIONAL) or "").lower() == "true" and not _only_inserts(table)
    if acid and table.sd.sortCols:
        raise meta(f"Table {_name(table)} cannot support full ACID functionality since it is sorted.")
