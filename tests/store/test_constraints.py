"""Constraints of a store: what the metastore says of each table, in an order of their own.

Not of Hive 2.3, which has two of the six kinds and logs none: they are never answered from the cache there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from hms_cache_proxy.store.foreign_keys import Parent, foreign_keys, key_columns, shown
from hms_cache_proxy.store.protocol import ConstraintKind, RawStore, TableRecord
from tests.store.conftest import World
from tests.store.constrained import Constrained
from tests.testbed.untyped import decode_struct

FOREIGN_KEYS = 2
FLAVOURS = ("embedded", "embedded-postgresql", "hive42", "hive40", "hive31", "hive42-mariadb")
pytestmark = pytest.mark.parametrize("world", FLAVOURS, indirect=True)


@pytest.fixture(scope="session")
def constrained(world: World) -> Iterator[Constrained]:
    made = Constrained(world.oracle, f"sc_{os.getpid()}_{world.content.version.replace('.', '')}")
    made.create()
    yield made
    world.oracle.drop_database(made.database, True, True)


def of_all_tables(store: RawStore, constrained: Constrained) -> dict[bytes, TableRecord]:
    database = constrained.database.encode()
    with store.snapshot() as snapshot:
        names = [name for name, _, _ in snapshot.table_names(b"hive", database)]
        tables = snapshot.tables(b"hive", database, names)
    assert len(tables) == 8
    return tables


def test_a_store_without_constraints(store: RawStore, constrained: Constrained) -> None:
    if store.identity.exact:
        pytest.skip("this store reads constraints")
    assert all(table.constraints is None for table in of_all_tables(store, constrained).values())


def test_constraints(store: RawStore, constrained: Constrained) -> None:
    if not store.identity.exact:
        pytest.skip("this store reads no constraints")
    tables = of_all_tables(store, constrained)
    several = 0
    for name, table in tables.items():
        assert table.constraints is not None
        answers = constrained.answers(name.decode())
        if store.identity.hive_line.startswith("4."):
            assert constrained.whole_answer(name.decode()) == answers
        foreign = answers.pop(FOREIGN_KEYS)
        parents = {tables[row[2][1]].table_id for row in foreign}
        assert table.constraints.parents == tuple(sorted(parents)), name
        assert sorted(map(repr, put_together(tables, table))) == sorted(map(repr, foreign)), name
        for field, answer in answers.items():
            kind = ConstraintKind(field)
            elements = [decode_struct(element) for element in table.constraints.elements.get(kind, ())]
            assert sorted(map(repr, elements)) == sorted(map(repr, answer)), (name, kind)
            several += len(answer) > 1
        assert table.constraints.nothing == (not any(answers.values()) and not foreign)
    assert several == 6


def put_together(tables: dict[bytes, TableRecord], table: TableRecord) -> list[dict[int, tuple[int, Any]]]:
    """A table's foreign keys, with what the tables have that they refer to."""
    assert table.constraints is not None
    elements = table.constraints.elements.get(ConstraintKind.FOREIGN_KEY, ())
    found = []
    for key in foreign_keys(len(elements), b"".join(elements)):
        (parent,) = (one for one in tables.values() if one.table_id == key.parent)
        assert parent.constraints is not None
        primary, places = (
            parent.constraints.elements[kind] for kind in (ConstraintKind.PRIMARY_KEY, ConstraintKind.PLACES)
        )
        columns = key_columns(len(primary), b"".join(primary), b"".join(places))
        element = shown(key, Parent(parent.database, parent.name, columns))
        assert element is not None
        found.append(decode_struct(element))
    return found


def test_constraints_are_ordered(store: RawStore, constrained: Constrained) -> None:
    if not store.identity.exact:
        pytest.skip("this store reads no constraints")
    with store.snapshot() as snapshot:
        table = snapshot.tables(b"hive", constrained.database.encode(), [b"many"])[b"many"]
    assert table.constraints is not None
    rows = [decode_struct(element) for element in table.constraints.elements[ConstraintKind.UNIQUE]]
    assert [(row[6][1][-2:], row[5][1]) for row in rows] == [(b"_a", 1), (b"_a", 2), (b"_z", 1), (b"_z", 2)]
    keys = [decode_struct(element) for element in table.constraints.elements[ConstraintKind.PRIMARY_KEY]]
    assert [row[3][1] for row in keys] == [b"b", b"a", b"e", b"d", b"c"]
    tables = of_all_tables(store, constrained)
    references = put_together(tables, tables[b"child"])
    assert [(row[3][1], row[6][1], row[7][1]) for row in references] == [(b"c", b"a", 1), (b"a", b"b", 2)]
