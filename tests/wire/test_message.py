"""Headers and TApplicationException, against bytes written by hand and by Apache's codec."""

from __future__ import annotations

import pytest
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TApplicationException as ApacheException
from thrift.transport.TTransport import TMemoryBuffer

from hms_cache_proxy.errors import LimitError, WireError
from hms_cache_proxy.wire import message
from hms_cache_proxy.wire.message import NEED_MORE, ApplicationError, Header, MessageLimits, MessageType
from tests.wire.golden import recorded


@pytest.mark.parametrize("kind", MessageType)
@pytest.mark.parametrize("seqid", [0, 1, -1, 2**31 - 1, -(2**31)])
def test_header_both_ways(kind: MessageType, seqid: int) -> None:
    buffer = TMemoryBuffer()
    TBinaryProtocol(buffer).writeMessageBegin("get_table", kind, seqid)
    data = buffer.getvalue()
    assert message.message_header(b"get_table", kind, seqid) == data
    assert message.parse_header(data) == Header(b"get_table", kind, seqid, len(data))
    assert message.parse_header(bytearray(b"__" + data + b"rest"), 2) == Header(
        b"get_table", kind, seqid, len(data) + 2
    )


def test_the_third_byte_is_ignored_as_real_servers_do() -> None:
    assert message.parse_header(b"\x80\x01\xff\x01\0\0\0\0\0\0\0\x07") == Header(b"", MessageType.CALL, 7, 12)


@pytest.mark.parametrize(
    "data",
    [
        b"\0\0\0\x09get_table\x01\0\0\0\x01",  # no version
        b"\x80\x02\0\x01\0\0\0\0\0\0\0\0",
        b"\x82\x21\x01\x09get_table",  # compact
        b"\x80\x01\0\x00\0\0\0\0\0\0\0\0",
        b"\x80\x01\0\x05\0\0\0\0\0\0\0\0",
        b"GET / HTTP/1.1\r\n",
    ],
)
def test_not_a_strict_header(data: bytes) -> None:
    with pytest.raises(WireError):
        message.parse_header(data)


@pytest.mark.parametrize("data", [b"\x00", b"G", b"\x80\x02", b"\x81"])
def test_a_wrong_beginning_is_refused_at_once(data: bytes) -> None:
    with pytest.raises(WireError, match="not a strict binary message"):
        message.parse_header(data)


@pytest.mark.parametrize("length", [257, 2**31 - 1, -1, -(2**31)])
def test_names_are_bounded(length: int) -> None:
    head = b"\x80\x01\0\x01" + length.to_bytes(4, "big", signed=True)
    with pytest.raises(LimitError, match=f"a method name of {length} bytes") as caught:
        message.parse_header(head)
    assert caught.value.limit == "method_bytes"


def test_a_name_of_the_limit_is_accepted() -> None:
    data = message.message_header(b"n" * 10, MessageType.CALL, 1)
    limits = MessageLimits(method_bytes=10)
    assert message.parse_header(data, 0, limits) == Header(b"n" * 10, MessageType.CALL, 1, len(data))
    assert message.parse_header(data[:-1], 0, limits) is NEED_MORE


def test_exception_is_read_by_apache() -> None:
    data = message.exception_message(b"get_x", 5, ApplicationError.UNKNOWN_METHOD, "Invalid method name: 'get_x'")
    protocol = TBinaryProtocol(TMemoryBuffer(data))
    assert protocol.readMessageBegin() == ("get_x", MessageType.EXCEPTION, 5)
    theirs = ApacheException()
    theirs.read(protocol)
    assert (theirs.type, theirs.message) == (1, "Invalid method name: 'get_x'")


def test_exception_of_a_real_metastore() -> None:
    (reply,) = recorded("4.2.0", "reply", "get_table")
    header = message.parse_header(reply.data)
    assert header is not NEED_MORE
    assert header.type is MessageType.EXCEPTION
    ours = message.parse_exception(reply.data, header.body)
    assert ours.message == b"Invalid method name: 'get_table'"
    assert ours.type == ApplicationError.UNKNOWN_METHOD
    text = (ours.message or b"").decode()
    same = message.exception_message(b"get_table", header.seqid, ApplicationError.UNKNOWN_METHOD, text)
    assert same == reply.data


def test_exception_without_fields() -> None:
    ours = message.parse_exception(b"\0", 0)
    assert ours.message is None
    assert ours.type is None
