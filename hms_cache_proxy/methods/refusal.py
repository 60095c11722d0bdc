"""Refusals that clients understand.

Job: make a reply that is a MetaException with a text for people, because clients show such texts. Must not know: why.
"""

from __future__ import annotations

from hms_cache_proxy.wire import spec
from hms_cache_proxy.wire.facts import METHODS as FACTS
from hms_cache_proxy.wire.message import ApplicationError, Header, MessageType, exception_message, message_header


def refusal(name: str, header: Header, text: str) -> bytes:
    """A MetaException if the method declares one, else (also for an unknown method) a TApplicationException."""
    facts = FACTS.get(name)
    row = None if facts is None else next((row for row in facts.result if row.type == "MetaException"), None)
    if row is None:
        return exception_message(header.name, header.seqid, ApplicationError.INTERNAL_ERROR, text)
    result = spec.result(name)()
    setattr(result, row.name, spec.struct("MetaException")(message=text))
    return message_header(header.name, MessageType.REPLY, header.seqid) + spec.encode(result)
