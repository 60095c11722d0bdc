"""The method table says what the cache does with every method of every known metastore.

Job: have one literal row for each method: its kind, what it touches (a write) or depends on (a read), whether a reader
answers it from objects, and whether the metastore's own reply may be kept. Docs and tests iterate over it.
Must not know: sockets, the cache's content, sessions.

Kinds:
- `read`: answered from the cache if that is proved to be equal, else relayed. Without rules its dependencies are
  unknown: it is relayed, and everything that its connection reads afterwards must be newer than its reply.
- `write`: the targets of its rules are fenced while it is in flight, and reloaded afterwards. Without rules it changes
  nothing that is answered from the cache (resource plans, schemas, stored procedures).
- `lock`: relayed; a granted lock fences what it locks.
- `transaction`: changes only transactional tables, whose readers bring a write id list. It is relayed; with rules, and
  if these name something, it is also a write.
- `session`: changes the state of its connection.
- `events`: returns event ids; the cache must have reached them before the next hit of any connection.
- `neutral`: none of these; relayed without any effect on what is cached.

A method that is not in the table is relayed, and treated as a write to everything.
Owner: any process; constants.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from . import shapes as s


class MethodKind(Enum):
    """What a call of a method means for the cache."""

    READ = "read"
    WRITE = "write"
    LOCK = "lock"
    TRANSACTION = "transaction"
    SESSION = "session"
    EVENTS = "events"
    NEUTRAL = "neutral"


@dataclass(frozen=True, slots=True)
class Method:
    """One row.

    `reads`: READERS (readers/registry.py) has it. `learn`: the metastore's reply may be kept. `logs`: a write that
    always logs an event when it succeeds; if the log does not grow after it, the metastore does not write a log.
    """

    name: str
    kind: MethodKind
    rules: tuple[s.Rule, ...] = ()
    reads: bool = False
    learn: bool = False
    logs: bool = False
    members: bool = False
    """It also depends on every table, or a kept reply on every database, in the listing that it depends on."""
    of_listing: bool = False
    """It shows only what the listing that it depends on says: which tables there are, their types, comments, owners."""
    silent_before_4: tuple[s.Rule, ...] = ()
    """The partitions that a write changes which no Hive before 4 logs (statistics of a table change none)."""
    silent_in_4: tuple[s.Rule, ...] = ()
    """Those that it may change which Hive 4 does not log either: their statistics, if it cannot merge them."""
    unlogged_before_4: bool = False
    """A read: before Hive 4, its answer changes without an event."""
    unlogged_in_2_3: bool = False
    """The same of Hive 2.3 only."""
    changes_nothing: bool = False
    """It only reads from the metastore, though it is of another kind than `read` and `events`."""

    @property
    def retry(self) -> bool:
        """May a call be sent again that has no reply? It may have been executed."""
        return self.changes_nothing or self.kind is MethodKind.READ or self.kind is MethodKind.EVENTS


def _read(name: str, *rules: s.Rule) -> Method:
    return Method(name, MethodKind.READ, rules)


def _learn(name: str, *rules: s.Rule) -> Method:
    return Method(name, MethodKind.READ, rules, learn=True)


def _learn_of_all(name: str, *rules: s.Rule) -> Method:
    return Method(name, MethodKind.READ, rules, learn=True, members=True)


def _serve(name: str, *rules: s.Rule) -> Method:
    return Method(name, MethodKind.READ, rules, reads=True, learn=True)


def _serve_statistics(name: str, *rules: s.Rule) -> Method:
    return Method(name, MethodKind.READ, rules, reads=True, learn=True, unlogged_before_4=True)


def _serve_keys(name: str, *rules: s.Rule) -> Method:
    return Method(name, MethodKind.READ, rules, reads=True, learn=True, unlogged_in_2_3=True)


def _serve_listing(name: str, *rules: s.Rule, members: bool = False) -> Method:
    return Method(name, MethodKind.READ, rules, reads=True, learn=True, members=members, of_listing=True)


def _write(name: str, *rules: s.Rule) -> Method:
    return Method(name, MethodKind.WRITE, rules)


def _logged(name: str, *rules: s.Rule) -> Method:
    return Method(name, MethodKind.WRITE, rules, logs=True)


def _some(kind: MethodKind, names: str) -> list[Method]:
    return [Method(name, kind) for name in names.split()]


def _only_read(kind: MethodKind, names: str) -> list[Method]:
    return [Method(name, kind, changes_nothing=True) for name in names.split()]


def _constraint(name: str, rows: str) -> Method:
    return _write(name, s.each(rows, s.table("table_db", "table_name", "catName"), mixed=True))


def _granted(bag: str) -> s.Rule:
    return s.each(f"{bag}.privileges", s.rights("hiveObject"))


def _foreign_keys(rows: str) -> tuple[s.Rule, ...]:
    return (
        s.each(rows, s.table("pktable_db", "pktable_name", "catName"), mixed=True),
        s.each(rows, s.table("fktable_db", "fktable_name", "catName"), mixed=True),
    )


def _created(name: str, table: str, of: str) -> Method:
    """A table is created with constraints, which may be of other tables. `of`: what is before the lists' names."""
    rules: list[s.Rule] = [s.whole_table(f"{table}.dbName", f"{table}.tableName", f"{table}.catName")]
    for kind in ("primaryKeys", "uniqueConstraints", "notNullConstraints", "defaultConstraints", "checkConstraints"):
        rules.append(s.constrained(of + kind, "table_db", "table_name", f"{table}.catName"))
    for side in ("pktable", "fktable"):
        rules.append(s.constrained(f"{of}foreignKeys", f"{side}_db", f"{side}_name", f"{table}.catName"))
    return _write(name, *rules)


def _statistics(name: str, stats: str) -> Method:
    rule = s.table(f"{stats}.dbName", f"{stats}.tableName", f"{stats}.catName")
    silent = s.partitions(f"{stats}.dbName", f"{stats}.tableName", f"{stats}.partName", f"{stats}.catName")
    return Method(name, MethodKind.WRITE, (rule,), silent_before_4=(silent,))


def _all_statistics(name: str, request: str, *, merges: bool = False) -> Method:
    rule = s.table("statsDesc.dbName", "statsDesc.tableName", "statsDesc.catName")
    silent = s.partitions("statsDesc.dbName", "statsDesc.tableName", "statsDesc.partName", "statsDesc.catName")
    every = f"{request}.colStats"
    before, spoiled = s.each(every, silent), s.each(every, silent, if_true=f"{request}.needMerge")
    in_4 = (spoiled,) if merges else ()
    return Method(name, MethodKind.WRITE, (s.each(every, rule),), silent_before_4=(before,), silent_in_4=in_4)


_PARTITION = s.table("dbName", "tableName", "catName")
_TABLE = s.table("db_name", "tbl_name")
_READ_TABLE = s.read_table("db_name", "tbl_name")
_READ_FIELDS = s.read_table("db_name", "table_name")
_REQ = s.read_table("req.dbName", "req.tblName", "req.catName")
_REQUEST = s.read_table("request.dbName", "request.tblName", "request.catName")
_CONSTRAINTS = s.read_table("request.db_name", "request.tbl_name", "request.catName")
_FOREIGN_KEYS = (
    s.read_table("request.foreign_db_name", "request.foreign_tbl_name", "request.catName"),
    s.read_table("request.parent_db_name", "request.parent_tbl_name", "request.catName"),
    s.everything_unless("request.foreign_db_name", "request.foreign_tbl_name"),
)
_ALTER_TABLE = s.rename(("dbname", "tbl_name", None), ("new_tbl.dbName", "new_tbl.tableName", "new_tbl.catName"))
_CREATE_TABLE = s.whole_table("tbl.dbName", "tbl.tableName", "tbl.catName")
_PART_OF = s.table("new_part.dbName", "new_part.tableName", "new_part.catName")
_COMMIT = (s.anything("rqst.keyValue.key", "rqst.replLastIdInfo.database"),)
_EXCHANGE = (s.table("source_db", "source_table_name"), s.table("dest_db", "dest_table_name"))

_ROWS: list[Method] = [
    # Catalogs and databases
    _learn("get_catalog", s.catalogs()),
    _learn("get_catalogs", s.catalogs()),
    _write("create_catalog", s.catalogs(), s.catalog("catalog.catalog.name")),
    _write("alter_catalog", s.catalogs()),
    _write("drop_catalog", s.catalogs(), s.catalog("catName.name")),
    _serve("get_all_databases", s.databases()),
    _serve("get_databases", s.databases("pattern")),
    _learn_of_all("get_databases_req", s.databases_of("request.catalogName", "request.pattern")),
    _serve("get_database", s.database("name")),
    _serve("get_database_req", s.database("request.name", "request.catalogName")),
    _logged("create_database", s.whole_database("database.name", "database.catalogName")),
    _write(
        "create_database_req",
        s.whole_database("createDatabaseRequest.databaseName", "createDatabaseRequest.catalogName"),
    ),
    _write("alter_database", s.database("dbname"), s.database("db.name", "db.catalogName")),
    _write(
        "alter_database_req",
        s.database("alterDbReq.oldDbName"),
        s.database("alterDbReq.newDb.name", "alterDbReq.newDb.catalogName"),
    ),
    _write("drop_database", s.whole_database("name"), s.functions()),
    _write("drop_database_req", s.whole_database("req.name", "req.catalogName"), s.functions()),
    # Data connectors: remote databases are never answered from the cache
    *_only_read(MethodKind.NEUTRAL, "get_dataconnector_req get_dataconnectors"),
    *_some(MethodKind.WRITE, "create_dataconnector create_dataconnector_req alter_dataconnector"),
    *_some(MethodKind.WRITE, "alter_dataconnector_req drop_dataconnector drop_dataconnector_req"),
    # Tables
    _serve_listing("get_all_tables", s.table_names("db_name")),
    _serve_listing("get_tables", s.table_names("db_name")),
    _serve_listing("get_tables_by_type", s.table_names("db_name"), members=True),
    _serve_listing("get_table_meta", s.matching("db_patterns"), members=True),
    _learn_of_all("get_tables_ext", s.table_names("req.database", "req.catalog")),
    _learn_of_all("get_table_names_by_filter", s.table_names("dbname")),
    _learn_of_all("get_materialized_views_for_rewriting", s.table_names("db_name")),
    _read("get_all_materialized_view_objects_for_rewriting"),
    _read("get_materialization_invalidation_info"),
    _serve("get_table", s.read_table("dbname", "tbl_name")),
    _serve("get_table_req", _REQ),
    _serve("get_table_objects_by_name", s.read_table("dbname", "tbl_names")),
    _serve(
        "get_table_objects_by_name_req",
        s.read_tables("req.dbName", "req.tblNames", "req.catName", "req.tablesPattern"),
    ),
    _read("translate_table_dryrun"),
    _logged("create_table", _CREATE_TABLE),
    _logged("create_table_with_environment_context", _CREATE_TABLE),
    _created("create_table_with_constraints", "tbl", ""),
    _created("create_table_req", "request.table", "request."),
    _logged("alter_table", _ALTER_TABLE),
    _write("alter_table_with_cascade", _ALTER_TABLE),
    _logged("alter_table_with_environment_context", _ALTER_TABLE),
    _logged(
        "alter_table_req",
        s.rename(
            ("req.dbName", "req.tableName", "req.catName"),
            ("req.table.dbName", "req.table.tableName", "req.table.catName"),
        ),
    ),
    _logged("drop_table", s.whole_table("dbname", "name")),
    _logged("drop_table_with_environment_context", s.whole_table("dbname", "name")),
    _write(
        "drop_table_req",
        s.whole_table("dropTableReq.dbName", "dropTableReq.tableName", "dropTableReq.catalogName"),
    ),
    _write(
        "truncate_table",
        s.table("dbName", "tableName"),
        s.partitions("dbName", "tableName", "partNames", none_is_all=True),
    ),
    _write(
        "truncate_table_req",
        s.table("req.dbName", "req.tableName"),
        s.partitions("req.dbName", "req.tableName", "req.partNames", none_is_all=True),
    ),
    _write("update_creation_metadata", s.table("dbname", "tbl_name", "catName")),
    # Partitions, read
    _serve("get_partition", _READ_TABLE),
    _serve("get_partition_req", _REQ),
    _serve("get_partition_with_auth", _READ_TABLE),
    _serve("get_partition_by_name", _READ_TABLE),
    _serve("get_partitions", _READ_TABLE),
    _serve("get_partitions_req", _REQ),
    _learn("get_partitions_with_auth", _READ_TABLE),
    _learn("get_partitions_pspec", _READ_TABLE),
    _serve("get_partition_names", _READ_TABLE),
    _serve(
        "fetch_partition_names_req",
        s.read_table("partitionReq.dbName", "partitionReq.tblName", "partitionReq.catName"),
    ),
    _serve("get_partition_names_req", _REQ),
    _serve("get_partition_names_ps", _READ_TABLE),
    _serve("get_partition_names_ps_req", _REQ),
    _serve("get_partitions_ps", _READ_TABLE),
    _serve("get_partitions_ps_with_auth", _READ_TABLE),
    _serve("get_partitions_ps_with_auth_req", _REQ),
    _serve("get_partitions_by_names", _READ_TABLE),
    _serve("get_partitions_by_names_req", s.read_table("req.db_name", "req.tbl_name")),
    _serve("get_partitions_by_filter", _READ_TABLE),
    _serve("get_partitions_by_filter_req", _REQ),
    _serve("get_part_specs_by_filter", _READ_TABLE),
    _serve("get_num_partitions_by_filter", _READ_TABLE),
    _serve("get_partitions_by_expr", _REQ),
    _serve("get_partitions_spec_by_expr", _REQ),
    _learn("get_partitions_with_specs", _REQUEST),
    _learn("get_partition_values", _REQUEST),
    _read("isPartitionMarkedForEvent"),
    # Partitions, written
    _logged("add_partition", _PART_OF),
    _write("add_partition_with_environment_context", _PART_OF),
    _write("add_partitions", s.each("new_parts", _PARTITION)),
    _write("add_partitions_pspec", s.each("new_parts", _PARTITION)),
    _write(
        "add_partitions_req",
        s.table("request.dbName", "request.tblName", "request.catName"),
        s.each("request.parts", _PARTITION),
    ),
    _write("append_partition", _TABLE),
    _write("append_partition_with_environment_context", _TABLE),
    _write("append_partition_by_name", _TABLE),
    _write("append_partition_by_name_with_environment_context", _TABLE),
    _write(
        "append_partition_req",
        s.table("appendPartitionsReq.dbName", "appendPartitionsReq.tableName", "appendPartitionsReq.catalogName"),
    ),
    _logged("alter_partition", _TABLE, _PART_OF),
    _write("alter_partition_with_environment_context", _TABLE, _PART_OF),
    _write("alter_partitions", _TABLE, s.each("new_parts", _PARTITION)),
    _write("alter_partitions_with_environment_context", _TABLE, s.each("new_parts", _PARTITION)),
    _write(
        "alter_partitions_req",
        s.table("req.dbName", "req.tableName", "req.catName"),
        s.each("req.partitions", _PARTITION),
    ),
    _logged("rename_partition", _TABLE, _PART_OF),
    _write(
        "rename_partition_req",
        s.table("req.dbName", "req.tableName", "req.catName"),
        s.table("req.newPart.dbName", "req.newPart.tableName", "req.newPart.catName"),
    ),
    _write("drop_partition", _TABLE),
    _write("drop_partition_with_environment_context", _TABLE),
    _write("drop_partition_by_name", _TABLE),
    _write("drop_partition_by_name_with_environment_context", _TABLE),
    _write(
        "drop_partition_req",
        s.table("dropPartitionReq.dbName", "dropPartitionReq.tblName", "dropPartitionReq.catName"),
    ),
    _write("drop_partitions_req", s.table("req.dbName", "req.tblName", "req.catName")),
    _write("exchange_partition", *_EXCHANGE),
    _write("exchange_partitions", *_EXCHANGE),
    _write("markPartitionForEvent", _TABLE),
    # Columns
    _serve("get_fields", _READ_FIELDS),
    _serve("get_fields_with_environment_context", _READ_FIELDS),
    _serve("get_fields_req", _REQ),
    _serve("get_schema", _READ_FIELDS),
    _serve("get_schema_with_environment_context", _READ_FIELDS),
    _serve("get_schema_req", _REQ),
    # Statistics
    _serve_statistics("get_table_column_statistics", _READ_TABLE),
    _serve_statistics("get_partition_column_statistics", _READ_TABLE),
    _serve_statistics("get_table_statistics_req", _REQUEST),
    _serve_statistics("get_partitions_statistics_req", _REQUEST),
    _serve_statistics("get_aggr_stats_for", _REQUEST),
    _statistics("update_table_column_statistics", "stats_obj.statsDesc"),
    _statistics("update_partition_column_statistics", "stats_obj.statsDesc"),
    _all_statistics("update_table_column_statistics_req", "req"),
    _all_statistics("update_partition_column_statistics_req", "req"),
    _all_statistics("set_aggr_stats_for", "request", merges=True),
    _write("delete_table_column_statistics", _TABLE),
    Method(
        "delete_partition_column_statistics",
        MethodKind.WRITE,
        (_TABLE,),
        silent_before_4=(s.partitions("db_name", "tbl_name", "part_name"),),
    ),
    _write("delete_column_statistics_req", s.table("req.db_name", "req.tbl_name", "req.cat_name")),
    # Constraints
    _serve_keys("get_primary_keys", _CONSTRAINTS),
    _serve("get_unique_constraints", _CONSTRAINTS),
    _serve("get_not_null_constraints", _CONSTRAINTS),
    _serve("get_default_constraints", _CONSTRAINTS),
    _serve("get_check_constraints", _CONSTRAINTS),
    _serve("get_all_table_constraints", _REQUEST),
    _serve_keys("get_foreign_keys", *_FOREIGN_KEYS),
    _constraint("add_primary_key", "req.primaryKeyCols"),
    _constraint("add_unique_constraint", "req.uniqueConstraintCols"),
    _constraint("add_not_null_constraint", "req.notNullConstraintCols"),
    _constraint("add_default_constraint", "req.defaultConstraintCols"),
    _constraint("add_check_constraint", "req.checkConstraintCols"),
    _write("add_foreign_key", *_foreign_keys("req.foreignKeyCols")),
    _write("drop_constraint", s.table("req.dbname", "req.tablename", "req.catName")),
    # Indexes (2.3 only)
    _learn("get_index_by_name", _READ_TABLE),
    _learn("get_index_names", _READ_TABLE),
    _learn("get_indexes", _READ_TABLE),
    _write(
        "add_index",
        s.table("new_index.dbName", "new_index.origTableName"),
        s.whole_table("index_table.dbName", "index_table.tableName"),
    ),
    _write(
        "alter_index",
        s.table("dbname", "base_tbl_name"),
        s.table("new_idx.dbName", "new_idx.origTableName"),
        s.table("new_idx.dbName", "new_idx.indexTableName"),
    ),
    _write("drop_index_by_name", s.everything()),  # its index table has another name, which the request does not tell
    # Functions: alter_function logs nothing, which does not matter where every step can look at their rows
    _learn("get_function", s.functions(), s.database("dbName")),
    _learn("get_functions", s.functions(), s.database("dbName")),
    _learn("get_functions_req", s.functions(), s.database("request.dbName", "request.catalogName")),
    _learn("get_all_functions", s.functions()),
    _write("create_function", s.functions()),
    _write("alter_function", s.functions()),
    _write("drop_function", s.functions()),
    # Locks
    Method("lock", MethodKind.LOCK, (s.each("rqst.component", s.locked("dbname", "tablename"), mixed=True),)),
    *_some(MethodKind.LOCK, "check_lock unlock"),
    # Transactions: their readers bring write id lists; a commit can change more than transactional tables
    Method("commit_txn", MethodKind.TRANSACTION, _COMMIT),
    *_only_read(MethodKind.TRANSACTION, "get_open_txns get_open_txns_req get_open_txns_info get_valid_write_ids"),
    *_only_read(MethodKind.TRANSACTION, "get_max_allocated_table_write_id get_latest_txnid_in_conflict"),
    *_only_read(MethodKind.TRANSACTION, "get_all_write_event_info get_replayed_txns_for_policy"),
    *_some(MethodKind.TRANSACTION, "open_txns abort_txn abort_txns allocate_table_write_ids seed_txn_id"),
    *_some(MethodKind.TRANSACTION, "seed_write_id repl_tbl_writeid_state add_write_ids_to_min_history"),
    *_some(MethodKind.TRANSACTION, "add_dynamic_partitions add_write_notification_log"),
    *_some(MethodKind.TRANSACTION, "add_write_notification_log_in_batch get_lock_materialization_rebuild"),
    *_some(MethodKind.TRANSACTION, "heartbeat_lock_materialization_rebuild"),
    *_only_read(MethodKind.NEUTRAL, "show_locks"),
    *_some(MethodKind.NEUTRAL, "heartbeat heartbeat_txn_range"),
    # Compaction: of transactional tables only
    *_some(MethodKind.TRANSACTION, "compact compact2 abort_Compactions find_next_compact find_next_compact2"),
    *_some(MethodKind.TRANSACTION, "mark_cleaned mark_compacted mark_failed mark_refused set_hadoop_jobid"),
    *_some(MethodKind.TRANSACTION, "submit_for_cleanup update_compactor_state update_transaction_statistics"),
    *_only_read(MethodKind.NEUTRAL, "show_compact find_columns_with_stats get_latest_committed_compaction_info"),
    *_some(MethodKind.TRANSACTION, "update_compaction_metrics_data remove_compaction_metrics_data"),
    # Notifications
    *_some(MethodKind.EVENTS, "get_next_notification get_current_notificationEventId get_notification_events_count"),
    _write("fire_listener_event", s.table("rqst.dbName", "rqst.tableName", "rqst.catName")),
    # Sessions
    *_some(MethodKind.SESSION, "set_ugi setMetaConf"),
    *_only_read(MethodKind.NEUTRAL, "getMetaConf get_config_value get_metastore_db_uuid"),
    *_some(MethodKind.NEUTRAL, "flushCache"),
    # Roles and privileges: never served from the cache, but answers that are kept per user depend on them
    _write("create_role", s.roles(), s.wide_rights()),
    _write("drop_role", s.roles(), s.wide_rights()),
    _write("grant_role", s.roles(), s.wide_rights()),
    _write("revoke_role", s.roles(), s.wide_rights()),
    _write("grant_revoke_role", s.roles(), s.wide_rights()),
    _write("grant_privileges", s.roles(), _granted("privileges")),
    _write("revoke_privileges", s.roles(), _granted("privileges")),
    _write("grant_revoke_privileges", s.roles(), _granted("request.privileges")),
    _write("refresh_privileges", s.roles(), s.rights("objToRefresh"), _granted("grantRequest.privileges")),
    *_only_read(MethodKind.NEUTRAL, "get_role_names list_roles get_principals_in_role list_privileges"),
    *_only_read(MethodKind.NEUTRAL, "get_role_grants_for_principal get_privilege_set"),
    # Delegation tokens and master keys
    *_only_read(MethodKind.NEUTRAL, "get_token get_all_token_identifiers get_master_keys"),
    *_some(MethodKind.NEUTRAL, "get_delegation_token renew_delegation_token cancel_delegation_token"),
    *_some(MethodKind.NEUTRAL, "add_token remove_token"),
    *_some(MethodKind.NEUTRAL, "add_master_key update_master_key remove_master_key"),
    # Types
    *_only_read(MethodKind.NEUTRAL, "get_type get_type_all"),
    *_some(MethodKind.WRITE, "create_type drop_type"),
    # File metadata
    *_only_read(MethodKind.NEUTRAL, "get_file_metadata get_file_metadata_by_expr"),
    *_some(MethodKind.NEUTRAL, "put_file_metadata clear_file_metadata cache_file_metadata"),
    _write("cm_recycle"),  # moves files
    # Names of partitions, computed
    *_only_read(MethodKind.NEUTRAL, "partition_name_has_valid_characters partition_name_to_spec"),
    *_only_read(MethodKind.NEUTRAL, "partition_name_to_vals"),
    # Workload management
    *_only_read(MethodKind.NEUTRAL, "get_active_resource_plan get_all_resource_plans get_resource_plan"),
    *_only_read(MethodKind.NEUTRAL, "get_triggers_for_resourceplan validate_resource_plan"),
    *_some(MethodKind.WRITE, "create_resource_plan alter_resource_plan drop_resource_plan"),
    *_some(MethodKind.WRITE, "create_wm_pool alter_wm_pool drop_wm_pool create_wm_trigger alter_wm_trigger"),
    *_some(MethodKind.WRITE, "drop_wm_trigger create_or_update_wm_mapping drop_wm_mapping"),
    *_some(MethodKind.WRITE, "create_or_drop_wm_trigger_to_pool_mapping"),
    # Schema registry
    *_only_read(MethodKind.NEUTRAL, "get_ischema get_schema_version get_schema_latest_version get_schemas_by_cols"),
    *_only_read(MethodKind.NEUTRAL, "get_schema_all_versions get_serde"),
    *_some(MethodKind.WRITE, "create_ischema alter_ischema drop_ischema add_schema_version add_serde"),
    *_some(MethodKind.WRITE, "drop_schema_version map_schema_version_to_serde set_schema_version_state"),
    # Stored procedures, packages, properties, scheduled queries, metrics
    *_only_read(MethodKind.NEUTRAL, "get_stored_procedure get_all_stored_procedures find_package get_all_packages"),
    *_some(MethodKind.WRITE, "create_stored_procedure drop_stored_procedure add_package drop_package"),
    *_only_read(MethodKind.NEUTRAL, "get_properties get_scheduled_query get_runtime_stats get_replication_metrics"),
    *_some(MethodKind.WRITE, "set_properties scheduled_query_maintenance scheduled_query_progress"),
    _write("scheduled_query_poll"),  # starts the query that it returns
    *_some(MethodKind.WRITE, "add_runtime_stats add_replication_metrics"),
    # fb303
    *_only_read(MethodKind.NEUTRAL, "aliveSince getCounter getCounters getCpuProfile getName getOption"),
    *_only_read(MethodKind.NEUTRAL, "getOptions getStatus getStatusDetails getVersion"),
    *_some(MethodKind.NEUTRAL, "reinitialize setOption shutdown"),
]

METHODS: Mapping[str, Method] = {row.name: row for row in _ROWS}
assert len(METHODS) == len(_ROWS), "a method has two rows"

OTHER_LABEL = "other"
"""Metric label of all methods that are not in the table: clients must not be able to make labels."""
