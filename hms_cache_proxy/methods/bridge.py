"""The version bridge: `get_table` and `get_table_objects_by_name` on metastores that lack them (Hive 4.0.1 and later).

Job: turn such a request into a request of its `_req` twin, and the twin's reply back, by splicing: the Table structs
are the metastore's own bytes. Must not know: sockets, which upstream lacks what.

How the old methods behave, seen on Hive 4.0.0 and 3.1.3 with the same tables:
- The database's name may include a catalog (`@cat#db`); the twins have a separate field for the catalog.
- They have no client capabilities: an insert-only table is refused, and the twin refuses it in the same words.
- get_table declares the same exceptions as its twin, under the same ids.
- get_table_objects_by_name declares none: each refusal is a TApplicationException, and the connection stays open.
- A null name is refused with the text of a NullPointerException. The twin's fields are required, so it is refused here.

Owner: any process; no state.
"""

from __future__ import annotations

from hms_cache_proxy.consistency import names
from hms_cache_proxy.wire import spec
from hms_cache_proxy.wire.message import (
    ApplicationError,
    Header,
    MessageType,
    exception_message,
    message_header,
    parse_exception,
    parse_header,
)
from hms_cache_proxy.wire.spans import fields_of

TWINS = {b"get_table": b"get_table_req", b"get_table_objects_by_name": b"get_table_objects_by_name_req"}

_NULL_NAME = b'java.lang.NullPointerException: Cannot invoke "String.trim()" because "identifier" is null'
_NO_CATALOG = b" is prepended with the catalog marker but does not appear to have a catalog name in it"
_STOP = b"\x00"


def twin_request(header: Header, message: bytes) -> bytes | None:
    """The request to send instead of this one, with the same seqid; None if there is none (see `refusal`)."""
    if header.name == b"get_table":
        return _get_table(header, message)
    if header.name == b"get_table_objects_by_name":
        return _get_tables(header, message)
    return None


def refusal(header: Header, message: bytes) -> bytes | None:
    """The reply to a bridged request that has no twin: what the old method replied to such arguments."""
    if header.name == b"get_table":
        row, _ = spec.decode(spec.args("get_table"), message, header.body)
        text = _NULL_NAME
        if names.split_database(row.dbname) is None:
            text = row.dbname + _NO_CATALOG
        error = spec.struct("MetaException")(message=text)
        body = spec.encode(spec.result("get_table")(o1=error))
        return message_header(header.name, MessageType.REPLY, header.seqid) + body
    return _internal_error(header) if header.name in TWINS else None


def splice(header: Header, reply: bytes) -> bytes:
    """The reply to the old request, made of its twin's whole reply."""
    answer = parse_header(reply)
    if not isinstance(answer, Header):
        raise AssertionError("the reply is whole")
    if answer.type is MessageType.EXCEPTION:
        return _renamed(header, answer, reply)
    head = message_header(header.name, MessageType.REPLY, header.seqid)
    for field_id, _, start, end in fields_of(reply, answer.body):
        if field_id == 0:
            return head + _unwrapped(reply, start) + _STOP
        if header.name == b"get_table":
            return head + reply[start - 3 : end] + _STOP
        return _internal_error(header)
    return head + _STOP


def _get_table(header: Header, message: bytes) -> bytes | None:
    row, _ = spec.decode(spec.args("get_table"), message, header.body)
    named = _database(row.dbname)
    if named is None or row.tbl_name is None:
        return None
    return _call(header, "GetTableRequest", tblName=row.tbl_name, **named)


def _get_tables(header: Header, message: bytes) -> bytes | None:
    row, _ = spec.decode(spec.args("get_table_objects_by_name"), message, header.body)
    named = _database(row.dbname)
    if named is None or row.tbl_names is None:
        return None
    return _call(header, "GetTablesRequest", tblNames=row.tbl_names, **named)


def _database(raw: bytes | None) -> dict[str, bytes] | None:
    """The fields that name the database; None if none is named. A catalog is named only if the old call named one,
    which may be the empty one (`@#db`)."""
    parts = names.split_database(raw)
    if parts is None or parts[1] is None:
        return None
    return {"dbName": parts[1]} if parts[1] is raw else {"dbName": parts[1], "catName": parts[0]}


def _call(header: Header, request: str, **fields: object) -> bytes:
    """The call of the twin, with a request struct of these fields."""
    twin = TWINS[header.name]
    arguments = spec.args(twin.decode())(req=spec.struct(request)(**fields))
    return message_header(twin, MessageType.CALL, header.seqid) + spec.encode(arguments)


def _unwrapped(reply: bytes, start: int) -> bytes:
    """Field 1 of the response struct, as field 0 of the old result."""
    for field_id, ttype, value, end in fields_of(reply, start):
        if field_id == 1:
            return bytes((ttype, 0, 0)) + reply[value:end]
    raise AssertionError("a response without its required field")


def _renamed(header: Header, answer: Header, reply: bytes) -> bytes:
    """The TApplicationException, with the name of the method that the client called."""
    error = parse_exception(reply, answer.body)
    text = (error.message or b"").replace(answer.name, header.name)
    body = spec.encode(type(error)(message=text, type=error.type))
    return message_header(header.name, MessageType.EXCEPTION, header.seqid) + body


def _internal_error(header: Header) -> bytes:
    text = f"Internal error processing {header.name.decode()}"
    return exception_message(header.name, header.seqid, ApplicationError.INTERNAL_ERROR, text)
