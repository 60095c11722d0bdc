"""Bytes to plain values without a schema, and what is not taken for a value."""

from __future__ import annotations

import struct

import pytest

from tests.testbed.raw import encode_call
from tests.testbed.untyped import Message, decode_message, decode_struct

NAN = struct.pack(">d", float("nan"))
VALUES = {
    "bool": ("02 0001 01", {1: (2, True)}),
    "integers": ("03 0001 ff  06 0002 8000  08 0003 7fffffff  0a 0004 ffffffffffffffff", [-1, -(2**15), 2**31 - 1, -1]),
    "double": ("04 0001" + NAN.hex(), {1: (4, NAN)}),
    "string": ("0b 0001 00000002 00ff", {1: (11, b"\0\xff")}),
    "fields in any order": ("08 0002 00000001  02 0001 00", {1: (2, False), 2: (8, 1)}),
    "struct": ("0c 0001  02 0005 01 00", {1: (12, {5: (2, True)})}),
    "list": ("0f 0001 03 00000002 0201", {1: (15, [2, 1])}),
    "set": ("0e 0001 03 00000002 0201", {1: (14, frozenset((1, 2)))}),
    "map": ("0d 0001 03 0b 00000002 02 00000000 01 00000001 61", {1: (13, {1: b"a", 2: b""})}),
    "map of lists": ("0d 0001 0f 03 00000001 03 00000001 07 09", {1: (13, {(7,): 9})}),
}


@pytest.mark.parametrize("what", list(VALUES))
def test_values(what: str) -> None:
    text, expected = VALUES[what]
    decoded = decode_struct(bytes.fromhex(text) + b"\0")
    assert (decoded if isinstance(expected, dict) else [value for _, value in decoded.values()]) == expected


def test_equal_maps_have_equal_reprs() -> None:
    one, other = (bytes.fromhex(f"0d 0001 03 03 00000002 {entries} 00") for entries in ("0102 0304", "0304 0102"))
    assert one != other and repr(decode_struct(one)) == repr(decode_struct(other))


NO_VALUES = {
    "nothing": "",
    "no end": "02 0001 01",
    "something left": "00 00",
    "a field twice": "02 0001 01 02 0001 01 00",
    "a key twice": "0d 0001 03 03 00000002 01 01 01 02 00",
    "unknown type": "05 0001 00",
    "no bool": "02 0001 02 00",
    "string too long": "0b 0001 00000005 61 00",
    "negative string": "0b 0001 ffffffff 00",
    "list too long": "0f 0001 03 7fffffff 00",
}


@pytest.mark.parametrize("what", list(NO_VALUES))
def test_what_is_no_value(what: str) -> None:
    with pytest.raises(ValueError):
        decode_struct(bytes.fromhex(NO_VALUES[what]))


def test_a_message() -> None:
    message = encode_call("get_table", "d", tbl_name="t", seqid=9)
    assert message == encode_call("get_table", "d", "t", seqid=9)
    assert decode_message(message) == Message("get_table", 1, 9, {1: (11, b"d"), 2: (11, b"t")})
    for broken in (message[1:], message[:-1], message + b"\0"):
        with pytest.raises(ValueError):
            decode_message(broken)
