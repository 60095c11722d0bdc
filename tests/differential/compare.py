"""Send each request to the metastore and to the proxy and report every difference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.codecs import NEWEST, Disagreement, agree
from tests.comparison import first_difference, in_any_order, is_unordered, settled
from tests.differential.reads import Request
from tests.differential.wire import encode
from tests.lengths import by_tier
from tests.testbed.raw import EndOfStream, RawConnection
from tests.testbed.untyped import decode_message

EACH = int(by_tier(test=5, all=1, every=1))
"""One request and reply in so many is read by all decoders; where the replies' bytes differ, all are."""
BROKEN_OFF = b"(broken off)"
_EXCEPTION = b"\x03"


@dataclass
class Report:
    requests: int = 0
    methods: Counter[str] = field(default_factory=Counter)
    differences: list[str] = field(default_factory=list)
    by_method: Counter[str] = field(default_factory=Counter)
    read_by_all: int = 0

    def summary(self) -> str:
        found = f"{len(self.differences)} differences {dict(self.by_method)}"
        return f"{self.requests} reads of {len(self.methods)} methods, {found}"


def compare(
    direct: RawConnection,
    proxied: RawConnection,
    requests: Iterable[Request],
    *,
    keep: int = 50,
    encoded: Callable[[str, dict[str, Any], int], bytes] = encode,
    version: str = NEWEST,
    well_formed: bool = True,
) -> Report:
    """Equal bytes are equal answers; else the decoded replies decide (order of map entries is free). `well_formed`:
    decoders can agree on the requests."""
    report = Report()
    for seqid, (method, arguments) in enumerate(requests, start=1):
        message = encoded(method, arguments, seqid)
        expected, answered = answer(direct, message), answer(proxied, message)
        report.requests += 1
        report.methods[method] += 1
        unordered = is_unordered(method, arguments, newest=version == NEWEST)
        difference = _difference(expected, answered, unordered=unordered)
        if expected[3:4] == _EXCEPTION:  # a metastore may have left some of the request unread
            direct.reconnect()
            proxied.reconnect()
        if well_formed and (difference or seqid % EACH == 0):
            report.read_by_all += 1
            difference = difference or _read_by_all({message, expected, answered}, version)
        if difference:
            report.by_method[method] += 1
            few = len(report.differences) < keep
            asked = arguments if well_formed else message
            report.differences.append(f"{method}({asked!r}): {difference}" if few else method)
    return report


def _difference(expected: bytes, answered: bytes, *, unordered: bool) -> str:
    if expected == answered or expected == BROKEN_OFF and _refuses(answered):
        return ""  # in the second case the proxy has seen that the reply ends too early before it passed any of it on
    if BROKEN_OFF in (expected, answered):
        return "a reply that breaks off, of one of them only"
    return first_difference(decoded(expected, unordered=unordered), decoded(answered, unordered=unordered))


def _read_by_all(messages: set[bytes], version: str) -> str:
    for message in messages - {b"", BROKEN_OFF}:
        try:
            agree(message, version)
        except (Disagreement, ValueError) as error:
            return str(error)
    return ""


def answer(connection: RawConnection, message: bytes) -> bytes:
    """The reply; b"" when the server closed instead, BROKEN_OFF when it closed in the middle of it, and the connection
    is made again. (4.2 does both to some requests for column statistics.)"""
    try:
        return connection.call(message)
    except EndOfStream as closed:
        connection.reconnect()
        return BROKEN_OFF if closed.received else b""


def _refuses(reply: bytes) -> bool:
    """Is it a TApplicationException?"""
    return reply[3:4] == _EXCEPTION


def decoded(reply: bytes, *, unordered: bool) -> Any:
    """The decoded reply in a form that can be compared: lists sorted if they are `unordered`."""
    if not reply:
        return "closed"
    message = decode_message(reply)
    fields = settled(message.fields)
    return message.method, message.type, message.seqid, in_any_order(fields) if unordered else fields
