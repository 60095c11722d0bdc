"""First bytes of every transport a peer may speak, and frames."""

from __future__ import annotations

import pytest
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.protocol.TCompactProtocol import TCompactProtocol
from thrift.protocol.THeaderProtocol import THeaderProtocol
from thrift.transport.TTransport import TFramedTransport, TMemoryBuffer

from hms_cache_proxy.errors import LimitError
from hms_cache_proxy.wire.framing import DETECT_BYTES, Frame, Transport, detect, frame_header, parse_frame
from hms_cache_proxy.wire.message import NEED_MORE, MessageLimits


def by_apache(protocol_class: type, *, framed: bool = False, **options: object) -> bytes:
    """A call of get_all_databases as Apache's Python library sends it."""
    buffer = TMemoryBuffer()
    transport = TFramedTransport(buffer) if framed else buffer
    protocol = protocol_class(transport, **options)
    protocol.writeMessageBegin("get_all_databases", 1, 0)
    protocol.writeStructBegin("args")
    protocol.writeFieldStop()
    protocol.writeStructEnd()
    protocol.writeMessageEnd()
    protocol.trans.flush()
    sent: bytes = buffer.getvalue()
    return sent


SASL_START = b"\x01\x00\x00\x00"
CASES = {
    "binary": (by_apache(TBinaryProtocol), Transport.BINARY),
    "framed": (by_apache(TBinaryProtocol, framed=True), Transport.FRAMED),
    "framed, 16 MiB": (b"\x01\x00\x00\x00\x80\x01\x00\x01", Transport.FRAMED),
    "framed, 369 MB": (b"\x16\x03\x01\x02\x80\x01\x00\x01\x00\x00\x00\x09get_table", Transport.FRAMED),
    "compact": (by_apache(TCompactProtocol), Transport.COMPACT),
    "framed compact": (by_apache(TCompactProtocol, framed=True), Transport.FRAMED_COMPACT),
    "header": (by_apache(THeaderProtocol, allowed_client_types=(0,)), Transport.HEADER),
    "old": (by_apache(TBinaryProtocol, strictWrite=False), Transport.OLD_UNVERSIONED),
    "sasl plain": (SASL_START + b"\x05PLAIN", Transport.SASL),
    "sasl gssapi": (SASL_START + b"\x06GSSAPI", Transport.SASL),
    "sasl digest": (SASL_START + b"\x0aDIGEST-MD5", Transport.SASL),
    "tls 1.0 record": (bytes.fromhex("160301020001fc0303"), Transport.TLS),
    "tls 1.2 record": (bytes.fromhex("160303005a010056"), Transport.TLS),
    "tls hello of 384 bytes": (bytes.fromhex("16030101800100017c0303"), Transport.TLS),  # 80 01 begins a message
    "tls hello of 640 bytes": (bytes.fromhex("16030102800100027c0303"), Transport.TLS),
    "tls hello of 642 bytes": (bytes.fromhex("16030102820100027e0303"), Transport.TLS),
    "http get": (b"GET /metrics HTTP/1.1\r\n", Transport.HTTP),
    "http post": (b"POST /metastore HTTP/1.1\r\n", Transport.HTTP),
    "http 2": (b"PRI * HTTP/2.0\r\n", Transport.HTTP),
    "ssh": (b"SSH-2.0-OpenSSH_9.2\r\n", Transport.UNKNOWN),
    "zeros": (bytes(16), Transport.UNKNOWN),
    "ones": (b"\xff" * 16, Transport.UNKNOWN),
}


@pytest.mark.parametrize(("data", "expected"), CASES.values(), ids=CASES)
def test_detect(data: bytes, expected: Transport) -> None:
    assert detect(data) is expected
    assert detect(data[:DETECT_BYTES]) is expected
    assert {detect(data[:size]) for size in range(len(data))} <= {NEED_MORE, expected}
    assert detect(b"") is NEED_MORE


def test_every_beginning_is_decided_within_detect_bytes() -> None:
    for first in range(256):
        for second in (0, 1, 3, 0x21, 0x80, 0x82, 0xFF):
            for fill in (b"\0\0\0\0", b"aaaa", b"\x80\x01\x80\x01"):
                assert detect((bytes((first, second)) + fill + fill)[:DETECT_BYTES]) is not NEED_MORE


def test_frames() -> None:
    data = by_apache(TBinaryProtocol, framed=True)
    assert parse_frame(data) == Frame(4, len(data))
    assert parse_frame(data[:3]) is NEED_MORE
    assert parse_frame(data[:4]) == Frame(4, len(data))
    assert parse_frame(b"x" + data + data, 1) == Frame(5, len(data) + 1)
    assert frame_header(len(data) - 4) == data[:4]
    assert parse_frame(frame_header(0)) == Frame(4, 4)


@pytest.mark.parametrize("size", [101, 2**31 - 1, -1])
def test_frames_are_bounded(size: int) -> None:
    with pytest.raises(LimitError, match=f"a frame of {size} bytes") as caught:
        parse_frame(size.to_bytes(4, "big", signed=True), 0, MessageLimits(message_bytes=100))
    assert caught.value.limit == "max_message_bytes"
    assert parse_frame(frame_header(100), 0, MessageLimits(message_bytes=100)) == Frame(4, 104)
