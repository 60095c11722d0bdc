"""Foreign keys put together with the primary keys that they refer to."""

from __future__ import annotations

import pytest

from hms_cache_proxy.store import encode
from hms_cache_proxy.store.foreign_keys import (
    NOWHERE,
    ForeignKey,
    Parent,
    PrimaryColumn,
    foreign_keys,
    key_columns,
    known,
    places_pack,
    shown,
)
from hms_cache_proxy.wire import spec

BEFORE = b"".join((encode.string_field(5, b"child"), encode.i32_field(7, 2), encode.string_field(10, b"fk_name")))
AFTER = encode.bool_field(12, True) + encode.string_field(15, b"hive") + encode.STOP
PARENT = Parent(b"db", b"parent", {(7, 3): PrimaryColumn(b"id", b"pk"), (7, 0): PrimaryColumn(b"at", b"pk")})


def key(descriptor: int, number: int) -> ForeignKey:
    return ForeignKey(5, (descriptor, number), BEFORE, AFTER)


def test_elements() -> None:
    keys = [key(7, 3), ForeignKey(2**63, NOWHERE, BEFORE * 2, AFTER)]
    assert list(foreign_keys(2, b"".join(one.pack() for one in keys))) == keys
    assert [one.name for one in keys] == [b"fk_name", b"fk_name"]


def test_the_columns_of_a_primary_key() -> None:
    elements = [
        encode.string_field(3, name) + encode.string_field(5, b"pk") + encode.STOP for name in (b"b", b"p", b"a")
    ]
    packed = places_pack([(7, 1), NOWHERE, (7, 0)])
    columns = {(7, 1): PrimaryColumn(b"b", b"pk"), (7, 0): PrimaryColumn(b"a", b"pk")}
    assert key_columns(3, b"".join(elements), b"".join(packed)) == columns
    assert key_columns(3, b"".join(elements), b"") == {}


def test_an_element_has_the_fields_of_both_tables() -> None:
    element = shown(key(7, 3), PARENT)
    assert element is not None
    row, end = spec.decode(spec.struct("SQLForeignKey"), element, 0)
    assert end == len(element)
    assert (row.pktable_db, row.pktable_name, row.pkcolumn_name, row.pk_name) == (b"db", b"parent", b"id", b"pk")
    assert (row.fktable_name, row.key_seq, row.fk_name, row.enable_cstr, row.catName) == (
        b"child",
        2,
        b"fk_name",
        True,
        b"hive",
    )
    assert element == spec.encode(row)  # its fields are in order


@pytest.mark.parametrize(
    ("descriptor", "number", "is_known"),
    [
        (7, 1, True),  # a column that is not one of the primary key, but of a unique constraint
        (0, 0, True),  # a partition key has no place
        (8, 3, False),  # the parent was altered
    ],
)
def test_what_is_not_shown(descriptor: int, number: int, is_known: bool) -> None:
    assert known(key(descriptor, number), PARENT) == is_known
    assert shown(key(descriptor, number), PARENT) is None


def test_a_parent_without_primary_key() -> None:
    assert not known(key(7, 3), PARENT._replace(columns={}))
