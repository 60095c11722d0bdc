"""Names as a metastore takes them apart and folds them; each row was seen at Hive 4.0.0 and 4.2.0."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hms_cache_proxy.consistency import names

SPLIT: list[tuple[bytes | None, tuple[bytes, bytes | None] | None]] = [
    (b"db", (b"hive", b"db")),
    (b"@cat#db", (b"cat", b"db")),
    (b"@Cat #Db", (b"Cat ", b"Db")),
    (b"@cat#a#b", (b"cat", b"a#b")),
    (b"@cat#", (b"cat", None)),
    (b"@cat#!", (b"cat", b"")),
    (b"@#db", (b"", b"db")),
    (b"@cat", None),
    (b" @cat#db", (b"hive", b" @cat#db")),
    (b"", (b"hive", b"")),
    (None, (b"hive", None)),
]

READ: list[tuple[bytes | None, bytes | None]] = [
    (b" DB\t\r\n", b"db"),
    (b"\x00\x01db\x1f", b"db"),
    (b"a b", b"a b"),
    (b"a\x00b", None),
    (b"db\xc2\xa0", None),
    ("\u212aey".encode(), None),
    (b"\xff", None),
    (b"", b""),
    (None, None),
]


@pytest.mark.parametrize(("raw", "parts"), SPLIT)
def test_split(raw: bytes | None, parts: tuple[bytes, bytes | None] | None) -> None:
    assert names.split_database(raw) == parts


@pytest.mark.parametrize(("raw", "name"), READ)
def test_read(raw: bytes | None, name: bytes | None) -> None:
    assert names.read_name(raw) == name


def test_a_write_by_an_exotic_spelling_meets_the_plain_name() -> None:
    """KELVIN SIGN is folded to k by Java too."""
    assert names.write_name("\u212aEY ".encode()) == b"key"
    assert names.write_name(b"\xff") is not None
    assert names.write_database("@HIVE#\u212a".encode(), b"other") == (b"hive", b"k")
    assert names.write_database(b"Db", b" Cat") == (b"cat", b"db")
    assert names.write_database(b"@cat", None) is None


@given(st.binary(max_size=20))
def test_reads_and_writes_fold_alike(raw: bytes) -> None:
    read = names.read_name(raw)
    assert read is None or read == names.write_name(raw)
