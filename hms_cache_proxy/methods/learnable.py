"""Decides which of the metastore's own replies may be kept.

Job: for a read whose answer is not built here, decide whether the cache notices every change of what it depends on, and
whether its request proves what transactional tables need (proof.py). Must not know: replies, sessions. Owner: the
worker's loop; no state.
"""

from __future__ import annotations

from collections.abc import Callable

from hms_cache_proxy.cache import targets
from hms_cache_proxy.cache.entries import ABSENT, TableEntry
from hms_cache_proxy.cache.snapshot import CacheSnapshot
from hms_cache_proxy.consistency.gate import Authorization, Reason
from hms_cache_proxy.upstream.serdes import SINCE_4

from .proof import Proof
from .readers.partition import PRIVILEGES_PER_PARTITION
from .table import Method

LEARNABLE = frozenset(
    {
        Reason.NO_READER,
        Reason.ARGUMENTS,
        Reason.AUTHORIZATION,
        Reason.CAPABILITIES,
        Reason.COLLATION,
        Reason.EXPRESSION_NAMES,
        Reason.EXPRESSION_PUSHED,
        Reason.FILTER,
        Reason.FOREIGN_KEYS,
        Reason.FILTER_LIKE,
        Reason.LOCATION,
        Reason.ORDER,
        Reason.PATTERN,
        Reason.SETTINGS,
        Reason.STATISTICS,
        Reason.RELEASE,
        Reason.VARIANT,
    }
)
"""Reasons that mean that the answer is not reproduced here. The others mean that the cache may be older than it."""

MAX_MEMBERS = 2_000
"""Databases whose versions are compared for one kept reply (0.5 us each)."""

_NAMES_PARENTS = ("get_all_table_constraints", "get_foreign_keys")
"""They name the tables that a table refers to. When such a table is renamed, nothing changes at the table itself."""

_COLUMNS = ("get_fields", "get_schema")
"""They use only the part of a table's name before a dot, and ask unusual serdes, which may read files."""


def may_learn(snapshot: CacheSnapshot, method: str, depends: tuple[bytes, ...]) -> bool:
    """Does every change of what the read depends on raise the version of one of these targets?"""
    if method == "get_table_meta" and not snapshot.identity.hive_line.startswith("4."):
        return False  # the database is a pattern; how earlier releases read `_` in it was not tested
    if method == "get_table_objects_by_name_req" and any(map(targets.is_members, depends)):
        return False  # it names tables by a pattern, so whether each of them may be kept is not known
    return all(_followed(snapshot, method, dependency) for dependency in depends)


def unlogged(snapshot: CacheSnapshot, method: Method) -> bool:
    """Does this metastore change what the method answers without an event?"""
    line = snapshot.identity.hive_line
    return (method.unlogged_before_4 and not line.startswith("4.")) or (method.unlogged_in_2_3 and line == "2.3")


def members(snapshot: CacheSnapshot, depends: tuple[bytes, ...]) -> tuple[bytes, ...] | None:
    """Targets for the members of the listings among these targets: if a table or database is altered, the method may
    list it or no longer list it. None if there are too many databases, or a table is not followed.
    """
    found = databases(snapshot, depends)
    if found is None or len(found) > MAX_MEMBERS or not all(_followed(snapshot, "", target) for target in found):
        return None
    for catalog, database in targets.listed_databases(depends):
        if not snapshot.all_loaded(catalog, database):
            return None
        found.append(targets.members(catalog, database))
    return tuple(found)


def databases(snapshot: CacheSnapshot, depends: tuple[bytes, ...]) -> list[bytes] | None:
    """Targets for the databases of the catalogs whose lists are among these targets; None if a list is not complete."""
    found: list[bytes] = []
    for catalog in targets.listed_catalogs(depends):
        names = snapshot.database_list(catalog)
        if names is None:
            return None
        found += [targets.database(catalog, name) for name in names]
    return found


def of_members(method: Method, authorization: Authorization) -> bool:
    """Does a listing depend on all of what it lists? What decides what a user sees may look at all of it."""
    return method.members or authorization != "none"


def lasting(method: Method, authorization: Authorization, depends: tuple[bytes, ...]) -> tuple[bytes, ...] | None:
    """What a kept listing depends on once it agrees with the cache (targets.lasting); None: on the same as before, as
    where users see different things."""
    return targets.lasting(depends) if method.of_listing and authorization == "none" else None


def _followed(snapshot: CacheSnapshot, method: str, dependency: bytes) -> bool:
    if not dependency.isascii():
        return False
    kind, parts = targets.kind_of(dependency), targets.names_in(dependency)
    if kind == targets.DATABASE_KIND and len(parts) == 2:
        database = snapshot.database(parts[0], parts[1])
        return database is ABSENT or (database is not None and not database.remote)
    if kind == targets.TABLE_KIND and len(parts) == 3:
        return _table_followed(snapshot, method, parts)
    if kind == targets.MEMBERS_KIND and len(parts) == 2:
        return snapshot.all_loaded(parts[0], parts[1])
    listing = kind in (targets.DATABASES_KIND, targets.TABLES_KIND)
    return (listing or dependency in targets.MARKED) and snapshot.complete(dependency)


def dropped_elsewhere(snapshot: CacheSnapshot, method: str, depends: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """What an answer also depends on where the cache does not know a table's constraints. Hive drops constraints by
    name: with one it drops others of the same name, and logs only the one."""
    if not method.endswith(("_constraints", "_primary_keys")):
        return ()
    for catalog, database, name in targets.table_names(depends):
        entry = snapshot.table(catalog, database, name)
        if not isinstance(entry, TableEntry) or not entry.constraints_known:
            return (targets.CONSTRAINTS,)
    return ()


def parents(snapshot: CacheSnapshot, method: str, depends: tuple[bytes, ...]) -> tuple[bytes, ...] | None:
    """The tables to which foreign keys of these tables refer, as the answer names them, and their databases, which may
    be dropped with all of their tables; and the target of constraints, because a foreign key may be dropped with a
    constraint of the same name. None if a table is not known."""
    found: list[bytes] = []
    for catalog, database, name in targets.table_names(depends) if method in _NAMES_PARENTS else ():
        entry = snapshot.table(catalog, database, name)
        constraints = snapshot.constraints(entry) if isinstance(entry, TableEntry) else None
        for parent in constraints.parents if constraints else ():
            named = snapshot.constrained(parent)
            if named is None:
                return None
            found += [*named.targets, targets.CONSTRAINTS]
    return tuple(found)


def lacking(snapshot: CacheSnapshot, depends: tuple[bytes, ...], proof: Callable[[], Proof]) -> Reason | None:
    """Why a read may not be answered as of this snapshot for these targets; None if it may. The reasons: transactional
    tables, tables that the client knows under another id, changes without events. `proof` reads the request. Raises
    Rejected."""
    for dependency in depends:
        if dependency in targets.MARKED and not snapshot.complete(dependency):
            return Reason.UNLOGGED
        parts = targets.names_in(dependency)
        if targets.kind_of(dependency) == targets.TABLE_KIND and len(parts) == 3:
            entry = snapshot.table(parts[0], parts[1], parts[2])
            if entry is None:
                continue
            if proof().names_another(entry):
                return Reason.TABLE_ID
            reason = proof().lacks(entry) if isinstance(entry, TableEntry) and entry.transactional else None
            if reason is not None:
                return reason
    return None


def _table_followed(snapshot: CacheSnapshot, method: str, names: list[bytes]) -> bool:
    if b"." in names[2] and method.startswith(_COLUMNS):
        return False
    entry = snapshot.table(names[0], names[1], names[2])
    if entry is None:
        return False
    if entry is ABSENT:
        return True
    if entry.body is None or entry.materialized_view:
        return False
    if method in _NAMES_PARENTS and snapshot.constraints(entry) is None:
        return False
    if PRIVILEGES_PER_PARTITION in entry.body or (entry.partition_keys and not entry.partitions_loaded):
        return False
    return not method.startswith(_COLUMNS) or any(serde in entry.body for serde in SINCE_4)
