"""Constraints through a dispatcher: what changes them, and what is kept of the metastore's own answers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from hms_cache_proxy.metrics import WorkerMetrics
from tests.follower.harness import Followed
from tests.methods.local import Asked, Local
from tests.methods.oracle import Oracle
from tests.methods.test_dispatch import until
from tests.methods.world import struct
from tests.store.constrained import Constrained
from tests.store.oracle import Oracle as Untyped
from tests.store.oracle import hms
from tests.testbed.bed import Bed
from tests.testbed.metastore import Metastore

pytestmark = pytest.mark.real
CACHED = ("hit", "hot")


@pytest.fixture(scope="module")
def made(bed: Bed) -> Iterator[Constrained]:
    """Tables whose constraints have the same names."""
    with Untyped(*bed.shared("hive42").address) as oracle:
        constrained = Constrained(oracle, f"mc_{os.getpid()}", alike=True)
        constrained.create()
        yield constrained
        oracle.drop_database(constrained.database, True, True)


def connected(hms42: Metastore, made: Constrained, directory: Any, **settings: object) -> Iterator[Local]:
    include = [f"{made.database}*.*"]
    with Followed(directory / "data", upstream=hms42.uri, include=include, **settings) as followed:
        followed.loaded()
        local = Local.connect(followed, hms42.uri.removeprefix("thrift://"), WorkerMetrics())
        yield local
        local.close()


@pytest.fixture
def local(hms42: Metastore, made: Constrained, tmp_path: Any) -> Iterator[Local]:
    """Over the database."""
    assert hms42.database is not None
    yield from connected(hms42, made, tmp_path, store_url=hms42.database.reader_url)


@pytest.fixture
def over_thrift(hms42: Metastore, made: Constrained, tmp_path: Any) -> Iterator[Local]:
    """Constraints are not known."""
    yield from connected(hms42, made, tmp_path, store="thrift")


def whole(local: Local, made: Constrained, table: str) -> Asked:
    request = struct(
        "AllTableConstraintsRequest", catName=b"hive", dbName=made.database.encode(), tblName=table.encode()
    )
    return local.ask("get_all_table_constraints", request=request)


def not_null(local: Local, made: Constrained, table: str) -> Asked:
    names = {"catName": b"hive", "db_name": made.database.encode(), "tbl_name": table.encode()}
    return local.ask("get_not_null_constraints", request=struct("NotNullConstraintsRequest", **names))


def later(local: Local, question: Callable[[], Asked], wanted: Callable[[Asked], bool]) -> Asked:
    """Until it is as wanted, as somebody who was shown nothing yet: a driver would wait for the follower."""

    def asked() -> Asked:
        local.session.floors = None
        return question()

    return until(asked, wanted)


def columns(asked: Asked) -> list[bytes]:
    return sorted(row.column_name for row in asked.reply.value.success.notNullConstraints)


def test_several_are_in_the_order_of_their_names(local: Local, made: Constrained) -> None:
    """A metastore lists them in no order."""

    def names(asked: Asked) -> list[bytes]:
        return [row.nn_name for row in asked.reply.value.success.allTableConstraints.notNullConstraints]

    first = whole(local, made, "many")
    assert first.by == "hit"
    assert whole(local, made, "many").by == "hot"
    made.not_null("many", ["d"])
    changed = later(local, lambda: whole(local, made, "many"), lambda asked: asked.reply != first.reply)
    assert changed.by == "hit"
    assert names(changed) == sorted([*names(first), b"nn_d"])


def test_own_writes_are_read_at_once(local: Local, made: Constrained) -> None:
    made.table("written")
    local.followed.confirmed()
    assert not_null(local, made, "written").by == "hit"
    row = struct(
        "SQLNotNullConstraint", catName=b"hive", table_db=made.database.encode(), table_name=b"written",
        column_name=b"a", nn_name=b"nn_w", enable_cstr=True, validate_cstr=True, rely_cstr=True,
    )  # fmt: skip
    local.ask("add_not_null_constraint", req=struct("AddNotNullConstraintRequest", notNullConstraintCols=[row]))
    assert columns(not_null(local, made, "written")) == [b"a"]
    assert columns(not_null(local.another(), made, "written")) == [b"a"]
    later(local, lambda: not_null(local, made, "written"), lambda asked: asked.by in CACHED)
    dropped = struct(
        "DropConstraintRequest", dbname=made.database.encode(), tablename=b"written", constraintname=b"nn_w"
    )
    local.ask("drop_constraint", req=dropped)
    assert columns(not_null(local, made, "written")) == []


def keys_of(asked: Asked) -> set[tuple[bytes, bytes, bytes]]:
    """(table referred to, its column, name) of each."""
    found = asked.reply.value.success
    rows = found.foreignKeys if hasattr(found, "foreignKeys") else found.allTableConstraints.foreignKeys
    return {(row.pktable_name, row.pkcolumn_name, row.fk_name) for row in rows}


def foreign(local: Local, made: Constrained, child: str, parent: str | None = None) -> Asked:
    database = made.database.encode()
    names = {"foreign_db_name": database, "foreign_tbl_name": child.encode(), "catName": b"hive"}
    if parent is not None:
        names |= {"parent_db_name": database, "parent_tbl_name": parent.encode()}
    return local.ask("get_foreign_keys", request=struct("ForeignKeysRequest", **names))


def test_foreign_keys_are_answered_until_something_happens_to_either_table(local: Local, made: Constrained) -> None:
    """They name the other table, which may be renamed behind the proxy; who was shown the new name finds it."""
    made.table("mother")
    made.primary_key("mother", ["c", "a"])
    made.table("daughter")
    made.foreign_key("daughter", "mother", [("c", "a"), ("a", "b")])
    questions = [
        lambda: whole(local, made, "daughter"),
        lambda: foreign(local, made, "daughter"),
        lambda: foreign(local, made, "daughter", "mother"),
    ]
    local.followed.loaded()
    name = made.name("fk", "daughter", None).lower().encode()

    def expect(table: bytes, column: bytes) -> None:
        """Each question's answer changes to this, and is then kept."""
        wanted = {(table, b"c", name), (table, column, name)}
        for question in questions:
            later(local, question, lambda asked: asked.by in CACHED and keys_of(asked) == wanted)

    expect(b"mother", b"a")
    made.rename("mother", "matron")
    questions.pop()  # it asks for keys to another table
    expect(b"matron", b"a")
    request = struct("GetTableRequest", dbName=made.database.encode(), tblName=b"matron")
    assert local.ask("get_table_req", req=request).reply.value.success is not None
    made.drop("daughter", name.decode())
    for question in questions:
        later(local, question, lambda asked: not keys_of(asked))
    assert later(local, questions[1], lambda asked: asked.by in CACHED)


def test_a_foreign_key_that_goes_with_its_name(local: Local, made: Constrained) -> None:
    """Dropping a constraint of the same name elsewhere takes it along, and so does dropping what it refers to."""
    for name in ("aunt", "niece", "stranger"):
        made.table(name)
    made.primary_key("aunt", ["c"])
    made.foreign_key("niece", "aunt", [("c", "a")])
    local.followed.loaded()
    key = made.name("fk", "niece", None)

    def question() -> Asked:
        return foreign(local, made, "niece")

    later(local, question, lambda asked: asked.by == "hot" and bool(keys_of(asked)))
    row = hms.SQLNotNullConstraint(
        catName="hive", table_db=made.database, table_name="stranger", column_name="a", nn_name=key,
        enable_cstr=True, validate_cstr=False, rely_cstr=True,
    )  # fmt: skip
    made.oracle.add_not_null_constraint(hms.AddNotNullConstraintRequest([row]))
    later(local, question, lambda asked: asked.by == "hot" and bool(keys_of(asked)))
    made.drop("stranger", key)
    later(local, question, lambda asked: not keys_of(asked))
    made.foreign_key("niece", "aunt", [("c", "a")])
    later(local, question, lambda asked: asked.by == "hot" and bool(keys_of(asked)))
    made.oracle.drop_table(made.database, "aunt", True)
    later(local, question, lambda asked: not keys_of(asked))


def test_own_rename_of_what_is_referred_to_is_read_at_once(local: Local, made: Constrained) -> None:
    for name in ("lord", "serf"):
        made.table(name)
    made.primary_key("lord", ["c"])
    made.foreign_key("serf", "lord", [("c", "a")])
    local.followed.loaded()
    later(local, lambda: foreign(local, made, "serf"), lambda asked: asked.by == "hot")
    request = struct("GetTableRequest", dbName=made.database.encode(), tblName=b"lord")
    table = local.ask("get_table_req", req=request).reply.value.success.table
    table.tableName = b"king"
    local.ask("alter_table", dbname=made.database.encode(), tbl_name=b"lord", new_tbl=table)
    assert {parent for parent, _, _ in keys_of(foreign(local, made, "serf"))} == {b"king"}
    assert {parent for parent, _, _ in keys_of(foreign(local.another(), made, "serf"))} == {b"king"}


def test_over_thrift_they_are_learned(over_thrift: Local, made: Constrained, hms42: Metastore) -> None:
    """Also what is dropped along with a constraint of the same name elsewhere is noticed."""
    local = over_thrift
    for name in ("here", "there"):
        made.table(name)
        made.not_null(name, ["f"])
    local.followed.loaded()
    first = not_null(local, made, "here")
    assert (first.by, first.reason, columns(first)) == ("miss", "not_cached", [b"f"])
    assert later(local, lambda: not_null(local, made, "here"), lambda asked: asked.by == "hot").reply == first.reply
    with Oracle(hms42.uri.removeprefix("thrift://")) as hms:
        hms.do("drop_table", dbname=made.database.encode(), name=b"there", deleteData=True)
    later(local, lambda: not_null(local, made, "here"), lambda asked: not columns(asked))
    for _ in range(3):
        assert whole(local, made, "one_each").by == "miss"
        local.followed.confirmed()
