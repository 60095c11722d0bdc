"""Says which kind of entry each read has in TTL mode, and what calls about roles and privileges touch.

Job: have a literal table of the kind of each read. The rules of the method table (methods/table.py) say what a read
depends on and what a write touches. This module adds what they lack: reads of roles and privileges, and other tables
that constraints name. Must not know: entries. Owner: any process; constants.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hms_cache_proxy.cache import targets
from hms_cache_proxy.cache.targets import ALL, ROLES, Target
from hms_cache_proxy.cache.ttl import EntryKind
from hms_cache_proxy.consistency import names
from hms_cache_proxy.wire import facts

ALTERED: Final[Target] = b"A"
"""Some table or database was altered: some lists show what they are, and foreign keys show the names of tables."""

_METHODS: Final[Mapping[EntryKind, str]] = {
    EntryKind.DATABASE: "get_database get_database_req get_catalog get_catalogs",
    EntryKind.DATABASE_NAMES: "get_all_databases get_databases get_databases_req",
    EntryKind.TABLE: "get_table get_table_req get_table_objects_by_name get_table_objects_by_name_req get_fields"
    " get_fields_req get_fields_with_environment_context get_schema get_schema_req"
    " get_schema_with_environment_context get_index_by_name get_index_names get_indexes",
    EntryKind.TABLE_NAMES: "get_all_tables get_tables get_tables_ext get_table_meta",
    EntryKind.VIEW_NAMES: "get_tables_by_type get_table_names_by_filter get_materialized_views_for_rewriting",
    EntryKind.PARTITION: "get_partition get_partition_req get_partition_by_name get_partition_with_auth get_partitions"
    " get_partitions_req get_partitions_with_auth get_partitions_pspec get_partitions_by_names"
    " get_partitions_by_names_req get_partitions_ps get_partitions_ps_with_auth get_partitions_ps_with_auth_req"
    " get_partitions_by_expr get_partitions_spec_by_expr get_partitions_with_specs get_partitions_by_filter"
    " get_partitions_by_filter_req get_part_specs_by_filter",
    EntryKind.PARTITION_NAMES: "get_partition_names fetch_partition_names_req get_partition_names_req"
    " get_partition_values",
    EntryKind.PARTITION_FILTER: "get_partition_names_ps get_partition_names_ps_req get_num_partitions_by_filter",
    EntryKind.TABLE_STATISTICS: "get_table_column_statistics get_table_statistics_req",
    EntryKind.PARTITION_STATISTICS: "get_partition_column_statistics get_partitions_statistics_req get_aggr_stats_for",
    EntryKind.CONSTRAINTS: "get_primary_keys get_unique_constraints get_not_null_constraints get_default_constraints"
    " get_check_constraints get_foreign_keys get_all_table_constraints",
    EntryKind.FUNCTIONS: "get_function get_functions get_functions_req get_all_functions",
    EntryKind.ROLES: "get_role_names get_principals_in_role",
    EntryKind.ROLE_GRANTS: "list_roles get_role_grants_for_principal",
    EntryKind.TABLE_PRIVILEGES: "list_privileges get_privilege_set",
}

KINDS: Final[Mapping[str, EntryKind]] = {name: kind for kind, names in _METHODS.items() for name in names.split()}
"""Kind by method. A read that is not here is always relayed."""

OF_ROLES: Final = frozenset({EntryKind.ROLES, EntryKind.ROLE_GRANTS, EntryKind.TABLE_PRIVILEGES})
_SAYS_WHAT_THEY_ARE: Final = frozenset(
    "get_foreign_keys get_all_table_constraints get_table_meta get_tables_by_type get_tables_ext"
    " get_materialized_views_for_rewriting get_databases_req".split()
)
_BY_PARAMETERS: Final = frozenset(("get_table_names_by_filter",))
"""Statistics and truncation change parameters too, so any write counts."""

_DROPS: Final = ("drop_table", "drop_constraint", "drop_database")
_ADDS_KEYS: Final = ("add_primary_key", "create_table_with_constraints", "create_table_req")
"""Foreign keys of other tables that refer to it are then shown."""
_WITH_AUTH: Final = ("_with_auth", "_with_auth_req")


def read_targets(label: str, kind: EntryKind, named: tuple[Target, ...], args: Any) -> tuple[Target, ...]:
    """What an entry depends on. `named`: what the method table says."""
    if kind is EntryKind.TABLE_PRIVILEGES:
        return (ROLES, *_object(args.hiveObject))
    if kind in OF_ROLES:
        return (ROLES,)
    if not named or label in _BY_PARAMETERS or any(map(targets.is_members, named)):
        return (ALL,)
    found = (*named, ALTERED) if label in _SAYS_WHAT_THEY_ARE else named
    if kind is EntryKind.CONSTRAINTS:
        found += (targets.CONSTRAINTS,)
    return (*found, ROLES) if label.endswith(_WITH_AUTH) else found


def write_targets(label: str, named: tuple[Target, ...]) -> tuple[Target, ...]:
    """What a write invalidates. Hive drops constraints by name, also those of other tables (docs/consistency.md)."""
    if label.startswith(("alter_table", "alter_database")):
        named += (ALTERED,)
    return (*named, targets.CONSTRAINTS) if label.startswith(_DROPS) or label in _ADDS_KEYS else named


def _object(ref: Any) -> tuple[Target, ...]:
    """The object whose privileges the request names, because they are dropped with it. Everything if it is unknown."""
    types = facts.enum("HiveObjectType")
    if ref is None or ref.objectType is None:
        return (ALL,)
    if ref.objectType == types["GLOBAL"]:
        return ()
    split = names.split_database(ref.dbName)
    database = None if split is None else names.read_name(split[1])
    if split is None or database is None:
        return (ALL,)
    catalog = (split[0] if ref.catName is None else ref.catName).lower()
    whole = targets.database(catalog, database)
    table = names.read_name(ref.objectName)
    if ref.objectType == types["DATABASE"]:
        return (whole,)
    return (ALL,) if table is None else (whole, targets.table(catalog, database, table))
