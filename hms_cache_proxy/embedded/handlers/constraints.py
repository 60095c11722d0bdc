"""Constraints: stored, never enforced.

Job: carry out the calls; rows/constraints.py has the rows. Source: ObjectStore of 4.2, and answers of a running one. An
exception that a method does not declare (InvalidObjectException for an absent table, column or constraint) is an
INTERNAL_ERROR, as in Hive. Owner: the thread of a call.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from hms_cache_proxy.embedded import events, names, quick_stats
from hms_cache_proxy.embedded.call import Call, reads, writes
from hms_cache_proxy.embedded.failures import internal, invalid_object, meta
from hms_cache_proxy.embedded.handlers import table_changes
from hms_cache_proxy.embedded.rows import constraints as rows
from hms_cache_proxy.embedded.rows import tables as table_rows
from hms_cache_proxy.embedded.rows.constraints import KINDS, ConstraintLayout
from hms_cache_proxy.embedded.values import as_json, new
from hms_cache_proxy.wire.spec import Struct

_EVENTS = {
    "primary": ("ADD_PRIMARYKEY", "primaryKeyListJson"),
    "unique": ("ADD_UNIQUECONSTRAINT", "uniqueConstraintListJson"),
    "not_null": ("ADD_NOTNULLCONSTRAINT", "notNullConstraintListJson"),
    "default": ("ADD_DEFAULTCONSTRAINT", "defaultConstraintListJson"),
    "check": ("ADD_CHECKCONSTRAINT", "checkConstraintListJson"),
}
_PREFIXES = {"primary": "pk", "unique": "uk", "not_null": "nn", "default": "dc", "check": "ck"}


def _table(call: Call, catalog: str | None, database: str, name: str) -> table_rows.StoredTable | None:
    found_catalog, found_database = names.both(database, catalog)
    return table_rows.find_table(call, found_catalog, found_database, names.fold(name))


def _exact_table(call: Call, catalog: str | None, database: str, name: str) -> table_rows.StoredTable | None:
    return table_rows.find_table(call, *names.exact(database, catalog), names.fold(name))


def _generated(prefix: str, number: int) -> str:
    return f"{prefix}_{random.randrange(1 << 30)}_{int(time.time() * 1000)}_{number}"


def _add(kind_name: str, field: str, call: Call, args: Struct) -> None:
    add(call, kind_name, getattr(args.req, field))


def add(call: Call, kind_name: str, elements: Sequence[Struct]) -> None:
    """Add constraints of one kind, each to the table that it names; one event, whose row names the first table."""
    if not elements:
        return
    kind = KINDS[kind_name]
    tables = [_constrained(call, element) for element in elements]
    for table_id, row in {row.table_id: row for row in tables}.items():
        mine = [each for each, of in zip(elements, tables, strict=True) if of.table_id == table_id]
        _must_be_free(call, kind_name, row, mine)
    made: dict[str, str] = {}
    for number, (element, row) in enumerate(zip(elements, tables, strict=True)):
        _insert(call, kind, row, element, partial(_name_for, made, kind_name, number))
    event, list_name = _EVENTS[kind_name]
    logged = [as_json(element) for element in elements]
    first = tables[0].table
    where = {"catalog": first.catName, "database": first.dbName, "table": first.tableName}
    events.log(call, event, {list_name: logged}, **where)


def _constrained(call: Call, element: Struct) -> table_rows.StoredTable:
    row = _table(call, element.catName, element.table_db, element.table_name)
    if row is None:
        raise invalid_object(f"Parent table not found: {element.table_name}")
    return row


def _must_be_free(call: Call, kind_name: str, row: table_rows.StoredTable, elements: Sequence[Struct]) -> None:
    """The table's primary key, if these are one, and the names of the constraints."""
    place = names.qualified(row.table.catName, row.table.dbName, row.table.tableName)
    if kind_name == "primary" and rows.has_primary_key(call, row.table_id):
        raise meta(f" Primary key already exists for: {place}")
    taken = {name for name in {getattr(each, KINDS[kind_name].name) for each in elements} if name}
    if any(rows.name_taken(call, name.lower(), row.table_id) for name in taken):
        raise invalid_object(f"Constraint name already exists: {', '.join(sorted(taken))}")


def _name_for(made: dict[str, str], kind_name: str, number: int) -> str:
    """The columns of a key share one generated name; each other constraint has its own."""
    if kind_name in ("primary", "unique"):
        return made.setdefault("", _generated(_PREFIXES[kind_name], number))
    return _generated(_PREFIXES[kind_name], number)


def _insert(
    call: Call, kind: ConstraintLayout, row: table_rows.StoredTable, element: Struct, generate: Callable[[], str]
) -> None:
    element.catName = row.table.catName
    element.table_db, element.table_name = row.table.dbName, row.table.tableName
    given = getattr(element, kind.name)
    setattr(element, kind.name, names.fold(given) if given else generate())
    column: str | None = element.column_name
    if column is None and kind.number == KINDS["check"].number:
        place: tuple[int | None, int] | None = (None, -1)  # it belongs to the whole table
    else:
        element.column_name = names.fold(column or "")
        place = rows.column_of(call, row, element.column_name)
    if place is None:
        raise invalid_object(f"Parent column not found: {column}")
    rows.insert_constraint(call, kind, row, place, element)


def add_foreign_key(call: Call, args: Struct) -> None:
    """Add foreign keys; one event, which names the table that they refer to."""
    add_foreign(call, args.req.foreignKeyCols)


def add_foreign(call: Call, keys: Sequence[Struct]) -> None:
    """The same, for keys."""
    if not keys:
        return
    generated = _generated("fk", 0)
    seen: set[str] = set()
    first_parent: table_rows.StoredTable | None = None
    for key in keys:
        child = _table(call, key.catName, key.fktable_db, key.fktable_name)
        parent = _table(call, key.catName, key.pktable_db, key.pktable_name)
        if child is None or parent is None:
            raise invalid_object(f"Table not found: {key.fktable_name if child is None else key.pktable_name}")
        first_parent = first_parent or parent
        key.fk_name = names.fold(key.fk_name) if key.fk_name else generated
        if key.fk_name not in seen and rows.name_taken(call, key.fk_name, child.table_id):
            raise invalid_object(f"Constraint name already exists: {key.fk_name}")
        seen.add(key.fk_name)
        places = rows.column_of(call, parent, key.pkcolumn_name), rows.column_of(call, child, key.fkcolumn_name)
        if places[0] is None or places[1] is None:
            raise invalid_object(f"Column not found: {key.pkcolumn_name} or {key.fkcolumn_name}")
        _must_be_a_key(call, parent, key)
        rows.insert_foreign_key(call, parent, child, (places[0], places[1]), key)
    assert first_parent is not None
    logged = [as_json(key) for key in keys]
    table = first_parent.table
    place = {"catalog": table.catName, "database": table.dbName, "table": table.tableName}
    events.log(call, "ADD_FOREIGNKEY", {"foreignKeyListJson": logged}, **place)


def _must_be_a_key(call: Call, parent: table_rows.StoredTable, key: Struct) -> None:
    possible = [*rows.read(call, KINDS["primary"], parent), *rows.read(call, KINDS["unique"], parent)]
    wanted = names.fold(key.pkcolumn_name)
    if any(each.column_name == wanted for each in possible):
        return
    types = {column.name: column.type for column in (*parent.table.sd.cols, *parent.table.partitionKeys)}
    listed = ", ".join(f"{each.column_name}:{types.get(each.column_name)};" for each in possible)
    raise meta(
        f"Foreign key references {wanted}:{types.get(wanted)}; but no corresponding primary key or unique key exists."
        f" Possible keys: [{listed}]"
    )


def drop_constraint(call: Call, args: Struct) -> None:
    """Drop a constraint of a table, or a foreign key on either side."""
    request = args.req
    row = _table(call, request.catName, request.dbname, request.tablename)
    name = names.fold(request.constraintname)
    if row is None or not rows.remove(call, row.table_id, name):
        raise invalid_object(f"The constraint: {name} does not exist for the associated table: {request.tablename}")
    fields = {"dbName": row.table.dbName, "tableName": row.table.tableName, "constraintName": request.constraintname}
    where = {"catalog": row.table.catName, "database": row.table.dbName, "table": row.table.tableName}
    events.log(call, "DROP_CONSTRAINT", fields, **where)


def _get(kind_name: str, response: str, field: str, call: Call, args: Struct) -> Struct:
    request = args.request
    if request.catName is None and kind_name != "primary":
        raise internal("the request has no catalog")
    row = _exact_table(call, request.catName, request.db_name, request.tbl_name)
    return new(response, **{field: [] if row is None else rows.read(call, KINDS[kind_name], row)})


def get_foreign_keys(call: Call, args: Struct) -> Struct:
    """Foreign keys of a table, those that refer to a table, or both."""
    request = args.request
    wanted = (
        (request.parent_db_name, request.parent_tbl_name),
        (request.foreign_db_name, request.foreign_tbl_name),
    )
    return new("ForeignKeysResponse", foreignKeys=_foreign(call, request.catName, *wanted))


_Side = tuple[str | None, str | None]


def _foreign(call: Call, catalog: str | None, parent_side: _Side, child_side: _Side) -> list[Struct]:
    found = []
    every = rows.foreign_keys(call)
    tables = {row.table_id: row for row in table_rows.numbered(call, _ids(every))}
    wanted_catalog = names.fold(catalog) if catalog else names.DEFAULT_CATALOG
    for each in every:
        parent, child = tables[each.PARENT_TBL_ID], tables[each.CHILD_TBL_ID]
        if child.table.catName != wanted_catalog:
            continue
        if _is(parent.table, parent_side) and _is(child.table, child_side):
            found.append(rows.foreign_key(call, each, parent, child))
    return found


def _ids(every: Sequence[Any]) -> list[int]:
    return sorted({each.PARENT_TBL_ID for each in every} | {each.CHILD_TBL_ID for each in every})


def _is(table: Struct, side: _Side) -> bool:
    """An empty name is one that nothing has."""
    pairs = zip(side, (table.dbName, table.tableName), strict=True)
    return all(name is None or names.fold(name) == own for name, own in pairs)


def get_all_table_constraints(call: Call, args: Struct) -> Struct:
    """All constraints of a table."""
    request = args.request
    row = _exact_table(call, request.catName, request.dbName, request.tblName)
    found = {kind: [] if row is None else rows.read(call, KINDS[kind], row) for kind in KINDS}
    side = (request.dbName, request.tblName)
    every = new(
        "SQLAllTableConstraints",
        primaryKeys=found["primary"],
        foreignKeys=[] if row is None else _foreign(call, request.catName, (None, None), side),
        uniqueConstraints=found["unique"],
        notNullConstraints=found["not_null"],
        defaultConstraints=found["default"],
        checkConstraints=found["check"],
    )
    return new("AllTableConstraintsResponse", allTableConstraints=every)


def create_table_with_constraints(call: Call, args: Struct) -> None:
    """Create a table and its constraints."""
    _create(call, args.tbl, args, {})


def create_table_req(call: Call, args: Struct) -> None:
    """The same by request, which has the processor's capabilities and may have constraints."""
    request = args.request
    properties = quick_stats.context(request.envContext)
    _create(call, request.table, request, {"properties": properties, "capabilities": request.processorCapabilities})


def _create(call: Call, table: Struct, given: Struct, options: dict[str, Any]) -> None:
    row = table_changes.create(call, table, **options)
    lists = {
        "primary": given.primaryKeys,
        "unique": given.uniqueConstraints,
        "not_null": given.notNullConstraints,
        "default": given.defaultConstraints,
        "check": given.checkConstraints,
    }
    for elements in (*lists.values(), given.foreignKeys):
        if elements and elements[0].catName is None:
            for element in elements:
                element.catName = row.table.catName
    for kind_name, elements in lists.items():
        for element in elements or () if kind_name != "primary" else ():  # that there is one already is told first
            _must_be_new(call, element, getattr(element, KINDS[kind_name].name), element.table_db, element.table_name)
        add(call, kind_name, elements or ())
    for key in given.foreignKeys or ():
        _must_be_new(call, key, key.fk_name, key.pktable_db, key.pktable_name)
    add_foreign(call, given.foreignKeys or ())


def _must_be_new(call: Call, element: Struct, name: str | None, database: str, table: str) -> None:
    """Of what comes with a table, Hive tells more. A foreign key's name is told with the table that it refers to."""
    row = _table(call, element.catName, database, table)
    if name and row is not None and rows.name_taken(call, name.lower(), row.table_id):
        place = f"{row.table.dbName}.{row.table.tableName}.{names.fold(name)}"
        raise invalid_object(f"Constraint name already exists: {place}")


METHODS = {
    **reads(
        get_primary_keys=partial(_get, "primary", "PrimaryKeysResponse", "primaryKeys"),
        get_unique_constraints=partial(_get, "unique", "UniqueConstraintsResponse", "uniqueConstraints"),
        get_not_null_constraints=partial(_get, "not_null", "NotNullConstraintsResponse", "notNullConstraints"),
        get_default_constraints=partial(_get, "default", "DefaultConstraintsResponse", "defaultConstraints"),
        get_check_constraints=partial(_get, "check", "CheckConstraintsResponse", "checkConstraints"),
        get_foreign_keys=get_foreign_keys,
        get_all_table_constraints=get_all_table_constraints,
    ),
    **writes(
        add_primary_key=partial(_add, "primary", "primaryKeyCols"),
        add_unique_constraint=partial(_add, "unique", "uniqueConstraintCols"),
        add_not_null_constraint=partial(_add, "not_null", "notNullConstraintCols"),
        add_default_constraint=partial(_add, "default", "defaultConstraintCols"),
        add_check_constraint=partial(_add, "check", "checkConstraintCols"),
        add_foreign_key=add_foreign_key,
        drop_constraint=drop_constraint,
        create_table_with_constraints=create_table_with_constraints,
        create_table_req=create_table_req,
    ),
}
