"""READERS: every reader, by method."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hms_cache_proxy.wire.spec import Struct

from . import (
    aggregates,
    columns,
    constraints,
    databases,
    expressions,
    filters,
    listings,
    part_specs,
    partition,
    partitions,
    statistics,
    tables,
)
from .base import Body, Context, Unfinished

Reader = Callable[[Context, Struct], Body | Unfinished]

_ALL: tuple[Reader, ...] = (
    aggregates.get_aggr_stats_for,
    columns.get_fields,
    columns.get_fields_req,
    columns.get_fields_with_environment_context,
    columns.get_schema,
    columns.get_schema_req,
    columns.get_schema_with_environment_context,
    constraints.get_all_table_constraints,
    constraints.get_check_constraints,
    constraints.get_default_constraints,
    constraints.get_foreign_keys,
    constraints.get_not_null_constraints,
    constraints.get_primary_keys,
    constraints.get_unique_constraints,
    databases.get_all_databases,
    databases.get_database,
    databases.get_database_req,
    databases.get_databases,
    expressions.get_partitions_by_expr,
    expressions.get_partitions_spec_by_expr,
    filters.get_num_partitions_by_filter,
    filters.get_partitions_by_filter,
    filters.get_partitions_by_filter_req,
    listings.get_all_tables,
    listings.get_table_meta,
    listings.get_tables,
    listings.get_tables_by_type,
    part_specs.get_part_specs_by_filter,
    partition.get_partition,
    partition.get_partition_by_name,
    partition.get_partition_req,
    partition.get_partition_with_auth,
    partitions.fetch_partition_names_req,
    partitions.get_partition_names,
    partitions.get_partition_names_ps,
    partitions.get_partition_names_ps_req,
    partitions.get_partition_names_req,
    partitions.get_partitions,
    partitions.get_partitions_by_names,
    partitions.get_partitions_by_names_req,
    partitions.get_partitions_ps,
    partitions.get_partitions_ps_with_auth,
    partitions.get_partitions_ps_with_auth_req,
    partitions.get_partitions_req,
    statistics.get_partition_column_statistics,
    statistics.get_partitions_statistics_req,
    statistics.get_table_column_statistics,
    statistics.get_table_statistics_req,
    tables.get_table,
    tables.get_table_objects_by_name,
    tables.get_table_objects_by_name_req,
    tables.get_table_req,
)

READERS: Mapping[str, Reader] = {reader.__name__: reader for reader in _ALL}
"""By method, which is the function's name."""
