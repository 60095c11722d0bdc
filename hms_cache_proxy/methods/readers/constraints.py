"""Readers of constraints.

Job: arguments and a snapshot in, result struct out; see base.py for what is declined. Must not know: sessions, fences.

For a table or database that does not exist, a metastore answers that it has no constraints. Its lists have no order (no
ORDER BY); here the columns of a primary key come in the order of the key (key_seq).

A foreign key shows the names of the table that it refers to; renaming that table changes nothing at the table with the
key. So an answer with foreign keys is the metastore's own, kept until one of those tables changes (learnable.py).

Owner: the worker's loop.
"""

from __future__ import annotations

from struct import Struct as Packer
from typing import Final

from hms_cache_proxy.cache.attachments import UNCONSTRAINED, ConstraintsEntry, ElementList
from hms_cache_proxy.consistency.gate import Reason
from hms_cache_proxy.store.protocol import ConstraintKind
from hms_cache_proxy.wire.spec import Struct

from .base import Body, Context, Decline, wrapped_struct, wrapped_structs

_LIST: Final = Packer("!bhbi")  # a field of type list: 15, its number, the elements' type, their number
_LIST_OF_STRUCTS: Final = (15, 12)
_FOREIGN_KEYS: Final = 2  # of SQLAllTableConstraints; the others are values of ConstraintKind
_ALL_FIELDS: Final = (1, 2, 3, 4, 5, 6)


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
    """Of the table that has the keys; if it has none, the parent table in the request does not matter."""
    request = args.request
    if request is None:
        raise Decline(Reason.ARGUMENTS)
    found = _constraints(context, request.catName, request.foreign_db_name, request.foreign_tbl_name)
    if found.parents:
        raise Decline(Reason.FOREIGN_KEYS)
    return wrapped_structs(0, [])


def get_all_table_constraints(context: Context, args: Struct) -> Body:
    """All six lists."""
    request = args.request
    if request is None or request.catName is None:
        raise Decline(Reason.ARGUMENTS)
    found = _constraints(context, request.catName, request.dbName, request.tblName)
    if found.parents:
        raise Decline(Reason.FOREIGN_KEYS)
    lists: list[bytes] = []
    for field in _ALL_FIELDS:
        count, elements = (0, b"") if field == _FOREIGN_KEYS else _listed(context, found, ConstraintKind(field))
        kind, of = _LIST_OF_STRUCTS
        lists += (_LIST.pack(kind, field, of, count), elements)
    return wrapped_struct(b"".join((*lists, b"\0")))


def _of_kind(context: Context, request: Struct | None, kind: ConstraintKind, *, named: bool = True) -> Body:
    if request is None or (named and request.catName is None):
        raise Decline(Reason.ARGUMENTS)
    found = _constraints(context, request.catName, request.db_name, request.tbl_name)
    count, elements = _listed(context, found, kind)
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


def _listed(context: Context, constraints: ConstraintsEntry, kind: ConstraintKind) -> ElementList:
    found = constraints.list(kind)
    if kind is not ConstraintKind.PRIMARY_KEY:  # a table has one at most, and its columns are stored in their order
        context.unordered(found.number)
    return found
