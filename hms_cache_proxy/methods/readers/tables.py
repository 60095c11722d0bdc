"""Readers of tables.

Job: arguments and a snapshot in, result struct out; see base.py for what is declined. Must not know: sessions, fences.

What a client says it can do (`capabilities`) only matters for transactional tables, which are not answered here; what
its processor can do changes other fields too. A list of tables comes in no order (no ORDER BY).
Owner: the worker's loop.
"""

from __future__ import annotations

from collections.abc import Callable

from hms_cache_proxy.consistency import names
from hms_cache_proxy.consistency.gate import Reason
from hms_cache_proxy.wire.spec import Struct

from .base import (
    Body,
    Context,
    Database,
    Decline,
    absent,
    no_capabilities,
    success_struct,
    success_structs,
    unless,
    wrapped_struct,
    wrapped_structs,
)


def get_table(context: Context, args: Struct) -> Body:
    """The method that later metastores lack."""
    return _table(context, context.split(args.dbname), args.tbl_name, success_struct)


def get_table_req(context: Context, args: Struct) -> Body:
    """A table by request."""
    request = args.req
    if request is None:
        raise Decline(Reason.ARGUMENTS)
    no_capabilities(request.processorCapabilities, request.processorIdentifier)
    unless(request.getColumnStats)
    database = context.plain(request.catName, request.dbName)
    return _table(context, database, request.tblName, wrapped_struct)


def get_table_objects_by_name(context: Context, args: Struct) -> Body:
    """The method that later metastores lack."""
    bodies = _tables(context, context.split(args.dbname), args.tbl_names)
    return success_structs(len(bodies), bodies)


def get_table_objects_by_name_req(context: Context, args: Struct) -> Body:
    """Tables by request."""
    request = args.req
    if request is None:
        raise Decline(Reason.ARGUMENTS)
    no_capabilities(request.processorCapabilities, request.processorIdentifier)
    unless(request.projectionSpec is not None, request.tablesPattern is not None)
    bodies = _tables(context, context.plain(request.catName, request.dbName), request.tblNames)
    return wrapped_structs(len(bodies), bodies)


def _table(context: Context, database: Database, raw: bytes | None, result: Callable[[bytes], bytes]) -> Body:
    entry = context.table(database, raw)
    if entry is None or entry.body is None:
        return context.error("NoSuchObjectException", absent(database, raw))
    return result(entry.body)


def _tables(context: Context, database: Database, raw_names: list[bytes] | None) -> list[bytes]:
    if raw_names is None:
        raise Decline(Reason.ARGUMENTS)
    if raw_names and not context.exists(database):
        raise Decline(Reason.ARGUMENTS)  # refused in words that differ between releases
    bodies: dict[bytes, bytes] = {}
    for raw in raw_names:
        name = names.read_name(raw)
        if name is None:
            raise Decline(Reason.NAME)
        entry = context.loaded(context.snapshot.table(database.catalog, database.name, name))
        if entry is not None and entry.body is not None:
            bodies[name] = entry.body
    context.unordered(len(bodies))
    return [bodies[name] for name in sorted(bodies)]
