"""Which calls are recorded: a list of allowed methods; all others are left out.

Job: allow every read of the method table, and by name some calls that have other kinds there because they concern no
cached object. Some calls are left out although they only read: delegation tokens and master keys; settings
(get_config_value, getMetaConf), data connectors and properties, which may contain passwords; the actions of other users
(get_open_txns_info, show_locks, show_compact); notification events. Owner: any process; constants.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from hms_cache_proxy.methods.table import METHODS, MethodKind
from hms_cache_proxy.wire import facts

ALLOWED_KINDS: Final = frozenset({MethodKind.READ})

ALSO_ALLOWED: Final = frozenset(
    # a planner's calls about the server, transactions, roles, and statistics
    "getVersion getName getStatus getStatusDetails aliveSince get_metastore_db_uuid"
    " get_open_txns get_open_txns_req get_valid_write_ids get_max_allocated_table_write_id"
    " get_role_names list_roles get_principals_in_role get_role_grants_for_principal list_privileges get_privilege_set"
    " get_type get_type_all partition_name_has_valid_characters partition_name_to_spec partition_name_to_vals"
    " get_active_resource_plan get_all_resource_plans get_resource_plan get_triggers_for_resourceplan"
    " get_ischema get_schema_version get_schema_latest_version get_schemas_by_cols get_schema_all_versions get_serde"
    " get_stored_procedure get_all_stored_procedures find_package get_all_packages get_runtime_stats".split()
)
"""Calls of the kinds `neutral` and `transaction` that only read."""

ALLOWED: Final = frozenset(
    name.encode() for name, row in METHODS.items() if row.kind in ALLOWED_KINDS or name in ALSO_ALLOWED
)
"""Names of all methods whose results are recorded."""

LISTS: Final = ("validWriteIdList", "validTxnList")
TABLE_IDS: Final = ("id", "tableId")


@cache
def bears_lists(method: str) -> tuple[str, ...]:
    """Arguments of `method` that may say which transactions the client sees: a list, or a struct with one."""
    return tuple(
        row.name
        for row in facts.METHODS[method].args
        if row.name in LISTS
        or (row.type in facts.STRUCTS and not {f.name for f in facts.fields(row.type)}.isdisjoint(LISTS))
    )
