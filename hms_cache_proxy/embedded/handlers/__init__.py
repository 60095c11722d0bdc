"""The method table of the embedded metastore: which methods are served, by which handler.

A method that is in no module's table is answered as one that does not exist (TApplicationException UNKNOWN_METHOD,
"Invalid method name"). docs/metastore.md is generated from this.
"""

from __future__ import annotations

from hms_cache_proxy.embedded.call import Method
from hms_cache_proxy.embedded.handlers import (
    catalogs,
    constraints,
    databases,
    functions,
    locks,
    log,
    partition_changes,
    partitions,
    server,
    statistics,
    table_changes,
    tables,
    transactions,
)

FAMILIES: dict[str, dict[str, Method]] = {
    "The server": server.METHODS,
    "Catalogs": catalogs.METHODS,
    "Databases": databases.METHODS,
    "Tables": {**tables.METHODS, **table_changes.METHODS},
    "Partitions": {**partitions.METHODS, **partition_changes.METHODS},
    "Column statistics": statistics.METHODS,
    "Constraints": constraints.METHODS,
    "Functions": functions.METHODS,
    "Notification log": log.METHODS,
    "Transactions and write ids": transactions.METHODS,
    "Locks": locks.METHODS,
}
METHODS: dict[str, Method] = {name: method for family in FAMILIES.values() for name, method in family.items()}
