"""Readers of tables.

Job: make the result struct of a request from its arguments and a snapshot; base.py says what is declined. Must not
know: sessions, fences.

The `capabilities` of a client matter only for insert-only tables, which the metastore refuses to a client that does not
know them. Its `processorCapabilities` change other fields too. If they are complete, get_table_req alone shows this, in
a field of the table. A list of tables has no order (no ORDER BY). With a ValidWriteIdList, get_table_req says whether
the basic statistics of an unpartitioned transactional table are valid for this reader (ObjectStore.getTable of Hive
4.2, compliance.py). If they are not, it hides the parameter that says which of them are accurate: such a table is
declined.
Owner: the worker's loop.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing
from typing import Final

from hms_cache_proxy.consistency import names
from hms_cache_proxy.consistency.gate import Reason
from hms_cache_proxy.upstream.answer_differences import AnswerDifferences
from hms_cache_proxy.wire.spec import Struct

from .base import (
    STOP,
    Body,
    Context,
    DatabaseName,
    Decline,
    Unfinished,
    around_structs,
    as_stored,
    joined,
    started,
    success_struct,
    unless,
    wrapped_struct,
)
from .compliance import ACCURATE, ListReader, written

AT_ONCE: Final = 100
"""Tables of a list that are looked up in one turn of the loop (half a millisecond)."""

_INSERT_ONLY: Final = b"\x00\x00\x00\x0binsert_only"  # the value of transactional_properties
_KNOWS_INSERT_ONLY: Final = 2  # ClientCapability.INSERT_ONLY_TABLES
_ACCESS_TYPE: Final = b"\x03\x00\x16"  # field 22, a byte: 2 is reading, 8 is both
_ACCESS: Final = {b"EXTERNAL_TABLE": b"\x08", b"MANAGED_TABLE": b"\x08", b"VIRTUAL_VIEW": b"\x02"}
_COMPLIANT: Final = b"\x02\x00\x14"  # field 20, a bool


def get_table(context: Context, args: Struct) -> Body:
    """A table; Hive 4.0.1 and later lack this method."""
    return _table(context, context.split(args.dbname), args.tbl_name, success_struct)


def get_table_req(context: Context, args: Struct) -> Body:
    """A table by request."""
    request = args.req
    if request is None:
        raise Decline(Reason.ARGUMENTS)
    database = context.plain(request.catName, request.dbName)
    capable = context.capable(request, database)
    unless(request.getColumnStats, _incomplete(request.capabilities))
    return _table(context, database, request.tblName, wrapped_struct, request.capabilities, capable=capable)


def get_table_objects_by_name(context: Context, args: Struct) -> Body | Unfinished:
    """Tables; Hive 4.0.1 and later lack this method."""
    return started(_listed(context, _tables(context, context.split(args.dbname), args.tbl_names), wrapped=False))


def get_table_objects_by_name_req(context: Context, args: Struct) -> Body | Unfinished:
    """Tables by request."""
    request = args.req
    if request is None:
        raise Decline(Reason.ARGUMENTS)
    database = context.plain(request.catName, request.dbName)
    capable = context.capable(request, database)
    unless(request.projectionSpec is not None, request.tablesPattern is not None, _incomplete(request.capabilities))
    tables = _tables(context, database, request.tblNames, request.capabilities, capable=capable)
    return started(_listed(context, tables, wrapped=True))


def _table(
    context: Context,
    database: DatabaseName,
    raw: bytes | None,
    result: Callable[[bytes], bytes],
    capabilities: Struct | None = None,
    *,
    capable: bool = False,
) -> Body:
    entry = context.table(database, raw)
    if entry is None or entry.body is None:
        return context.error("NoSuchObjectException", context.absent(database, raw))
    body = entry.body
    if entry.transactional:
        _capable(body, capabilities)
        if context.proof.text is not None and not entry.partition_keys:
            context.only_hive4()  # others do not know the list, and say nothing
            context.as_usual(AnswerDifferences.STATISTICS)
            body = _with_compliance(body, context.proof.text)
    return result(_with_access(body, entry.table_type) if capable else body)


def _with_access(body: bytes, table_type: bytes) -> bytes:
    """The table with the accessType for a client that can do everything."""
    as_stored(body)
    access = _ACCESS.get(table_type)
    if access is None:
        raise Decline(Reason.CAPABILITIES)
    return b"".join((body[:-1], _ACCESS_TYPE, access, STOP))


def _incomplete(capabilities: Struct | None) -> bool:
    """A metastore cannot read these."""
    return capabilities is not None and capabilities.values is None


def _capable(body: bytes, capabilities: Struct | None) -> None:
    """Decline an insert-only table unless the client declares that it knows them."""
    if _INSERT_ONLY in body and _KNOWS_INSERT_ONLY not in ((capabilities and capabilities.values) or ()):
        raise Decline(Reason.CAPABILITIES)


def _with_compliance(body: bytes, text: bytes) -> bytes:
    """The table with isStatsCompliant for a reader with this list. Declines if the metastore changes its parameters."""
    table = written("Table", body)
    compliant = ListReader(text).accepts(table)
    if not compliant and ACCURATE in (table.parameters or {}):
        raise Decline(Reason.ARGUMENTS)
    return body[:-1] + _COMPLIANT + bytes((compliant,)) + STOP


def _listed(
    context: Context, tables: Generator[None, None, list[bytes]], *, wrapped: bool
) -> Generator[None, None, Body]:
    bodies = yield from tables
    before, after = around_structs(len(bodies), wrapped=wrapped)
    return joined(before, bodies, after)


def _tables(
    context: Context,
    database: DatabaseName,
    raw_names: list[bytes] | None,
    capabilities: Struct | None = None,
    *,
    capable: bool = False,
) -> Generator[None, None, list[bytes]]:
    if raw_names is None:
        raise Decline(Reason.ARGUMENTS)
    if raw_names and not context.exists(database):
        raise Decline(Reason.ARGUMENTS)  # the text of the refusal differs between releases
    bodies: dict[bytes, bytes] = {}
    with closing(context.snapshot.walk_tables(database.catalog, database.name)):  # keeps the snapshot's state
        for at in range(0, len(raw_names), AT_ONCE):
            if at:
                yield
            for raw in raw_names[at : at + AT_ONCE]:
                name = names.read_name(raw)
                if name is None:
                    raise Decline(Reason.NAME)
                entry = context.loaded(context.snapshot.table(database.catalog, database.name, name))
                if entry is not None and entry.body is not None:
                    if entry.transactional:
                        _capable(entry.body, capabilities)
                    if capable:
                        as_stored(entry.body)
                    bodies[name] = entry.body
            context.unordered(len(bodies))
    return [bodies[name] for name in sorted(bodies)]
