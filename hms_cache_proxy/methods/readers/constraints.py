"""Readers of constraints.

Job: make the result struct of a request from its arguments and a snapshot; base.py says what is declined. Must not
know: sessions, fences.

For a table or database that does not exist, a metastore answers that it has no constraints. Its lists have no order (no
ORDER BY, and two equal calls differ); here they are in the order of names, and the columns of each constraint are in
the order of the key (key_seq).

A foreign key shows names of the table that it refers to, its parent. So the answer is built from both tables and
depends on both. If this is not possible, because the parent is not cached or was altered since, the metastore's own
answer is kept until one of them changes (learnable.py).

Owner: the worker's loop.
"""

from __future__ import annotations

from struct import Struct as Packer
from typing import Final

from hms_cache_proxy.cache import targets
from hms_cache_proxy.cache.attachments import UNCONSTRAINED, ConstraintsEntry
from hms_cache_proxy.consistency.gate import Reason
from hms_cache_proxy.consistency.names import read_name
from hms_cache_proxy.store.foreign_keys import Parent, foreign_keys, key_columns, known, shown
from hms_cache_proxy.store.protocol import ConstraintKind
from hms_cache_proxy.wire.spec import Struct

from .base import Body, Context, Decline, wrapped_struct, wrapped_structs

_LIST: Final = Packer("!bhbi")  # a field of type list: 15, its number, the elements' type, their number
_LIST_OF_STRUCTS: Final = (15, 12)
_ALL_FIELDS: Final = range(1, 7)


def get_primary_keys(context: Context, args: Struct) -> Body:
    """By request; the only one of the five that need not name a catalog."""
    return _of_kind(context, args.request, ConstraintKind.PRIMARY_KEY, named=False)


def get_unique_constraints(context: Context, args: Struct) -> Body:
    """By request."""
    return _of_kind(context, args.request, ConstraintKind.UNIQUE)


def get_not_null_constraints(context: Context, args: Struct) -> Body:
    """By request."""
    return _of_kind(context, args.request, ConstraintKind.NOT_NULL)


def get_default_constraints(context: Context, args: Struct) -> Body:
    """By request."""
    _logged(context)
    return _of_kind(context, args.request, ConstraintKind.DEFAULT)


def get_check_constraints(context: Context, args: Struct) -> Body:
    """By request."""
    _logged(context)
    return _of_kind(context, args.request, ConstraintKind.CHECK)


def get_foreign_keys(context: Context, args: Struct) -> Body:
    """Of the table that has the keys, those that refer to the parent that the request names, if it names one."""
    request = args.request
    if request is None:
        raise Decline(Reason.ARGUMENTS)
    found = _constraints(context, request.catName, request.foreign_db_name, request.foreign_tbl_name)
    names = request.parent_db_name, request.parent_tbl_name
    wanted = tuple(None if name is None else read_name(name) for name in names)
    if any(name is not None and one is None for name, one in zip(names, wanted, strict=True)):
        raise Decline(Reason.NAME)
    context.comparable(*(one for one in wanted if one))
    shown = [
        element
        for element, parent in _foreign_keys(context, found)
        if wanted[0] in (None, parent.database) and wanted[1] in (None, parent.table)
    ]
    return wrapped_structs(len(shown), shown)


def get_all_table_constraints(context: Context, args: Struct) -> Body:
    """All six lists."""
    request = args.request
    if request is None or request.catName is None:
        raise Decline(Reason.ARGUMENTS)
    found = _constraints(context, request.catName, request.dbName, request.tblName)
    foreign = [element for element, _ in _foreign_keys(context, found)]
    lists: list[bytes] = []
    for field in _ALL_FIELDS:
        listed = found.list(ConstraintKind(field))
        count, elements = (len(foreign), b"".join(foreign)) if field == ConstraintKind.FOREIGN_KEY else listed
        kind, of = _LIST_OF_STRUCTS
        lists += (_LIST.pack(kind, field, of, count), elements)
    return wrapped_struct(b"".join((*lists, b"\0")))


def _foreign_keys(context: Context, found: ConstraintsEntry) -> list[tuple[bytes, Parent]]:
    """The foreign keys that a metastore shows, each with the table that it refers to."""
    if not found.parents:
        return []
    parents = {table_id: _parent(context, table_id) for table_id in found.parents}
    keys = list(foreign_keys(*found.list(ConstraintKind.FOREIGN_KEY)))
    unread = not keys  # the cache was filled from a snapshot that an earlier release wrote
    if unread or not all(known(key, parents[key.parent][1]) for key in keys):
        raise Decline(Reason.FOREIGN_KEYS)
    context.depend_on(target for named, _ in parents.values() for target in named)
    pairs = ((shown(key, parents[key.parent][1]), parents[key.parent][1]) for key in keys)
    return [(element, parent) for element, parent in pairs if element is not None]


def _parent(context: Context, table_id: int) -> tuple[tuple[bytes, ...], Parent]:
    """A table that others refer to, with what it depends on."""
    found = context.snapshot.constrained(table_id)
    if found is None:
        raise Decline(Reason.FOREIGN_KEYS)
    number, elements = found.list(ConstraintKind.PRIMARY_KEY)
    places = found.list(ConstraintKind.PLACES).elements
    _, database, table = found.owner.split(targets.SEPARATOR)
    return found.targets, Parent(database, table, key_columns(number, elements, places))


def _of_kind(context: Context, request: Struct | None, kind: ConstraintKind, *, named: bool = True) -> Body:
    if request is None or (named and request.catName is None):
        raise Decline(Reason.ARGUMENTS)
    found = _constraints(context, request.catName, request.db_name, request.tbl_name)
    count, elements = found.list(kind)
    return wrapped_structs(count, [elements])


def _logged(context: Context) -> None:
    """Declines before Hive 4: 3.1 logs that these are dropped, not that they are added; 2.3 logs neither."""
    if context.before_4:
        raise Decline(Reason.UNLOGGED)


def _constraints(
    context: Context, catalog: bytes | None, database: bytes | None, table: bytes | None
) -> ConstraintsEntry:
    if context.hive2:
        raise Decline(Reason.UNLOGGED)
    entry = context.table(context.plain(catalog, database), table)
    if entry is None:
        return UNCONSTRAINED
    found = context.snapshot.constraints(entry)
    if found is None:
        raise Decline(Reason.NO_READER)
    return found
