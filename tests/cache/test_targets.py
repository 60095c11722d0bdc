"""What a target says of itself."""

from __future__ import annotations

import pytest

from hms_cache_proxy.cache import targets as t

C, D, T = b"hive", b"d", b"t"


@pytest.mark.parametrize(
    "target",
    [
        t.database(C, D),
        t.tables(C, D),
        t.members(C, D),
        t.table(C, D, T),
        t.partitions(C, D, T),
        t.called(C, D, T, b"p=1"),
        t.rights(C, D),
        t.rights(C, D, T),
    ],
)
def test_what_is_in_a_database(target: t.Target) -> None:
    assert t.database_in(target) == D


@pytest.mark.parametrize(
    "target",
    [t.ALL, t.UNKNOWN, t.FUNCTIONS, t.CATALOGS, t.DESCRIPTIONS, t.ROLES, t.WIDE_RIGHTS, t.CONSTRAINTS, t.databases(C)],
)
def test_what_is_in_none(target: t.Target) -> None:
    assert t.database_in(target) is None


def test_names() -> None:
    assert t.names_in(t.databases(C)) == [C]
    assert t.names_in(t.table(C, D, T)) == [C, D, T]
    assert t.names_in(t.called(C, D, T, b"p=\0")) == [C, D, T, b"p=\0"], "a client may give any name"
    assert len(t.names_in(t.table(C, D, b"t\0"))) == 4, "no table has such a name"
