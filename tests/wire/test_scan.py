"""Ends of structs and messages: pieces, limits, memory, abandoned scanners, work in proportion to the bytes."""

from __future__ import annotations

import gc
import time
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

from hms_cache_proxy.errors import LimitError, WireError
from hms_cache_proxy.wire import message, spec
from hms_cache_proxy.wire.message import NEED_MORE, MessageLimits, MessageType
from hms_cache_proxy.wire.scan import COUNTED_BYTES, WHOLE_BYTES, MessageScanner, StreamScanner, end_of_struct


def string(size: int, given: int | None = None) -> bytes:
    """Field 1, a string that claims that size."""
    return b"\x0b\0\1" + size.to_bytes(4, "big", signed=True) + bytes(size if given is None else given)


def pieces(data: bytes, size: int) -> Iterator[bytes]:
    for at in range(0, len(data), size):
        yield data[at : at + size]


def scanned(data: bytes, size: int, limits: MessageLimits | None = None) -> int | None:
    """Feed in pieces; the struct's end, None if it never came."""
    scanner = StreamScanner(limits or MessageLimits())
    at = 0
    for piece in pieces(data, size):
        end = scanner.feed(piece)
        if end is not NEED_MORE:
            return at + end
        at += len(piece)
    return None


@pytest.fixture(scope="module")
def partitions() -> bytes:
    """A reply of get_partitions with 1,000 partitions of 50 columns, 3 MB."""
    field, make = spec.struct("FieldSchema"), spec.struct("Partition")
    cols = [field(name=f"column_{at}", type="string", comment=f"a comment {at}") for at in range(50)]
    serde = spec.struct("SerDeInfo")(serializationLib="org.example.SerDe", parameters={"format": "1"})
    descriptor = spec.struct("StorageDescriptor")(cols=cols, location="hdfs://nn/t/p", serdeInfo=serde)
    parameters = {f"key{at}": f"value {at}" for at in range(10)}
    parts = [make(values=[str(at)], sd=descriptor, parameters=parameters) for at in range(1000)]
    body = spec.encode(spec.result("get_partitions")(success=parts))
    return message.message_header(b"get_partitions", MessageType.REPLY, 1) + body


@pytest.mark.parametrize("size", [1460, 65_536, 1 << 20, 1 << 22])
def test_a_large_reply_in_pieces(partitions: bytes, size: int) -> None:
    scanner = MessageScanner()
    outcomes = [scanner.feed(piece) for piece in pieces(partitions, size)]
    last = outcomes.pop()
    assert set(outcomes) <= {NEED_MORE}
    assert last is not NEED_MORE
    assert len(outcomes) * size + last == len(partitions)


@pytest.mark.parametrize("size", range(1, 40))
def test_every_kind_of_value_in_pieces(size: int) -> None:
    data = spec.encode(struct_with_everything())
    assert end_of_struct(data + b"trailing") == len(data)
    assert scanned(data + b"trailing", size) == len(data)
    assert scanned(data[:-1], size) is None


def struct_with_everything() -> spec.Struct:
    """All kinds of containers and scalars."""
    sd = spec.struct("StorageDescriptor")(
        cols=[spec.struct("FieldSchema")(name="n" * 300)] * 3,
        compressed=True,
        numBuckets=7,
        bucketCols=[],
        sortCols=[spec.struct("Order")(col="c", order=1)],
        parameters={"a": "b", "c": ""},
        skewedInfo=spec.struct("SkewedInfo")(
            skewedColValues=[["1", "2"], []], skewedColValueLocationMaps={("1", "2"): "x"}
        ),
    )
    creation = spec.struct("CreationMetadata")(tablesUsed={"a", "b"}, materializationTime=1 << 40)
    columns = [
        spec.struct("ColumnStatisticsObj")(
            colName="d",
            statsData=spec.struct("ColumnStatisticsData")(
                doubleStats=spec.struct("DoubleColumnStatsData")(lowValue=-1.5)
            ),
        )
    ]
    stats = spec.struct("ColumnStatistics")(statsObj=columns)
    return spec.struct("Table")(sd=sd, creationMetadata=creation, accessType=8, temporary=False, colStats=stats)


def test_a_message_whose_header_comes_bytewise() -> None:
    data = message.message_header(b"get_table", MessageType.CALL, 1) + string(3) + b"\0"
    for lead in range(1, len(data)):
        scanner = MessageScanner()
        for at in range(lead):
            assert scanner.feed(data[at : at + 1]) is NEED_MORE
        assert scanner.feed(b"#" + data[lead:] + b"next", 1) == 1 + len(data) - lead
        assert scanner.header == message.parse_header(data)


def test_several_messages_in_one_piece() -> None:
    one = message.message_header(b"a", MessageType.CALL, 1) + b"\0"
    two = message.message_header(b"b", MessageType.ONEWAY, 2) + string(WHOLE_BYTES * 2) + b"\0"
    data = one + two + one
    first = MessageScanner().feed(data)
    assert first == len(one)
    second = MessageScanner().feed(data, first)
    assert second == len(one + two)
    assert MessageScanner().feed(data, second) == len(data)


@pytest.mark.parametrize("size", [COUNTED_BYTES - 1, COUNTED_BYTES, COUNTED_BYTES + 1, 5 * COUNTED_BYTES])
@pytest.mark.parametrize("piece", [100, 1460, COUNTED_BYTES, 1 << 20])
def test_long_strings(size: int, piece: int) -> None:
    data = b"\x0f\0\1\x0b\0\0\0\3" + 3 * (size.to_bytes(4, "big") + bytes(size)) + string(4) + b"\0"
    assert scanned(data, piece) == len(data)
    assert scanned(data + b"rest of it", piece) == len(data)
    assert scanned(data[:-1], piece) is None


def own_kib() -> int:
    """Memory of this process that is not of a file, also what was moved out of the machine's memory meanwhile."""
    status = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return sum(int(line.split()[1]) for line in status if line.startswith(("RssAnon", "VmSwap")))


def test_memory_does_not_grow_with_the_message() -> None:
    """A string of 400 MB, then 100 MB of small ones."""
    limits = MessageLimits(string_bytes=1 << 30, message_bytes=1 << 30)
    scanner = StreamScanner(limits)
    scanner.feed(string(400 << 20, 0))
    piece = bytes(1 << 18)
    before = own_kib()
    for _ in range(400 * 4):
        assert scanner.feed(piece) is NEED_MORE
    name = (28).to_bytes(4, "big") + b"n" * 28
    assert scanner.feed(b"\x0f\0\2\x0b" + (100 << 15).to_bytes(4, "big")) is NEED_MORE
    names = name * (1 << 13)
    for _ in range(400 - 1):
        assert scanner.feed(names) is NEED_MORE
        assert own_kib() < before + 8192
    assert scanner.feed(names + b"\0more") == len(names) + 1


def test_work_is_in_proportion_to_the_bytes(partitions: bytes) -> None:
    """Small pieces, and a value (one string of 2 MB) much longer than a piece."""

    def cost(data: bytes, size: int) -> float:
        best = 1e9
        for _ in range(3):
            start = time.process_time()
            scanner = MessageScanner()
            for piece in pieces(data, size):
                scanner.feed(piece)
            best = min(best, time.process_time() - start)
        return best

    assert cost(partitions, 1460) < 8 * cost(partitions, 1 << 18)
    header = message.message_header(b"m", MessageType.REPLY, 1)
    small, large = (header + string(size) + b"\0" for size in (1 << 18, 1 << 21))
    assert cost(large, 64) < 8 * 4 * cost(small, 64)


def test_an_abandoned_scanner_is_freed(partitions: bytes) -> None:
    gc.collect()
    gc.disable()
    try:
        scanner = MessageScanner()
        assert scanner.feed(partitions[:100_000]) is NEED_MORE
        assert scanner._struct is not None
        suspended = weakref.ref(scanner._struct._greenlet)
        del scanner
        assert suspended() is None
    finally:
        gc.enable()


LIMITS = MessageLimits(message_bytes=1000, string_bytes=200_000)


@pytest.mark.parametrize("size", [1, 10, 600, 5000])
def test_message_limit(size: int) -> None:
    fits = string(1000 - 8) + b"\0"
    assert scanned(fits, size, LIMITS) == 1000 == end_of_struct(fits, 0, LIMITS)
    for data in (string(1000 - 7) + b"\0", string(500) * 3 + b"\0", string(999_999), b"\x02\0\1\1" * 400):
        with pytest.raises(LimitError) as caught:
            scanned(data, size, LIMITS)
        assert caught.value.limit in ("max_message_bytes", "max_string_bytes")
        with pytest.raises(LimitError):
            end_of_struct(data, 0, LIMITS)


def test_a_long_string_is_refused_before_it_arrives() -> None:
    for limits in (MessageLimits(string_bytes=1000), MessageLimits(message_bytes=1000)):
        with pytest.raises(LimitError):
            StreamScanner(limits).feed(string(1001, 0))
        with pytest.raises(LimitError):
            end_of_struct(string(100 << 20 | 1, 0))


@pytest.mark.parametrize(
    "data",
    [
        string(-1, 0),
        b"\x0f\0\1\x08\xff\xff\xff\xff",
        b"\x0d\0\1\x08\x08\x80\0\0\0",
        b"\x01\0\1",
        b"\x09\0\1",
        b"\x11\0\1",
        b"\xff\0\1",
        b"\x0f\0\1\0\0\0\0\1",
        b"\x0c\0\1" * 100,
        b"\x0f\0\1" + b"\x0f\0\0\0\1" * 100,
    ],
)
def test_malformed(data: bytes) -> None:
    with pytest.raises(WireError):
        end_of_struct(data)
    for size in (1, 2, 1000):
        with pytest.raises(WireError):
            scanned(data, size)


def test_no_more_is_fed_after_the_end() -> None:
    scanner = StreamScanner()
    assert scanner.feed(b"\0") == 1
    with pytest.raises(AssertionError, match="after the end"):
        scanner.feed(b"\0")
