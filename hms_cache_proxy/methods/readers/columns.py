"""Readers of a table's columns.

Job: make the result struct of a request from its arguments and a snapshot; base.py says what is declined. Must not
know: sessions, fences.

If a table has an unusual serde, the metastore asks the serde's class (upstream/serdes.py), which may read files: such
tables are relayed. It uses a table's name only up to a dot. Owner: the worker's loop.
"""

from __future__ import annotations

from functools import cache
from struct import Struct as Packer
from typing import Final

from hms_cache_proxy.consistency.gate import Reason
from hms_cache_proxy.upstream.answer_differences import AnswerDifferences
from hms_cache_proxy.upstream.serdes import with_stored_columns
from hms_cache_proxy.wire import spec
from hms_cache_proxy.wire.spans import FieldSpan, fields_of
from hms_cache_proxy.wire.spec import Struct, TType

from .base import Body, Context, DatabaseName, Decline, success_structs, unless, wrapped_structs

_LIST: Final = Packer("!Bi")
_SD, _PARTITION_KEYS = 7, 8  # of a Table
_COLUMNS, _SERDE = 1, 7  # of a StorageDescriptor
_CLASS = 2  # of a SerDeInfo


def get_fields(context: Context, args: Struct) -> Body:
    """Columns, without the partition keys."""
    return _columns(context, context.split(args.db_name), args.table_name)


def get_fields_with_environment_context(context: Context, args: Struct) -> Body:
    """The same; an environment context can name jars of serdes."""
    unless(args.environment_context is not None and args.environment_context.properties)
    return get_fields(context, args)


def get_fields_req(context: Context, args: Struct) -> Body:
    """The same by request."""
    return _by_request(context, args.req)


def get_schema(context: Context, args: Struct) -> Body:
    """Columns and partition keys."""
    return _columns(context, context.split(args.db_name), args.table_name, keys=True)


def get_schema_with_environment_context(context: Context, args: Struct) -> Body:
    """The same; an environment context can name jars of serdes."""
    unless(args.environment_context is not None and args.environment_context.properties)
    return get_schema(context, args)


def get_schema_req(context: Context, args: Struct) -> Body:
    """The same by request."""
    return _by_request(context, args.req, keys=True)


def _by_request(context: Context, request: Struct | None, *, keys: bool = False) -> Body:
    if request is None:
        raise Decline(Reason.ARGUMENTS)
    unless(request.envContext is not None and request.envContext.properties)
    database = context.plain(request.catName, request.dbName)
    return _columns(context, database, request.tblName, keys=keys, wrapped=True)


def _columns(
    context: Context, database: DatabaseName, raw: bytes | None, *, keys: bool = False, wrapped: bool = False
) -> Body:
    context.not_hive2()
    if raw is not None and b"." in raw:
        raise Decline(Reason.NAME)
    entry = context.table(database, raw)
    if entry is None or entry.body is None:
        return context.error("UnknownTableException", context.absent(database, raw))
    context.as_usual(AnswerDifferences.COLUMNS)
    count, pieces = _stored(entry.body, with_stored_columns(context.snapshot.identity.hive_line), keys=keys)
    return wrapped_structs(count, pieces) if wrapped else success_structs(count, pieces)


def _stored(body: bytes, serdes: frozenset[bytes], *, keys: bool) -> tuple[int, list[bytes]]:
    """The number of columns, and their elements as encoded in a Table."""
    table = _fields(body, 0, "Table")
    if _SD not in table:
        raise Decline(Reason.ARGUMENTS)
    descriptor = _fields(body, table[_SD][2], "StorageDescriptor")
    if _COLUMNS not in descriptor or _SERDE not in descriptor:
        raise Decline(Reason.ARGUMENTS)
    serde = _fields(body, descriptor[_SERDE][2], "SerDeInfo").get(_CLASS)
    if serde is not None and body[serde[2] + 4 : serde[3]] not in serdes:
        raise Decline(Reason.SERDE)
    spans = [descriptor[_COLUMNS]] + ([table[_PARTITION_KEYS]] if keys and _PARTITION_KEYS in table else [])
    count, pieces = 0, []
    for _, _, start, end in spans:
        kind, number = _LIST.unpack_from(body, start)
        assert kind == TType.STRUCT or not number, "a list of FieldSchema"
        count += number
        pieces.append(body[start + _LIST.size : end])
    return count, pieces


def _fields(body: bytes, start: int, name: str) -> dict[int, FieldSpan]:
    return {field[0]: field for field in fields_of(body, start, _struct(name))}


@cache
def _struct(name: str) -> type[Struct]:
    return spec.struct(name)
