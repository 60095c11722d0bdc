"""The columns of a primary key come in the order of the key; other constraints have no order that the cache knows."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hms_cache_proxy.cache.changes import Changes
from hms_cache_proxy.methods.decision import Decision, Forward, Serve
from hms_cache_proxy.store.protocol import ConstraintKind, Constraints
from hms_cache_proxy.wire import spec
from hms_cache_proxy.wire.message import Header, parse_header
from tests.cache.records import DATABASE, flat_table
from tests.methods.warm import Bench, opened
from tests.write_ids.reads import encode
from tests.write_ids.transactions import struct

KEY = [struct("SQLPrimaryKey", column_name=name, key_seq=at, pk_name="k") for at, name in enumerate(("z", "a", "m"), 1)]
NEEDED = [struct("SQLNotNullConstraint", column_name=name, nn_name=f"n_{name}") for name in ("z", "a")]
NAMES = {"catName": "hive", "db_name": DATABASE[1].decode(), "tbl_name": "bound"}


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with opened(tmp_path) as made:
        elements = {
            ConstraintKind.PRIMARY_KEY: tuple(map(spec.encode, KEY)),
            ConstraintKind.NOT_NULL: tuple(map(spec.encode, NEEDED)),
        }
        table = replace(flat_table(b"bound", 91), constraints=Constraints(elements))
        made.step(Changes(cursor=11, tables={(*DATABASE, b"bound"): table}))
        yield made


def asked(bench: Bench, method: str, kind: str) -> Decision:
    message = encode(method, {"request": struct(kind, **NAMES)}, 5)
    header = parse_header(message)
    assert isinstance(header, Header)
    return bench.dispatcher.decide(bench.session, header, message, time.monotonic_ns())


def test_the_columns_of_a_primary_key(bench: Bench) -> None:
    decision = asked(bench, "get_primary_keys", "PrimaryKeysRequest")
    assert isinstance(decision, Serve) and isinstance(decision.chunks, bytes), decision
    header = parse_header(decision.chunks)
    assert isinstance(header, Header)
    answer, _ = spec.decode(spec.result("get_primary_keys"), decision.chunks, header.body)
    assert [(one.column_name, one.key_seq) for one in answer.success.primaryKeys] == [(b"z", 1), (b"a", 2), (b"m", 3)]


def test_other_constraints(bench: Bench) -> None:
    decision = asked(bench, "get_not_null_constraints", "NotNullConstraintsRequest")
    assert isinstance(decision, Forward) and decision.reason == "order"
