"""Requests out of a client's bytes, however they are cut."""

from __future__ import annotations

import struct

import pytest

from hms_cache_proxy.errors import LimitError, WireError
from hms_cache_proxy.server.inbox import HEAD_BYTES, WINDOW_BYTES, Inbox, Request
from hms_cache_proxy.wire.message import MessageLimits
from tests.testbed.raw import encode_call

MESSAGES = [
    encode_call("get_all_databases", seqid=1),
    encode_call("get_database", "d" * 300, seqid=2),
    encode_call("get_partitions_by_names", "d", "t", [f"p={n}" for n in range(50)], seqid=3),
    encode_call("shutdown", seqid=4, oneway=True),
]


def frame(message: bytes) -> bytes:
    return struct.pack(">i", len(message)) + message


def requests_of(stream: bytes, size: int, inbox: Inbox) -> list[Request]:
    """What comes out when the stream arrives in pieces of this size."""
    found = []
    for at in range(0, len(stream), size):
        inbox.add(stream[at : at + size])
        while (request := inbox.next()) is not None:
            found.append(request)
    return found


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 1000, 1 << 20])
@pytest.mark.parametrize("framed", [False, True], ids=["unframed", "framed"])
def test_any_cut_gives_the_same_requests(size: int, framed: bool) -> None:
    inbox = Inbox(MessageLimits())
    stream = b"".join(frame(one) if framed else one for one in MESSAGES * 3)
    found = requests_of(stream, size, inbox)
    assert [request.message for request in found] == MESSAGES * 3
    for request in found:
        (length,) = struct.unpack_from(">i", request.message, 4)
        assert request.header.body == 12 + length
        assert request.header.name == request.message[8 : 8 + length]
        assert request.spool is None
    assert inbox.empty and inbox.waiting_bytes == 0


@pytest.mark.parametrize("framed", [False, True], ids=["unframed", "framed"])
def test_what_is_not_whole_is_not_empty(framed: bool) -> None:
    message = frame(MESSAGES[2]) if framed else MESSAGES[2]
    for end in range(1, len(message)):
        inbox = Inbox(MessageLimits())
        inbox.add(message[:end])
        assert inbox.next() is None
        assert not inbox.empty
        inbox.add(message[end:])
        request = inbox.next()
        assert request is not None and request.message == MESSAGES[2]
        assert inbox.empty


@pytest.mark.parametrize("framed", [False, True], ids=["unframed", "framed"])
def test_a_large_request_is_handed_out_as_a_spool(framed: bool) -> None:
    message = encode_call("get_database", "x" * (WINDOW_BYTES + 1), seqid=9)
    inbox = Inbox(MessageLimits())
    stream = frame(message) + frame(MESSAGES[0])[:5] if framed else message + MESSAGES[0][:5]
    (request,) = requests_of(stream, 1 << 16, inbox)
    assert request.spool is not None
    assert request.message == message[:HEAD_BYTES]
    assert request.header.seqid == 9
    assert b"".join(iter(request.spool.read, b"")) == message
    request.close()
    assert inbox.waiting_bytes == 0 and not inbox.empty


@pytest.mark.parametrize("framed", [False, True], ids=["unframed", "framed"])
@pytest.mark.parametrize("size", [1, 1000, 5000])  # a string that is all there needs no limit
def test_limits(framed: bool, size: int) -> None:
    limits = MessageLimits(message_bytes=50_000, string_bytes=10_000)
    for message, name in (
        (encode_call("get_partitions_by_names", "d", "t", ["x" * 999] * 60), "max_message_bytes"),
        (encode_call("get_database", "x" * 10_001), "max_string_bytes"),
    ):
        inbox = Inbox(limits)
        with pytest.raises(LimitError) as error:
            requests_of(frame(message) if framed else message, size, inbox)
        assert error.value.limit == name
        inbox.close()


@pytest.mark.parametrize("size", [1, 5, 1 << 20])
@pytest.mark.parametrize("inner", [MESSAGES[0] + b"\0", MESSAGES[0] * 2, MESSAGES[0][:-1], MESSAGES[0][:3], b""])
def test_a_frame_with_less_or_more_than_a_message(inner: bytes, size: int) -> None:
    with pytest.raises(WireError):
        requests_of(frame(MESSAGES[0]) + frame(inner) + frame(MESSAGES[0]), size, Inbox(MessageLimits()))
