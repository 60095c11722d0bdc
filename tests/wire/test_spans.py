"""Spans beyond what the golden tests show: fields the class lacks, errors, splicing."""

from __future__ import annotations

import pytest

from hms_cache_proxy.errors import WireError
from hms_cache_proxy.wire import spec
from hms_cache_proxy.wire.spans import end_of_value, fields_of, list_spans
from hms_cache_proxy.wire.spec import TType

Partition = spec.struct("Partition")
FieldSchema = spec.struct("FieldSchema")


def test_splicing_replaces_one_field() -> None:
    """What callers do: new values, the rest byte for byte, an unknown field kept."""
    unknown = b"\x0b\x00\xc8\0\0\0\3new"
    data = spec.encode(Partition(values=["1"], dbName="d", parameters={"a": "b"}))[:-1] + unknown + b"\0"
    spans = fields_of(data, 0, Partition)
    assert [span[0] for span in spans] == [1, 2, 7, 200]
    _, _, start, end = spans[0]
    values = spec.encode(Partition(values=["2", "3"]))[3:-1]
    spliced = data[:start] + values + data[end:]
    assert spec.decode(Partition, spliced)[0] == Partition(values=[b"2", b"3"], dbName=b"d", parameters={b"a": b"b"})
    assert unknown in spliced


@pytest.mark.parametrize(
    "extra",
    [
        b"\x08\x00\x63\0\0\0\1",  # an id that the class has not
        b"\x08\xff\xff\0\0\0\1",  # a negative id
        b"\x08\0\1\0\0\0\1",  # values with another type
        b"\x0f\0\1\x08\0\0\0\1\0\0\0\5",  # a list of other elements
        b"\x0d\0\1\x08\x02\0\0\0\2\0\0\0\5\1\0\0\0\5\0",  # a map
        b"\x10\0\x14" + bytes(16),  # a UUID
    ],
)
@pytest.mark.parametrize("place", ["first", "last", "between"])
def test_fields_that_the_class_lacks(extra: bytes, place: str) -> None:
    first, last = spec.encode(Partition(values=["1"]))[:-1], spec.encode(Partition(dbName="d"))[:-1]
    parts = {"first": [extra, first, last], "last": [first, last, extra], "between": [first, extra, last]}
    data = b"".join(parts[place]) + b"\0"
    spans = fields_of(data, 0, Partition)
    assert spans == fields_of(data)
    assert [data[start - 3 : end] for _, _, start, end in spans] == parts[place]


def test_a_field_twice() -> None:
    one = spec.encode(Partition(dbName="d"))[:-1]
    data = one + one + b"\0"
    assert [span[0] for span in fields_of(data, 0, Partition)] == [2, 2]


def test_list_spans_of_every_element_type() -> None:
    parts = [spec.encode(FieldSchema(name=str(at))) for at in range(5)]
    data = b"x" + b"\x0c\0\0\0\5" + b"".join(parts) + b"y"
    assert [data[start:end] for start, end in list_spans(data, 1)] == parts
    assert list_spans(b"\x0b\0\0\0\2\0\0\0\1a\0\0\0\0", 0) == [(5, 10), (10, 14)]
    assert list_spans(b"\x08\0\0\0\2" + bytes(8), 0) == [(5, 9), (9, 13)]
    assert list_spans(b"\x0f\0\0\0\1\x03\0\0\0\2ab", 0) == [(5, 12)]
    assert list_spans(b"\0\0\0\0\0", 0) == []


def test_end_of_value() -> None:
    assert end_of_value(b"..\0\0\0\2ab", 2, TType.STRING) == 8
    assert end_of_value(b"\0", 0, TType.STRUCT) == 1
    assert end_of_value(b"\x0b\x08\0\0\0\1\0\0\0\1a\0\0\0\7", 0, TType.MAP) == 15


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x0b",
        b"\x0b\0\1",
        b"\x0b\0\1\0\0\0\5abc",
        b"\x0b\0\1\xff\xff\xff\xff",
        b"\x0b\0\1\0\0\0\0",
        b"\x0f\0\1\x0c\x7f\xff\xff\xff",
        b"\x0f\0\1\x08\xff\xff\xff\xff",
        b"\x0f\0\1\x0a\0\0\0\2" + bytes(15),
        b"\x0d\0\1\x0b\x0b\0\0\0\1\0\0\0\0",
        b"\x0d\0\1\x0b",
        b"\x01\0\1",
        b"\x0f\0\1\x01\0\0\0\1\0",
        b"\x0f\0\1" + b"\x0f\0\0\0\1" * 100_000,
        b"\x0c\0\1" * 100_000,
        b"\x0d\0\1" + b"\x03\x0d\0\0\0\1\0" * 1000,
    ],
)
def test_malformed(data: bytes) -> None:
    for cls in (None, Partition, FieldSchema):
        with pytest.raises(WireError):
            fields_of(data, 0, cls)
    with pytest.raises(WireError):
        list_spans(data[3:], 0)
        list_spans(data, 0)
