"""The method table of the embedded metastore: which methods are served, by which handler.

It has all methods of Hive 4.2.0. Any other is answered as a method that does not exist (TApplicationException
UNKNOWN_METHOD, "Invalid method name"). docs/metastore.md is generated from this table.
"""

from __future__ import annotations

from hms_cache_proxy.embedded.call import ServedMethod
from hms_cache_proxy.embedded.handlers import (
    aggregates,
    catalogs,
    compactions,
    compactor,
    connectors,
    constraints,
    databases,
    exchange,
    functions,
    locks,
    log,
    part_specs,
    partition_changes,
    partition_drops,
    partition_names,
    partition_renames,
    partitions,
    plans,
    pools,
    privileges,
    procedures,
    rebuilds,
    registry,
    replays,
    replication,
    roles,
    runtime_stats,
    scheduled,
    server,
    statistics,
    table_changes,
    tables,
    tokens,
    transactions,
    truncates,
    types,
    write_notifications,
)

FAMILIES: dict[str, dict[str, ServedMethod]] = {
    "The server": server.METHODS,
    "Catalogs": catalogs.METHODS,
    "Databases": databases.METHODS,
    "Tables": {**tables.METHODS, **table_changes.METHODS, **truncates.METHODS},
    "Partitions": {
        **partitions.METHODS,
        **partition_names.METHODS,
        **part_specs.METHODS,
        **partition_changes.METHODS,
        **partition_renames.METHODS,
        **partition_drops.METHODS,
        **exchange.METHODS,
    },
    "Column statistics": {**statistics.METHODS, **aggregates.METHODS},
    "Statistics of queries, marks of partitions": runtime_stats.METHODS,
    "Constraints": constraints.METHODS,
    "Functions": functions.METHODS,
    "Types": types.METHODS,
    "Procedures and packages": procedures.METHODS,
    "Data connectors": connectors.METHODS,
    "Roles and privileges": {**roles.METHODS, **privileges.METHODS},
    "Delegation tokens": tokens.METHODS,
    "Notification log": log.METHODS,
    "Transactions and write ids": {**transactions.METHODS, **replays.METHODS, **write_notifications.METHODS},
    "Locks": {**locks.METHODS, **rebuilds.METHODS},
    "Compactions": {**compactions.METHODS, **compactor.METHODS},
    "Scheduled queries": scheduled.METHODS,
    "Replication": replication.METHODS,
    "Schema registry": registry.METHODS,
    "Resource plans": {**plans.METHODS, **pools.METHODS},
}
METHODS: dict[str, ServedMethod] = {name: method for family in FAMILIES.values() for name, method in family.items()}
