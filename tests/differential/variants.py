"""Every call by which a change can be made: for each kind of write, what each method is told.

Each function returns the calls that do the same: arguments by IDL name, under the name of the method, `METHOD__x` if it
can be told in several ways. `Writer` (writer.py) chooses among those that the metastore has.
Databases and tables are told as the caller spells them. A database may have its catalog in front (`@catalog#name`):
methods that take no request understand that, and requests have a field for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any

from hive_metastore.ttypes import (
    AddCheckConstraintRequest,
    AddDefaultConstraintRequest,
    AddForeignKeyRequest,
    AddNotNullConstraintRequest,
    AddPartitionsRequest,
    AddPrimaryKeyRequest,
    AddUniqueConstraintRequest,
    AlterPartitionsRequest,
    AlterTableRequest,
    ColumnStatistics,
    CreateTableRequest,
    CreationMetadata,
    Database,
    DropDatabaseRequest,
    DropPartitionsRequest,
    EnvironmentContext,
    GrantRevokePrivilegeRequest,
    GrantRevokeType,
    Partition,
    PartitionEventType,
    PartitionListComposingSpec,
    PartitionSpec,
    PartitionSpecWithSharedSD,
    PartitionWithoutSD,
    PrivilegeBag,
    RenamePartitionRequest,
    RequestPartsSpec,
    SetPartitionsStatsRequest,
    Table,
    TruncateTableRequest,
)

from tests.differential.wire import hms, newest

Arguments = dict[str, Any]
Variants = dict[str, Arguments]


def context(**properties: str) -> EnvironmentContext:
    return EnvironmentContext(properties)


def placed(database: str, name: str = "dbName", catalog: str = "catName") -> Arguments:
    """The fields of a request for a database, and for its catalog if it is told."""
    if not database.startswith("@"):
        return {name: database}
    before, _, after = database[1:].partition("#")
    return {catalog: before, name: after}


# -- databases ---------------------------------------------------------------------------------------------------
def create_database(database: Database) -> Variants:
    same = "description locationUri parameters ownerName ownerType catalogName createTime managedLocationUri".split()
    fields = {name: getattr(database, name) for name in same}
    request = hms.CreateDatabaseRequest(databaseName=database.name, **fields)
    return {
        "create_database": {"database": database},
        "create_database_req": {"createDatabaseRequest": request},
    }


def alter_database(name: str, database: Database) -> Variants:
    return {
        "alter_database": {"dbname": name, "db": database},
        "alter_database_req": {"alterDbReq": hms.AlterDatabaseRequest(oldDbName=name, newDb=newest(database))},
    }


def drop_database(name: str) -> Variants:
    """With all that is in it."""
    fields = {"catalogName": "hive", **placed(name, "name", "catalogName")}
    fields |= {"ignoreUnknownDb": False, "deleteData": False, "cascade": True}
    return {
        "drop_database": {"name": name, "deleteData": False, "cascade": True},
        "drop_database_req": {"req": DropDatabaseRequest(**fields)},
    }


# -- tables ------------------------------------------------------------------------------------------------------
def create_table(table: Table) -> Variants:
    return {
        "create_table": {"tbl": table},
        "create_table_with_environment_context": {"tbl": table, "environment_context": context()},
        **create_constrained_table(table),
    }


def create_constrained_table(table: Table, **constraints: list[Any]) -> Variants:
    """`constraints`: of some kinds of ADDED."""
    every = {name: constraints.get(name, []) for name in ADDED}
    return {
        "create_table_with_constraints": {"tbl": table, **every},
        "create_table_req": {"request": CreateTableRequest(table=table, **(every if constraints else {}))},
    }


def alter_table(database: str, name: str, table: Table, *, cascade: bool = False) -> Variants:
    given = {"dbname": database, "tbl_name": name, "new_tbl": table}
    environment = context(CASCADE="true") if cascade else context()
    request = AlterTableRequest(**placed(database), tableName=name, table=table, environmentContext=environment)
    return {
        **({} if cascade else {"alter_table": given}),
        "alter_table_with_cascade": {**given, "cascade": cascade},
        "alter_table_with_environment_context": {**given, "environment_context": environment},
        "alter_table_req": {"req": request},
    }


def update_creation_metadata(database: str, name: str, metadata: CreationMetadata) -> Variants:
    given = {"catName": "hive", "dbname": database, "tbl_name": name, "creation_metadata": metadata}
    return {"update_creation_metadata": given}


def drop_table(database: str, name: str) -> Variants:
    given = {"dbname": database, "name": name, "deleteData": False}
    fields = {"catalogName": "hive", **placed(database, catalog="catalogName"), "tableName": name}
    request = hms.DropTableRequest(**fields, deleteData=False, dropPartitions=True)
    return {
        "drop_table": given,
        "drop_table_with_environment_context": {**given, "environment_context": context()},
        "drop_table_req": {"dropTableReq": request},
    }


def truncate_table(database: str, name: str, partitions: list[str] | None) -> Variants:
    given = {"dbName": database, "tableName": name, "partNames": partitions}
    return {"truncate_table": given, "truncate_table_req": {"req": TruncateTableRequest(**given)}}


# -- partitions --------------------------------------------------------------------------------------------------
def add_partition(part: Partition) -> Variants:
    return {
        "add_partition": {"new_part": part},
        "add_partition_with_environment_context": {"new_part": part, "environment_context": context()},
        **add_partitions([part]),
    }


def add_partitions(parts: Sequence[Partition]) -> Variants:
    """Of one table. `add_partitions_pspec__shared` gives all of them the storage of the first."""
    first = parts[0]
    place = {"dbName": first.dbName, "tableName": first.tableName}
    request = AddPartitionsRequest(first.dbName, first.tableName, list(parts), ifNotExists=True, needResult=False)
    listed = PartitionListComposingSpec([_in_catalog(one) for one in parts])
    composed = PartitionSpec(**place, catName="hive", partitionList=listed)
    without = [
        PartitionWithoutSD(one.values, one.createTime, one.lastAccessTime, f"/spec{at}", one.parameters)
        for at, one in enumerate(parts)
    ]
    root, storage = f"file:/nowhere/{first.dbName}/{first.tableName}", copy(first.sd)
    storage.location = root
    shared = PartitionSpecWithSharedSD(without, storage)
    return {
        "add_partitions": {"new_parts": list(parts)},
        "add_partitions_req": {"request": request},
        "add_partitions_pspec": {"new_parts": [composed]},
        "add_partitions_pspec__shared": {
            "new_parts": [PartitionSpec(**place, rootPath=root, sharedSDPartitionSpec=shared)]
        },
    }


def _in_catalog(part: Partition) -> Partition:
    """With its catalog, without which Hive 3.1 fails and closes the connection."""
    told = copy(part)
    told.catName = "hive"
    return told


def _of_one_partition(method: str, given: dict[str, Any], values: list[str], name: str) -> Variants:
    """Calls that name it by its values or by its name, with and without an environment."""
    environment = {"environment_context": context()}
    by_values, by_name = {**given, "part_vals": values}, {**given, "part_name": name}
    return {
        method: by_values,
        f"{method}_with_environment_context": {**by_values, **environment},
        f"{method}_by_name": by_name,
        f"{method}_by_name_with_environment_context": {**by_name, **environment},
    }


def append_partition(database: str, table: str, values: list[str], name: str) -> Variants:
    """`name`: of the partition with these values."""
    given = {"db_name": database, "tbl_name": table}
    fields = {**placed(database, catalog="catalogName"), "tableName": table}
    return {
        **_of_one_partition("append_partition", given, values, name),
        "append_partition_req": {"appendPartitionsReq": hms.AppendPartitionsRequest(**fields, partVals=values)},
        "append_partition_req__name": {"appendPartitionsReq": hms.AppendPartitionsRequest(**fields, name=name)},
    }


def drop_partition(database: str, table: str, values: list[str], name: str) -> Variants:
    given = {"db_name": database, "tbl_name": table, "deleteData": False}
    place = {"catName": "hive", **placed(database)}  # Hive 4.2 fails without a catalog
    fields = {**place, "tblName": table, "deleteData": False}
    return {
        **_of_one_partition("drop_partition", given, values, name),
        "drop_partition_req": {"dropPartitionReq": hms.DropPartitionRequest(**fields, partVals=values)},
        "drop_partition_req__name": {"dropPartitionReq": hms.DropPartitionRequest(**fields, partName=name)},
        **drop_partitions(database, table, [name]),
    }


def drop_partitions(database: str, table: str, names: list[str]) -> Variants:
    fields = {**placed(database), "tblName": table, "deleteData": False, "ifExists": True}
    request = DropPartitionsRequest(**fields, parts=RequestPartsSpec(names=names))
    return {"drop_partitions_req": {"req": request}}


def alter_partition(database: str, table: str, part: Partition) -> Variants:
    given = {"db_name": database, "tbl_name": table, "new_part": part}
    return {
        "alter_partition": given,
        "alter_partition_with_environment_context": {**given, "environment_context": context()},
        **alter_partitions(database, table, [part]),
    }


def alter_partitions(database: str, table: str, parts: list[Partition], **properties: str) -> Variants:
    given = {"db_name": database, "tbl_name": table, "new_parts": parts}
    environment = context(**properties)
    fields = {**placed(database), "tableName": table, "partitions": parts}
    return {
        "alter_partitions": given,
        "alter_partitions_with_environment_context": {**given, "environment_context": environment},
        "alter_partitions_req": {"req": AlterPartitionsRequest(**fields)},
        "alter_partitions_req__context": {"req": AlterPartitionsRequest(**fields, environmentContext=environment)},
    }


def rename_partition(database: str, table: str, values: list[str], part: Partition) -> Variants:
    place = {"catName": "hive", **placed(database)}  # Hive 4.2 fails without a catalog
    request = RenamePartitionRequest(**place, tableName=table, partVals=values, newPart=part)
    return {
        "rename_partition": {"db_name": database, "tbl_name": table, "part_vals": values, "new_part": part},
        "rename_partition_req": {"req": request},
    }


def exchange_partition(given: dict[str, str], source: tuple[str, str], target: tuple[str, str]) -> Variants:
    """`given`: the partition's value of each key; a table is (database, name)."""
    places = {"source_db": source[0], "source_table_name": source[1]}
    places |= {"dest_db": target[0], "dest_table_name": target[1]}
    arguments: Arguments = {"partitionSpecs": given, **places}
    return {"exchange_partition": arguments, "exchange_partitions": arguments}


def mark_partition(database: str, table: str, given: dict[str, str]) -> Variants:
    place = {"db_name": database, "tbl_name": table}
    loaded = PartitionEventType.LOAD_DONE
    return {"markPartitionForEvent": {**place, "part_vals": given, "eventType": loaded}}


# -- column statistics -------------------------------------------------------------------------------------------
def update_statistics(statistics: ColumnStatistics) -> Variants:
    """Of a table, or of a partition that it names."""
    of = "partition" if statistics.statsDesc.partName else "table"
    request = SetPartitionsStatsRequest(colStats=[statistics], engine=statistics.engine)
    return {
        f"update_{of}_column_statistics": {"stats_obj": statistics},
        f"update_{of}_column_statistics_req": {"req": request},
        "set_aggr_stats_for": {"request": request},
    }


def delete_table_statistics(database: str, table: str, column: str | None, engine: str) -> Variants:
    fields = {"db_name": database, "tbl_name": table, "col_names": column and [column], "engine": engine}
    return {
        "delete_table_column_statistics": {
            "db_name": database,
            "tbl_name": table,
            "col_name": column,
            "engine": engine,
        },
        "delete_column_statistics_req": {"req": hms.DeleteColumnStatisticsRequest(**fields, tableLevel=True)},
    }


def delete_partition_statistics(database: str, table: str, name: str, column: str, engine: str) -> Variants:
    given = {"db_name": database, "tbl_name": table, "engine": engine}
    request = hms.DeleteColumnStatisticsRequest(**given, part_names=[name], col_names=[column], tableLevel=False)
    return {
        "delete_partition_column_statistics": {**given, "part_name": name, "col_name": column},
        "delete_column_statistics_req": {"req": request},
    }


# -- constraints, privileges ----------------------------------------------------------------------------------------
ADDED = {
    "primaryKeys": ("add_primary_key", AddPrimaryKeyRequest),
    "foreignKeys": ("add_foreign_key", AddForeignKeyRequest),
    "uniqueConstraints": ("add_unique_constraint", AddUniqueConstraintRequest),
    "notNullConstraints": ("add_not_null_constraint", AddNotNullConstraintRequest),
    "defaultConstraints": ("add_default_constraint", AddDefaultConstraintRequest),
    "checkConstraints": ("add_check_constraint", AddCheckConstraintRequest),
}
"""By the list of a request that creates a table: what adds such constraints later."""


def add_constraints(kind: str, rows: list[Any]) -> Variants:
    method, request = ADDED[kind]
    return {method: {"req": request(rows)}}


def change_privileges(bag: PrivilegeBag, *, revoke: bool) -> Variants:
    kind = GrantRevokeType.REVOKE if revoke else GrantRevokeType.GRANT
    return {
        "revoke_privileges" if revoke else "grant_privileges": {"privileges": bag},
        "grant_revoke_privileges": {"request": GrantRevokePrivilegeRequest(kind, bag)},
    }
