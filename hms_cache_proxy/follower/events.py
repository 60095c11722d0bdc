"""Says what a row of the notification log affects.

Job: have one literal table: event type -> handler(row, message) -> Affected. A message is read only to learn which
objects are affected; the objects are then reloaded from the store, never patched. Must not know the store or the cache.

Invariants:
- `affects` never raises. For a type that is not in the table, or a message that cannot be read, it returns the
  narrowest thing that the row itself names (its table, else its database, else everything), with that result.
- A rename, a new location and changed columns write one ALTER_TABLE and no partition events, although they change the
  partitions. So `_alter_table` compares what can reach partitions. Source: Hive's HiveAlterHandler; with or without
  CASCADE, an alter changes partitions only when columns or the location change, or on a rename.
- Some changes have no row in any version: see docs/consistency.md.

Owner: the follower's process; pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal, TypeAlias

from hms_cache_proxy.cache import targets
from hms_cache_proxy.consistency.names import DEFAULT_CATALOG, write_name
from hms_cache_proxy.errors import WireError
from hms_cache_proxy.follower import messages
from hms_cache_proxy.follower.affected import NOTHING, UNKNOWN_WRITE, Affected, Announcement, PartitionNames
from hms_cache_proxy.follower.messages import Json
from hms_cache_proxy.store.protocol import DatabaseKey, EventRow, TableKey

EventResult: TypeAlias = Literal["applied", "ignored", "unknown", "poison"]
EventHandler: TypeAlias = Callable[[EventRow, Json], Affected]

_NO_DATABASE = b"null"  # Hive 3.1 stores these four letters in DB_NAME of transaction rows

# Field ids of the Thrift structs inside messages.
_TABLE_NAME, _TABLE_DATABASE, _TABLE_SD, _TABLE_KEYS, _TABLE_PARAMETERS, _TABLE_TYPE = 1, 2, 7, 8, 9, 12
_TABLE_CATALOG, _TABLE_ID = 17, 25
_SD_COLUMNS, _SD_LOCATION = 1, 2
_DATABASE_NAME, _DATABASE_CATALOG = 1, 8
_PARTITION_VALUES, _PARTITION_WRITE_ID = 1, 10
_ROW_FORMAT_PARAMETERS = ("transactional", "transactional_properties", "EXTERNAL")
"""Parameters of a table that change how a metastore returns its partitions."""


def affects(row: EventRow) -> tuple[Affected, EventResult]:
    """What this row affects, and how it was understood: the `result` label of hms_proxy_events_total."""
    handler = HANDLERS.get(row.type)
    if handler is None:
        return _narrowest(row), "unknown"
    if handler is _nothing:
        return NOTHING, "ignored"
    try:
        read = handler not in _ROW_ONLY
        message = messages.decode(row.message, row.message_format) if read else {}
        return _with_constraints(_with_writers(handler(row, message), message), row.type), "applied"
    except WireError:
        return _with_constraints(_narrowest(row), row.type), "poison"


def _with_constraints(affected: Affected, event_type: str) -> Affected:
    """A metastore drops constraints by name, in all tables: DROP_CONSTRAINT drops every constraint of that name,
    DROP_TABLE every constraint that has the name of one of the table's. No event names the other tables (tested: Hive
    4.0.0, 4.2.0)."""
    if event_type in _CONSTRAINED:
        return replace(affected, constrained=affected.tables)
    if event_type not in ("DROP_TABLE", "DROP_CONSTRAINT"):
        return affected
    touched = affected.targets | {targets.CONSTRAINTS}
    if event_type == "DROP_TABLE" and affected.tables:
        return replace(affected, dropped=affected.tables, targets=touched)
    return replace(affected, constraint_names=affected.constraint_names or frozenset({b""}), targets=touched)


def _with_writers(affected: Affected, message: Json) -> Affected:
    """Adds the write ids under which the tables were changed, if the message has them."""
    ids = [message.get("writeId")]
    transactional = "transactional" in str(message.get("tableObjJson"))
    if transactional and message.get("partitionListJson") is not None:
        for partition in messages.items(message, "partitionListJson"):
            struct = messages.thrift_object(partition, "partitionListJson")
            ids.append(messages.field(struct, _PARTITION_WRITE_ID, "i64"))
    written = frozenset((key, id_) for key in affected.tables for id_ in ids if isinstance(id_, int) and id_ > 0)
    return replace(affected, written=written) if written else affected


def _narrowest(row: EventRow) -> Affected:
    database = _row_database(row)
    if database is None or row.type == "ADD_FOREIGNKEY":  # only the message names the table that has the key
        return Affected(everything=True, targets=frozenset({targets.ALL}))
    table = write_name(row.table)
    if not table:
        return _whole_database(database)
    key = (*database, table)
    return Affected(
        tables=frozenset({key}),
        partitions={key: None},
        lists=frozenset({database}),
        written=frozenset({(key, UNKNOWN_WRITE)}),
        all_lists=row.type == "ALTER_TABLE",  # it may be a rename from another database
        targets=frozenset({targets.table(*key), targets.tables(*database)}),
    )


def _whole_database(database: DatabaseKey) -> Affected:
    return Affected(
        databases=frozenset({database}),
        lists=frozenset({database}),
        reload=frozenset({database}),
        targets=frozenset(
            {
                targets.database(*database),
                targets.tables(*database),
                targets.databases(database[0]),
            }
        ),
    )


# --- which table, which partitions --------------------------------------------------------------------------


def _catalog(raw: bytes | None) -> bytes:
    return write_name(raw) or DEFAULT_CATALOG


def _row_database(row: EventRow) -> DatabaseKey | None:
    database = write_name(row.database)
    if not database or (database == _NO_DATABASE and row.catalog is None):
        return None
    return _catalog(row.catalog), database


def _row_table(row: EventRow) -> TableKey:
    database, table = _row_database(row), write_name(row.table)
    if database is None or not table:
        raise WireError(f"a {row.type} row that names no table")
    return (*database, table)


def _named(row: EventRow, database: bytes, table: bytes, catalog: bytes | None = None) -> TableKey:
    """A table that the message names, in the row's catalog if it names none."""
    names = write_name(database), write_name(table)
    if not names[0] or not names[1]:
        raise WireError(f"a {row.type} message that names no table")
    return _catalog(catalog or row.catalog), names[0], names[1]


def _key_names(table: Json) -> list[bytes]:
    keys = messages.list_field(table, _TABLE_KEYS) or []
    names = [messages.string_field(key, 1) for key in keys if isinstance(key, dict)]
    return [name for name in names if name is not None]


def _values(partition: Json) -> list[bytes]:
    values = messages.list_field(partition, _PARTITION_VALUES)
    if values is None:
        raise WireError("a partition without values")
    return [messages.encoded(value, "partition value") for value in values]


def _mapped(mapping: object, keys: list[bytes] | None) -> bytes:
    """The name of a partition that is given as {key: value}, in the order of `keys`, else as written."""
    if not isinstance(mapping, dict):
        raise WireError("a partition that is no map")
    found = {messages.encoded(k, "key").lower(): messages.encoded(v, "partition value") for k, v in mapping.items()}
    order = list(found) if keys is None else [key.lower() for key in keys]
    if set(order) != set(found):
        raise WireError("a partition with other keys than its table")
    return messages.partition_name(order, [found[key] for key in order])


def _table_keys(message: Json) -> list[bytes] | None:
    """The partition keys in order, from the table in the message; None if it has no table (Hive 2.3)."""
    if message.get("tableObjJson") is None:
        return None
    return _key_names(messages.thrift(message, "tableObjJson"))


def _partitions(key: TableKey, names: PartitionNames) -> Affected:
    return Affected(tables=frozenset({key}), partitions={key: names}, targets=frozenset({targets.table(*key)}))


# --- handlers -----------------------------------------------------------------------------------------------


def _nothing(row: EventRow, message: Json) -> Affected:
    return NOTHING


def _table_object(row: EventRow, message: Json) -> Affected:
    key = _row_table(row)
    return Affected(tables=frozenset({key}), targets=frozenset({targets.table(*key)}))


def _drop_constraint(row: EventRow, message: Json) -> Affected:
    name = message.get("constraintName")
    names = frozenset({messages.encoded(name, "constraintName")}) if name else frozenset[bytes]()
    return replace(_table_object(row, message), constraint_names=names)


def _listed_table(row: EventRow, message: Json) -> Affected:
    """CREATE_TABLE, DROP_TABLE: a table that is dropped and created again also has new partitions."""
    key = _row_table(row)
    return Affected(
        tables=frozenset({key}),
        partitions={key: None},
        targets=frozenset({targets.table(*key), targets.tables(*key[:2])}),
    )


def _alter_table(row: EventRow, message: Json) -> Affected:
    before, after = (
        messages.thrift(message, "tableObjBeforeJson"),
        messages.thrift(message, "tableObjAfterJson"),
    )
    old, new = _object_name(row, before), _object_name(row, after)
    keys = frozenset({old, new, _row_table(row)})
    touched = frozenset(targets.table(*key) for key in keys)
    if len(keys) == 1 and _row_shape(before) == _row_shape(after):
        return Affected(tables=keys, targets=touched, announced=_announced(new, after, message))
    lists = frozenset(targets.tables(*key[:2]) for key in keys)
    renamed = ((old, new),) if old != new else ()
    return Affected(tables=keys, partitions=dict.fromkeys(keys), targets=touched | lists, renamed=renamed)


def _announced(key: TableKey, after: Json, message: Json) -> frozenset[Announcement]:
    """A truncation may be made after its row was logged (announced.py)."""
    if message.get("isTruncateOp") != "true":
        return frozenset()
    pairs = messages.map_field(after, _TABLE_PARAMETERS).items()
    found = frozenset((messages.encoded(name, "name"), messages.encoded(value, "value")) for name, value in pairs)
    return frozenset({(key, found)})


def _object_name(row: EventRow, table: Json) -> TableKey:
    database, name = messages.string_field(table, _TABLE_DATABASE), messages.string_field(table, _TABLE_NAME)
    catalog = messages.string_field(table, _TABLE_CATALOG) or row.catalog
    key = _catalog(catalog), write_name(database), write_name(name)
    if not key[1] or not key[2]:
        raise WireError("a table without a name")
    return key[0], key[1], key[2]


def _row_shape(table: Json) -> tuple[Any, ...]:
    """The parts of a table that reach its partitions. If they differ, all partitions are reloaded."""
    sd = messages.struct_field(table, _TABLE_SD) or {}
    parameters = messages.map_field(table, _TABLE_PARAMETERS)
    return (
        messages.list_field(sd, _SD_COLUMNS),
        messages.string_field(sd, _SD_LOCATION),
        _key_names(table),
        messages.string_field(table, _TABLE_TYPE),
        messages.field(table, _TABLE_ID, "i64"),
        *(str(parameters.get(name)).lower() for name in _ROW_FORMAT_PARAMETERS),
    )


def _mapped_partitions(row: EventRow, message: Json) -> Affected:
    """ADD_PARTITION, ALTER_PARTITIONS, DROP_PARTITION: `partitions` is a list of {key: value}."""
    keys = _table_keys(message)
    names = frozenset(_mapped(item, keys) for item in messages.items(message, "partitions"))
    return _partitions(_row_table(row), names)


def _alter_partition(row: EventRow, message: Json) -> Affected:
    """Names the partition before and after, because rename_partition changes the values."""
    keys = _table_keys(message)
    if keys is None:
        keys = [messages.encoded(key, "key") for key in messages.mapping(message, "keyValues")]
    both = ("partitionObjBeforeJson", "partitionObjAfterJson")
    names = [messages.partition_name(keys, _values(messages.thrift(message, side))) for side in both]
    return _partitions(_row_table(row), frozenset(names))


def _insert(row: EventRow, message: Json) -> Affected:
    key = _row_table(row)
    if message.get("ptnObjJson") is not None:
        values = _values(messages.thrift(message, "ptnObjJson"))
        return _partitions(key, frozenset({messages.partition_name(_table_keys(message) or [], values)}))
    mapping = message.get("partKeyVals")  # 2.3
    if mapping:
        return _partitions(key, frozenset({_mapped(mapping, None)}))
    return _partitions(key, frozenset())


def _partition_statistics(row: EventRow, message: Json) -> Affected:
    """Statistics change a parameter (COLUMN_STATS_ACCURATE) of the partition and, in some versions, of the table."""
    key, name = _row_table(row), message.get("partName")
    if name:
        return _partitions(key, frozenset({messages.encoded(name, "partName")}))
    keys = _table_keys(message)
    if keys is None:
        return _partitions(key, None)
    values = [messages.encoded(value, "partVals") for value in messages.items(message, "partVals")]
    return _partitions(key, frozenset({messages.partition_name(keys, values)}))


def _table_statistics(row: EventRow, message: Json) -> Affected:
    """The message is read only for its write id."""
    return _table_object(row, message)


def _statistics_of_many(row: EventRow, message: Json) -> Affected:
    key = _row_table(row)
    return replace(_partitions(key, None), written=frozenset({(key, UNKNOWN_WRITE)}))


def _all_partitions(row: EventRow, message: Json) -> Affected:
    return _partitions(_row_table(row), None)


def _reload(row: EventRow, message: Json) -> Affected:
    partition = message.get("ptnObjJson")
    keys = _table_keys(message)
    if partition is None or keys is None:
        return _partitions(_row_table(row), None)
    values = _values(messages.thrift_object(partition, "ptnObjJson"))
    return _partitions(_row_table(row), frozenset({messages.partition_name(keys, values)}))


def _compaction(row: EventRow, message: Json) -> Affected:
    key = _named(row, messages.text(message, "dbname"), messages.text(message, "tableName"))
    name = message.get("partName")
    names = frozenset({messages.encoded(name, "partName")}) if name else frozenset[bytes]()
    return _partitions(key, names)


_CONSTRAINED: Mapping[str, tuple[str, int, int, int]] = {
    "ADD_PRIMARYKEY": ("primaryKeyListJson", 9, 1, 2),
    "ADD_FOREIGNKEY": ("foreignKeyListJson", 15, 4, 5),
    "ADD_UNIQUECONSTRAINT": ("uniqueConstraintListJson", 1, 2, 3),
    "ADD_NOTNULLCONSTRAINT": ("notNullConstraintListJson", 1, 2, 3),
    "ADD_DEFAULTCONSTRAINT": ("defaultConstraintListJson", 1, 2, 3),
    "ADD_CHECKCONSTRAINT": ("checkConstraintListJson", 1, 2, 3),
}
"""By type: the list of constraints in the message; field ids of catalog, database and table in each."""


def _constraints(row: EventRow, message: Json) -> Affected:
    """The row names the table of the first constraint (of a foreign key: the referenced one), the message all of them,
    which one call may give to several tables."""
    keys = {_row_table(row)}
    name, *places = _CONSTRAINED[row.type]
    for item in messages.items(message, name):
        constraint = messages.thrift_object(item, name)
        catalog, database, table = (messages.string_field(constraint, place) for place in places)
        keys.add(_named(row, database or b"", table or b"", catalog))
    return Affected(tables=frozenset(keys), targets=frozenset(targets.table(*key) for key in keys))


def _database(row: EventRow, message: Json) -> Affected:
    database = _row_database(row)
    if database is None:
        raise WireError(f"a {row.type} row that names no database")
    return _databases(frozenset({database}), listed=True)


def _alter_database(row: EventRow, message: Json) -> Affected:
    database = _row_database(row)
    if database is None:
        raise WireError("an ALTER_DATABASE row that names no database")
    keys = {database}
    for side in ("dbObjBeforeJson", "dbObjAfterJson"):
        struct = messages.thrift(message, side)
        name = write_name(messages.string_field(struct, _DATABASE_NAME))
        catalog = messages.string_field(struct, _DATABASE_CATALOG)  # as the client sent it; may be absent
        if name:
            keys.add((database[0] if catalog is None else _catalog(catalog), name))
    return _databases(frozenset(keys), listed=len(keys) > 1)


def _databases(keys: frozenset[DatabaseKey], *, listed: bool) -> Affected:
    touched = {targets.database(*key) for key in keys}
    if listed:
        touched |= {targets.databases(key[0]) for key in keys}
        touched |= {targets.tables(*key) for key in keys}
    return Affected(databases=keys, lists=keys if listed else frozenset(), targets=frozenset(touched))


def _catalog_changed(row: EventRow, message: Json) -> Affected:
    catalog = _catalog(row.catalog)
    return Affected(all_lists=True, targets=frozenset({targets.databases(catalog), targets.CATALOGS}))


def _function(row: EventRow, message: Json) -> Affected:
    """Functions that are altered, or dropped with their database, write no event; their mark shows it."""
    return Affected(targets=frozenset({targets.FUNCTIONS}))


def _allocated(row: EventRow, message: Json) -> Affected:
    """The only type of row that tells which table a transaction writes."""
    key = _named(row, messages.text(message, "dbName"), messages.text(message, "tableName"))
    ids = [messages.whole(item, "txnIdList") for item in messages.items(message, "txnIdList")]
    return Affected(targets=frozenset({targets.table(*key)}), write_ids=frozenset((number, key) for number in ids))


def _ended(row: EventRow, message: Json) -> Affected:
    """A commit can set a parameter of a table and writes no other row, so the transaction's tables are reloaded."""
    return Affected(ended=frozenset({messages.integer(message, "txnid")}))


def _acid_write(row: EventRow, message: Json) -> Affected:
    key = _named(row, messages.text(message, "database"), messages.text(message, "table"))
    name = message.get("partition")
    names = frozenset({messages.encoded(name, "partition")}) if name else frozenset[bytes]()
    return _partitions(key, names)


_ROW_ONLY: frozenset[EventHandler] = frozenset(
    {_listed_table, _table_object, _all_partitions, _statistics_of_many, _database, _catalog_changed, _function}
)
"""Handlers that need only the row's own columns; their messages are not decoded."""

HANDLERS: dict[str, EventHandler] = {
    "CREATE_TABLE": _listed_table,
    "DROP_TABLE": _listed_table,
    "ALTER_TABLE": _alter_table,
    "ADD_PARTITION": _mapped_partitions,
    "DROP_PARTITION": _mapped_partitions,
    "ALTER_PARTITION": _alter_partition,
    "ALTER_PARTITIONS": _mapped_partitions,
    "INSERT": _insert,
    "RELOAD": _reload,
    "CREATE_DATABASE": _database,
    "DROP_DATABASE": _database,
    "ALTER_DATABASE": _alter_database,
    "CREATE_CATALOG": _catalog_changed,
    "ALTER_CATALOG": _catalog_changed,
    "DROP_CATALOG": _catalog_changed,
    "UPDATE_TBL_COL_STAT_EVENT": _table_statistics,
    "DELETE_TBL_COL_STAT_EVENT": _table_object,
    "UPDATE_PART_COL_STAT_EVENT": _partition_statistics,
    "DELETE_PART_COL_STAT_EVENT": _partition_statistics,
    "UPDATE_PART_COL_STAT_EVENT_BATCH": _statistics_of_many,
    **dict.fromkeys(_CONSTRAINED, _constraints),
    "DROP_CONSTRAINT": _drop_constraint,
    "CREATE_FUNCTION": _function,
    "DROP_FUNCTION": _function,
    "OPEN_TXN": _nothing,
    "ALLOC_WRITE_ID_EVENT": _allocated,
    "COMMIT_TXN": _ended,
    "ABORT_TXN": _ended,
    "ACID_WRITE_EVENT": _acid_write,
    "BATCH_ACID_WRITE_EVENT": _acid_write,
    "COMMIT_COMPACTION_EVENT": _compaction,
    "CREATE_ISCHEMA": _nothing,  # schema registry and connectors: relayed, never cached
    "ALTER_ISCHEMA": _nothing,
    "DROP_ISCHEMA": _nothing,
    "ADD_SCHEMA_VERSION": _nothing,
    "ALTER_SCHEMA_VERSION": _nothing,
    "DROP_SCHEMA_VERSION": _nothing,
    "CREATE_DATACONNECTOR": _nothing,
    "ALTER_DATACONNECTOR": _nothing,
    "DROP_DATACONNECTOR": _nothing,
}
"""Every event type of Hive 2.3 to 4.2. For other types, what the row's columns name is reloaded."""
