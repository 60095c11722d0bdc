"""Constraints come in the order of names and of the key; foreign keys show what their parents are now."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hms_cache_proxy.cache import targets
from hms_cache_proxy.cache.changes import Changes
from hms_cache_proxy.methods.decision import ClientCall, Decision, Forward, Serve
from hms_cache_proxy.methods.verdicts import question
from hms_cache_proxy.store.foreign_keys import NOWHERE, ColumnPlace, ForeignKey, places_pack
from hms_cache_proxy.store.protocol import ConstraintKind, Constraints, TableRecord
from hms_cache_proxy.wire import spec
from hms_cache_proxy.wire.message import Header, parse_header
from tests.cache.records import DATABASE, flat_table
from tests.methods.warm import Bench, opened
from tests.write_ids.reads import encode
from tests.write_ids.transactions import struct

KEY = [struct("SQLPrimaryKey", column_name=name, key_seq=at, pk_name="k") for at, name in enumerate(("z", "a", "m"), 1)]
NEEDED = [struct("SQLNotNullConstraint", column_name=name, nn_name=f"n_{name}") for name in ("a", "z")]
CHILD, PARENT, OTHER = 91, 92, 93
MAIN = DATABASE[1].decode()
PLACES = [(5, 2), (5, 0), NOWHERE]


def parent(name: bytes, table_id: int, places: list[ColumnPlace] = PLACES) -> TableRecord:
    elements = {
        ConstraintKind.PRIMARY_KEY: tuple(map(spec.encode, KEY)),
        ConstraintKind.PLACES: places_pack(places),
        ConstraintKind.NOT_NULL: tuple(map(spec.encode, NEEDED)),
    }
    return replace(flat_table(name, table_id), constraints=Constraints(elements))


def child(*keys: tuple[str, int, ColumnPlace]) -> TableRecord:
    """A table with these foreign keys: name, parent, place."""
    packed = []
    for at, (name, table_id, place) in enumerate(keys, 1):
        row = spec.encode(struct("SQLForeignKey", fktable_name="bound", fkcolumn_name="c", key_seq=at, fk_name=name))
        packed.append(ForeignKey(table_id, place, row[:-1], row[-1:]).pack())
    parents = tuple(sorted({table_id for _, table_id, _ in keys}))
    return replace(
        flat_table(b"bound", CHILD), constraints=Constraints({ConstraintKind.FOREIGN_KEY: tuple(packed)}, parents)
    )


BOUND = child(
    ("a", OTHER, (5, 0)), ("b", PARENT, (5, 2)), ("b", PARENT, (5, 0)), ("c", PARENT, (5, 1)), ("d", PARENT, NOWHERE)
)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with opened(tmp_path) as made:
        step(made, bound=BOUND, parent=parent(b"parent", PARENT), other=parent(b"other", OTHER))
        yield made


def step(bench: Bench, **tables: TableRecord | None) -> None:
    """A step of the follower that changes these tables."""
    changed = {(*DATABASE, name.encode()): table for name, table in tables.items()}
    bench.step(Changes(cursor=bench.cursor + 1, tables=changed))


def asked(bench: Bench, method: str, request: Any) -> Decision:
    message = encode(method, {"request": request}, 5)
    header = parse_header(message)
    assert isinstance(header, Header)
    return bench.dispatcher.decide(ClientCall.of(bench.session, header, message, time.monotonic_ns()))


def answer(bench: Bench, method: str, request: Any) -> Any:
    decision = asked(bench, method, request)
    assert isinstance(decision, Serve) and isinstance(decision.chunks, bytes), decision
    header = parse_header(decision.chunks)
    assert isinstance(header, Header)
    return spec.decode(spec.result(method), decision.chunks, header.body)[0].success


def of(kind: str, table: str) -> Any:
    return struct(kind, catName="hive", db_name=MAIN, tbl_name=table)


def references(**more: str) -> Any:
    return struct("ForeignKeysRequest", foreign_db_name=MAIN, foreign_tbl_name="bound", catName="hive", **more)


def shown(bench: Bench, **more: str) -> list[tuple[bytes, ...]]:
    found = answer(bench, "get_foreign_keys", references(**more)).foreignKeys
    assert all((key.pktable_db, key.fktable_name, key.pk_name) == (DATABASE[1], b"bound", b"k") for key in found)
    return [(key.fk_name, key.pktable_name, key.pkcolumn_name) for key in found]


ALL = [(b"a", b"other", b"a"), (b"b", b"parent", b"z"), (b"b", b"parent", b"a")]
"""Not `c`, of a column that is not one of the primary key, nor `d`, of a partition key."""


def test_the_columns_of_a_primary_key(bench: Bench) -> None:
    found = answer(bench, "get_primary_keys", of("PrimaryKeysRequest", "parent"))
    assert [(one.column_name, one.key_seq) for one in found.primaryKeys] == [(b"z", 1), (b"a", 2), (b"m", 3)]


def test_other_constraints(bench: Bench) -> None:
    found = answer(bench, "get_not_null_constraints", of("NotNullConstraintsRequest", "parent"))
    assert [one.nn_name for one in found.notNullConstraints] == [b"n_a", b"n_z"]


def test_foreign_keys(bench: Bench) -> None:
    assert shown(bench) == ALL
    whole = answer(
        bench, "get_all_table_constraints",
        struct("AllTableConstraintsRequest", catName="hive", dbName=MAIN, tblName="bound"),
    )  # fmt: skip
    found = whole.allTableConstraints
    assert [(key.fk_name, key.pktable_name) for key in found.foreignKeys] == [one[:2] for one in ALL]
    assert not found.primaryKeys and not found.checkConstraints


def test_foreign_keys_to_one_table(bench: Bench) -> None:
    assert shown(bench, parent_db_name=MAIN, parent_tbl_name=" PARENT") == ALL[1:]
    assert shown(bench, parent_tbl_name="other") == ALL[:1]
    assert shown(bench, parent_db_name=MAIN.upper()) == ALL
    assert shown(bench, parent_db_name="") == shown(bench, parent_tbl_name="bound") == []
    decision = asked(bench, "get_foreign_keys", references(parent_tbl_name="\u00fc"))
    assert isinstance(decision, Forward) and decision.reason == "name"


def test_a_renamed_parent(bench: Bench) -> None:
    """Nothing changes at the table that has the keys."""
    assert shown(bench) == ALL
    step(bench, parent=None, renamed=parent(b"renamed", PARENT))
    assert shown(bench) == [ALL[0], *((name, b"renamed", column) for name, _, column in ALL[1:])]


def test_an_altered_parent(bench: Bench) -> None:
    """Its columns have moved, and the keys to them, which are as before until the follower reads them again."""
    assert shown(bench) == ALL
    step(bench, parent=parent(b"parent", PARENT, [(6, 0), (6, 1), (6, 2)]))
    decision = asked(bench, "get_foreign_keys", references())
    assert isinstance(decision, Forward) and decision.reason == "foreign_keys"
    step(bench, bound=child(("b", PARENT, (6, 0)), ("b", PARENT, (6, 2))))
    assert shown(bench) == [(b"b", b"parent", b"z"), (b"b", b"parent", b"m")]


@pytest.mark.parametrize("gone", ["other", "parent"])
def test_a_dropped_parent(bench: Bench, gone: str) -> None:
    assert shown(bench) == ALL
    step(bench, **{gone: None})
    decision = asked(bench, "get_foreign_keys", references())
    assert isinstance(decision, Forward) and decision.reason == "foreign_keys"


def test_a_write_to_a_parent_holds_the_answer_back(bench: Bench) -> None:
    message = encode("get_foreign_keys", {"request": references()}, 5)
    assert shown(bench) == ALL and bench.hot(message) is not None
    fence = bench.fences.begin([targets.table(*DATABASE, b"parent")], os.getpid())
    assert bench.hot(message) is None
    decision = asked(bench, "get_foreign_keys", references())
    assert isinstance(decision, Forward) and decision.reason == "fence"
    bench.fences.finish(fence)
    bench.step()
    assert shown(bench) == ALL


def test_a_user_is_not_judged_for_tables_that_the_request_does_not_name() -> None:
    """Who is shown a table's constraints need not be shown the tables that its foreign keys refer to."""
    depends = [targets.table(*DATABASE, name) for name in (b"bound", b"parent")]
    asked = question("get_all_table_constraints", b"u", b"request", depends, parts=False)
    assert asked.tables == (depends[0],) and len(asked.keys) == 1


def test_which_tables_refer_to_one(bench: Bench) -> None:
    def referring(table_id: int) -> list[int]:
        with bench.reader.snapshot() as snapshot:
            return snapshot.referring(table_id)

    assert referring(PARENT) == referring(OTHER) == [CHILD]
    step(bench, bound=child(("b", PARENT, (5, 2))))
    assert (referring(PARENT), referring(OTHER)) == ([CHILD], [])
    step(bench, bound=None)
    assert referring(PARENT) == []
