"""Messages: formats, limits, and that anything gives a value or WireError."""

from __future__ import annotations

import base64
import gzip
import json
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hms_cache_proxy.errors import LimitError, WireError
from hms_cache_proxy.follower import messages
from tests.follower import rows


@pytest.mark.parametrize("format", ["json-0.2", "gzip(json-2.0)", "gzip"])
def test_formats(format: str) -> None:
    assert messages.decode(rows.pack({"a": "ü"}, format), format) == {"a": "ü"}


BROKEN = [
    (None, "json-0.2"),
    ("", "json-0.2"),
    ("[1]", "json-0.2"),
    ('{"a":', "json-0.2"),
    ("{}", "protobuf-1"),
    ("!!!", "gzip"),
    ("aGVsbG8=", "gzip"),
    (base64.b64encode(zlib.compress(b"{}")).decode(), "gzip"),
    (base64.b64encode(gzip.compress(b'{"a": 1}', mtime=0)[:-12]).decode(), "gzip(json-2.0)"),
    (base64.b64encode(gzip.compress(b"\xff\xfe", mtime=0)).decode(), "gzip(json-2.0)"),
    ("[" * 100_000, "json-0.2"),
    ('{"a":' * 50_000 + "1" + "}" * 50_000, "json-0.2"),
]


@pytest.mark.parametrize(("message", "format"), BROKEN)
def test_broken(message: str | None, format: str) -> None:
    with pytest.raises(WireError):
        messages.decode(message, format)


@given(st.text(), st.sampled_from(["json-0.2", "gzip", "gzip(json-2.0)", "?", ""]))
def test_any_text_gives_a_value_or_wire_error(message: str, format: str) -> None:
    try:
        assert isinstance(messages.decode(message, format), dict)
    except WireError:
        pass


def test_a_bomb_is_not_unpacked() -> None:
    bomb = base64.b64encode(gzip.compress(b'{"a":"' + b"x" * 5_000_000 + b'"}', mtime=0)).decode()
    with pytest.raises(LimitError):
        messages.decode(bomb, "gzip", limit=1_000_000)
    assert len(messages.decode(bomb, "gzip")["a"]) == 5_000_000
    with pytest.raises(LimitError):
        messages.decode(json.dumps({"a": "x" * 100}), "json-0.2", limit=100)


# What the real metastore (4.2.0) called these partitions; see test_real.py, which asks it again.
NAMES = [
    ((b"p",), (b"1",), b"p=1"),
    ((b"P",), (b"A b",), b"p=A b"),
    ((b"p", b"q"), (b"a/b", b"x=y"), b"p=a%2Fb/q=x%3Dy"),
    ((b"p",), (b"2024-01-01 10:00:00",), b"p=2024-01-01 10%3A00%3A00"),
    ((b"p",), ("ü€".encode(),), "p=ü€".encode()),
    ((b"p",), (b"\x01\x1f\x7f\"#%'*/:=?\\{[]^",), b"p=%01%1F%7F%22%23%25%27%2A%2F%3A%3D%3F%5C%7B%5B%5D%5E"),
    ((b"p",), (b"}~!$&()+,-.;<>@_`|",), b"p=}~!$&()+,-.;<>@_`|"),
    ((b"p",), (b"",), b"p=__HIVE_DEFAULT_PARTITION__"),
    ((b"p",), (b"__HIVE_DEFAULT_PARTITION__",), b"p=__HIVE_DEFAULT_PARTITION__"),
]


@pytest.mark.parametrize(("keys", "values", "name"), NAMES)
def test_partition_names(keys: tuple[bytes, ...], values: tuple[bytes, ...], name: bytes) -> None:
    assert messages.partition_name(keys, values) == name


@pytest.mark.parametrize(("keys", "values"), [((), ()), ((b"p",), ()), ((b"p",), (b"1", b"2"))])
def test_partition_name_needs_a_value_for_each_key(keys: tuple[bytes, ...], values: tuple[bytes, ...]) -> None:
    with pytest.raises(WireError):
        messages.partition_name(keys, values)
