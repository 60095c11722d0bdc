"""Every recorded message of real peers: parsed, scanned and decoded alike, whole, bytewise, with trailing data."""

from __future__ import annotations

import pytest

from hms_cache_proxy.wire import facts, message, spec
from hms_cache_proxy.wire.message import NEED_MORE, Header, MessageType
from hms_cache_proxy.wire.scan import MessageScanner, StreamScanner, end_of_struct
from hms_cache_proxy.wire.spans import fields_of, list_spans
from tests.wire import oracle, versioned
from tests.wire.fields import check
from tests.wire.golden import RECORDED, Recorded, recorded

every_message = pytest.mark.parametrize("sample", RECORDED, ids=str)


def header_of(sample: Recorded) -> Header:
    header = message.parse_header(sample.data)
    assert header is not NEED_MORE
    return header


def class_of(sample: Recorded, header: Header) -> type[spec.Struct]:
    if header.type is MessageType.EXCEPTION:
        return message.TApplicationException
    if sample.kind == "call":  # by a client of Hive 4.0's age
        return spec.args(sample.method)
    return versioned.result(sample.method, sample.version)


@every_message
def test_header(sample: Recorded) -> None:
    header = header_of(sample)
    assert header.name == sample.method.encode()
    call = sample.kind == "call"
    assert header.type in ((MessageType.CALL,) if call else (MessageType.REPLY, MessageType.EXCEPTION))
    written = message.message_header(header.name, header.type, header.seqid)
    assert sample.data.startswith(written)
    assert header.body == len(written)
    shifted = message.parse_header(b"junk" + sample.data, 4)
    assert shifted == header._replace(body=header.body + 4)
    for cut in range(header.body):
        assert message.parse_header(sample.data[:cut]) is NEED_MORE


@every_message
def test_end_whole_bytewise_and_with_trailing_data(sample: Recorded) -> None:
    data, body = sample.data, header_of(sample).body
    assert end_of_struct(data, body) == len(data)
    assert end_of_struct(data + data, body) == len(data)
    assert end_of_struct(data[:-1], body) is NEED_MORE
    assert end_of_struct(data[: body + 1], body) in (NEED_MORE, body + 1)
    assert MessageScanner().feed(data) == len(data)
    assert MessageScanner().feed(data + b"more") == len(data)
    assert MessageScanner().feed(b"junk" + data, 4) == len(data) + 4
    bytewise = MessageScanner()
    for at in range(len(data) - 1):
        assert bytewise.feed(data[at : at + 1]) is NEED_MORE
    assert bytewise.feed(data[-1:] + b"more") == 1
    assert bytewise.header == header_of(sample)


@every_message
def test_every_cut_in_two(sample: Recorded) -> None:
    data, body = sample.data, header_of(sample).body
    for cut in range(body, len(data)):
        scanner = StreamScanner()
        assert scanner.feed(data[:cut], body) is NEED_MORE
        assert scanner.feed(data[cut:] + b"x") == len(data) - cut


@every_message
def test_decoded_like_the_second_codec(sample: Recorded) -> None:
    header = header_of(sample)
    cls = class_of(sample, header)
    ours, end = spec.decode(cls, sample.data, header.body)
    assert end == len(sample.data)
    check(ours)
    if header.type is not MessageType.EXCEPTION and sample.version in facts.METHODS[sample.method].versions:
        suffix = "args" if sample.kind == "call" else "result"
        payload = oracle.payload(sample.version, f"{sample.method}_{suffix}")
        oracle.assert_same(ours, oracle.decode(payload, sample.data[header.body :]))
    again, _ = spec.decode(cls, spec.encode(ours))
    assert again == ours


@every_message
def test_encoded_as_the_peer_did(sample: Recorded) -> None:
    """Both peers write fields by id, except for structs with added members; so the same bytes come out."""
    header = header_of(sample)
    ours, _ = spec.decode(class_of(sample, header), sample.data, header.body)
    assert spec.encode(ours) == sample.data[header.body :]


def test_a_field_of_another_wire_type_needs_the_struct_of_its_version() -> None:
    """GetOpenTxnsResponse 2 is a set in 2.3, a list since: the newest class skips it without a word."""
    (reply,) = recorded("2.3.10", "reply", "get_open_txns")
    start = header_of(reply).body
    old, end = spec.decode(versioned.result("get_open_txns", "2.3.10"), reply.data, start)
    new, new_end = spec.decode(spec.result("get_open_txns"), reply.data, start)
    assert end == new_end == len(reply.data)
    assert old.success.open_txns == set()
    assert new.success.open_txns is None
    assert fields_of(reply.data, start + 3, spec.struct("GetOpenTxnsResponse")) == fields_of(reply.data, start + 3)


@every_message
def test_spans_cover_the_struct(sample: Recorded) -> None:
    header = header_of(sample)
    assert_spans(sample.data, header.body, len(sample.data), class_of(sample, header))


def assert_spans(data: bytes, start: int, end: int, cls: type[spec.Struct]) -> None:
    """With and without the class the same, gapless, and so in the structs and lists inside."""
    spans = fields_of(data, start)
    assert fields_of(data, start, cls) == spans
    at = start
    for field_id, ttype, value, after in spans:
        assert value == at + 3
        row = cls.thrift_spec[field_id]
        assert row[1] == ttype
        if ttype == spec.TType.STRUCT:
            assert_spans(data, value, after, row[3][0])
        elif ttype == spec.TType.LIST and row[3][0] == spec.TType.STRUCT:
            elements = list_spans(data, value)
            inside = value + 5
            for first, last in elements:
                assert first == inside
                assert_spans(data, first, last, row[3][1][0])
                inside = last
            assert inside == after
        at = after
    assert data[at] == spec.TType.STOP
    assert at + 1 == end
