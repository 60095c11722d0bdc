"""Which kind of entry each read is in TTL mode, and what the calls about roles and privileges touch.

Job: one literal table over the methods of the method table (methods/table.py), whose rules tell what a read depends on
and what a write touches; roles and privileges, which that table leaves alone, have one target of their own here.
Must not know: requests, entries. Owner: any process; constants.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hms_cache_proxy.cache.targets import Target
from hms_cache_proxy.cache.ttl import Kind

ROLES: Final[Target] = b"R"
"""Roles, grants and privileges, all of them."""

_METHODS: Final[Mapping[Kind, str]] = {
    Kind.DATABASE: "get_database get_database_req get_catalog get_catalogs",
    Kind.DATABASE_NAMES: "get_all_databases get_databases get_databases_req",
    Kind.TABLE: "get_table get_table_req get_table_objects_by_name get_table_objects_by_name_req get_fields"
    " get_fields_req get_fields_with_environment_context get_schema get_schema_req"
    " get_schema_with_environment_context get_index_by_name get_index_names get_indexes",
    Kind.TABLE_NAMES: "get_all_tables get_tables get_tables_ext get_table_meta",
    Kind.VIEW_NAMES: "get_tables_by_type get_table_names_by_filter get_materialized_views_for_rewriting",
    Kind.PARTITION: "get_partition get_partition_req get_partition_by_name get_partition_with_auth get_partitions"
    " get_partitions_req get_partitions_with_auth get_partitions_pspec get_partitions_by_names"
    " get_partitions_by_names_req get_partitions_ps get_partitions_ps_with_auth get_partitions_ps_with_auth_req"
    " get_partitions_by_expr get_partitions_spec_by_expr get_partitions_with_specs get_partitions_by_filter"
    " get_partitions_by_filter_req get_part_specs_by_filter",
    Kind.PARTITION_NAMES: "get_partition_names fetch_partition_names_req get_partition_names_req get_partition_values",
    Kind.PARTITION_FILTER: "get_partition_names_ps get_partition_names_ps_req get_num_partitions_by_filter",
    Kind.TABLE_STATISTICS: "get_table_column_statistics get_table_statistics_req",
    Kind.PARTITION_STATISTICS: "get_partition_column_statistics get_partitions_statistics_req get_aggr_stats_for",
    Kind.CONSTRAINTS: "get_primary_keys get_unique_constraints get_not_null_constraints get_default_constraints"
    " get_check_constraints get_foreign_keys get_all_table_constraints",
    Kind.FUNCTIONS: "get_function get_functions get_functions_req get_all_functions",
    Kind.ROLES: "get_role_names get_principals_in_role",
    Kind.ROLE_GRANTS: "list_roles get_role_grants_for_principal",
    Kind.TABLE_PRIVILEGES: "list_privileges get_privilege_set",
}

KINDS: Final[Mapping[str, Kind]] = {name: kind for kind, names in _METHODS.items() for name in names.split()}
"""Kind by method. A read that is not here is always relayed."""

OF_ROLES: Final = frozenset({Kind.ROLES, Kind.ROLE_GRANTS, Kind.TABLE_PRIVILEGES})
ROLE_WRITES: Final = frozenset(
    "create_role drop_role grant_role revoke_role grant_revoke_role grant_privileges revoke_privileges"
    " grant_revoke_privileges refresh_privileges".split()
)
"""Writes that change roles or privileges."""
