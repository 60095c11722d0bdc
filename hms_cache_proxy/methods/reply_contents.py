"""What a held reply says: success or refusal, a lock's state, event ids, the part that may be kept.

Job: read whole replies of the few methods whose replies matter to consistency. Must not know: fences, sessions.
Owner: the worker's loop; no state.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from hms_cache_proxy.errors import WireError
from hms_cache_proxy.wire import facts, spec
from hms_cache_proxy.wire.message import (
    ApplicationError,
    Header,
    MessageType,
    message_header,
    parse_exception,
    parse_header,
)
from hms_cache_proxy.wire.spans import fields_of

from . import projections

NOT_FOUND = frozenset({"NoSuchObjectException", "UnknownTableException", "UnknownDBException"})
"""Declared exceptions that say that something does not exist: answers like any other."""

LOCK_WAITING = 2


class Said(Enum):
    """How a call ended."""

    SUCCESS = "success"
    REFUSED = "refused"
    UNKNOWN_METHOD = "unknown method"
    UNREAD = "not held"


def agreement(method: str, header: Header, message: bytes) -> bytes:
    """The reply to a session call that has succeeded: set_ugi returns the groups of its request. Raises WireError."""
    result = spec.result(method)()
    if method == "set_ugi":
        result.success = spec.decode(spec.args(method), message, header.body)[0].group_names or []
    return message_header(header.name, MessageType.REPLY, header.seqid) + spec.encode(result)


def said(reply: bytes | None) -> Said:
    """How the call of a held reply ended."""
    if reply is None:
        return Said.UNREAD
    header = whole_header(reply)
    if header.type is MessageType.EXCEPTION:
        unknown = parse_exception(reply, header.body).type == ApplicationError.UNKNOWN_METHOD
        return Said.UNKNOWN_METHOD if unknown else Said.REFUSED
    return Said.SUCCESS if _first_field(reply, header.body) in (None, 0) else Said.REFUSED


def kept_part(method: str, reply: bytes, *, not_found: bool = True) -> bytes | None:
    """The result struct of a reply that may be kept. None for failures, and for refusals; those in NOT_FOUND may be
    kept if `not_found`."""
    header = whole_header(reply)
    if header.type is not MessageType.REPLY or header.name != method.encode():
        return None
    field_id = _first_field(reply, header.body)
    if field_id is None:
        return None
    if field_id and not not_found:
        return None
    if field_id and not {row.type for row in facts.METHODS[method].result if row.id == field_id} <= NOT_FOUND:
        return None
    return reply[header.body :]


def returned_at(reply: bytes, *, wrapped: bool = False) -> tuple[int, int] | None:
    """The span of the value that the call returns, or, if `wrapped`, of field 1 of the response struct that it returns.
    None for a refusal, and for a response that has other fields too."""
    header = whole_header(reply)
    if header.type is not MessageType.REPLY:
        return None
    spans, wanted = fields_of(reply, header.body), 0
    if wrapped and [span[0] for span in spans] == [0]:
        spans, wanted = fields_of(reply, spans[0][2]), 1
    return spans[0][2:] if [span[0] for span in spans] == [wanted] else None


def lock_of(method: str, reply: bytes | None) -> tuple[int | None, int | None]:
    """(lock id, state) in a lock's reply; both None if it has neither."""
    response = _returned(spec.result(method), reply)
    return (None, None) if response is None else (response.lockid, response.state)


def event_id_of(method: str, reply: bytes) -> int | None:
    """The largest event id in a reply; 0 if it has none; None if that is unknown."""
    if said(reply) is not Said.SUCCESS:
        return 0
    if method == "get_current_notificationEventId":
        response = _returned(spec.result(method), reply)
        return None if response is None else int(response.eventId or 0)
    if method == "get_next_notification":
        response = _returned(projections.result_projection(method, ("success.events.eventId",)), reply)
        return None if response is None else max((event.eventId or 0 for event in response.events or ()), default=0)
    return None


def whole_header(message: bytes) -> Header:
    """The header of a message that is whole, as held replies are."""
    header = parse_header(message)
    assert isinstance(header, Header), "the message is whole"
    return header


def _first_field(reply: bytes, body: int) -> int | None:
    """Id of the only field of a result; None if it is empty (void)."""
    if reply[body] == spec.TType.STOP:
        return None
    return int.from_bytes(reply[body + 1 : body + 3], "big")


def _returned(cls: type[spec.Struct], reply: bytes | None) -> Any:
    """What a held reply returns; None if it was not held, failed or cannot be read."""
    if reply is None:
        return None
    header = whole_header(reply)
    if header.type is not MessageType.REPLY:
        return None
    try:
        return spec.decode(cls, reply, header.body)[0].success
    except WireError:
        return None
