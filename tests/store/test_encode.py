"""Bytes against a decoder that shares no code with the encoder."""

from __future__ import annotations

import pytest

from hms_cache_proxy.store import encode
from tests.testbed.untyped import decode_struct


def whole(*fields: bytes) -> dict[int, tuple[int, object]]:
    return decode_struct(b"".join(fields) + encode.STOP)


def test_fields() -> None:
    decoded = whole(
        encode.string_field(1, "ü".encode()),
        encode.string_field(2, None),
        encode.string_field(3, b""),
        encode.i32_field(4, -1),
        encode.i32_field(5, None),
        encode.i64_field(6, -(1 << 63)),
        encode.bool_field(7, True),
        encode.bool_field(8, False),
    )
    assert decoded == {
        1: (11, "ü".encode()),
        3: (11, b""),
        4: (8, -1),
        6: (10, -(1 << 63)),
        7: (2, True),
        8: (2, False),
    }


@pytest.mark.parametrize(("value", "cut"), [(2**31, -(2**31)), (2**32 + 5, 5), (-(2**31) - 1, 2**31 - 1)])
def test_wide_numbers_are_cut(value: int, cut: int) -> None:
    assert whole(encode.i32_field(1, value)) == {1: (8, cut)}


def test_collections() -> None:
    inner = encode.string_field(1, b"x") + encode.STOP
    decoded = whole(
        encode.header(encode.LIST, 1) + encode.strings([b"a", b""]),
        encode.header(encode.SET, 2) + encode.strings([b"a", b"b"]),
        encode.header(encode.LIST, 3) + encode.structs([inner, inner]),
        encode.header(encode.MAP, 4) + encode.string_map([(b"k", b"v"), (b"", b"")]),
        encode.header(encode.LIST, 5) + encode.lists([encode.strings([b"1"]), encode.strings([])]),
        encode.header(encode.MAP, 6) + encode.list_keyed_map([(encode.strings([b"1", b"2"]), b"place")]),
        encode.header(encode.LIST, 7) + encode.EMPTY_STRINGS,
        encode.header(encode.LIST, 8) + encode.EMPTY_STRUCTS,
        encode.header(encode.MAP, 9) + encode.EMPTY_MAP,
    )
    assert [value for _, value in decoded.values()] == [
        [b"a", b""],
        frozenset((b"a", b"b")),
        [{1: (11, b"x")}] * 2,
        {b"k": b"v", b"": b""},
        [[b"1"], []],
        {(b"1", b"2"): b"place"},
        [],
        [],
        {},
    ]


def test_maps_are_read_back() -> None:
    pairs = {b"k": b"v", b"": b"", "ü".encode(): b"\0\xff"}
    assert encode.read_map(encode.string_map(pairs.items())) == pairs
    assert encode.read_map(encode.EMPTY_MAP) == {}
