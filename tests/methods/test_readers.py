"""Every reader against a real metastore: the same answer, and from the cache where promised."""

from __future__ import annotations

import os
from typing import Any

import pytest

from hms_cache_proxy.methods.table import METHODS
from hms_cache_proxy.wire import facts
from tests.comparison import UNORDERED_BEFORE, in_any_order
from tests.methods.local import Asked, Local
from tests.methods.oracle import Oracle, Reply, plain
from tests.methods.questions import Question, everything
from tests.methods.test_dispatch import until
from tests.methods.test_expressions import READERS
from tests.methods.world import World

pytestmark = pytest.mark.real

UNORDERED = (
    *("get_all_tables", "get_tables", "get_table_meta", "get_table_objects_by_name", "get_table_objects_by_name_req"),
    *("get_partition_names_ps", "get_partition_names_ps_req"),
    *("get_primary_keys", "get_unique_constraints", "get_not_null_constraints", "get_default_constraints"),
    *("get_check_constraints", "get_foreign_keys", "get_all_table_constraints", "get_table_statistics_req"),
    *("get_partitions_statistics_req", "get_aggr_stats_for"),
)
"""A metastore asks its database for these without an order; these tests run with list_order = name."""

STRIDE_23 = 4
"""One question in so many is put to Hive 2.3, which is slow; all with QUESTIONS=all."""

STRIDE_EMBEDDED = 12
"""Likewise to the embedded metastore, which is asked the same as Hive 4.2."""


def comparable(method: str, value: Any, unordered: tuple[str, ...] = UNORDERED) -> Any:
    return in_any_order(plain(value)) if method in unordered else plain(value)


def compare(world: World, local: Local, question: Question, unordered: tuple[str, ...] = UNORDERED) -> None:
    arguments = world.filled(question.arguments)
    own = local.oracle.read(question.method, **arguments)
    compare_with(own, local, question, arguments, unordered)


def compare_old(world: World, local: Local, question: Question) -> None:
    """Up to Hive 3.1, over new connections. On one, PostgreSQL's driver has a statement planned for any values from its
    fifth run on, and filters on integers then fail or not: these metastores cast what they should not."""
    arguments = world.filled(question.arguments)
    with Oracle(world.address) as oracle:
        own = oracle.ask(question.method, **arguments)
    local.oracle.reconnect()
    compare_with(own, local, question, arguments, (*UNORDERED, *UNORDERED_BEFORE))


def asked_alike(
    own: Reply, local: Local, question: Question, arguments: dict[str, Any], unordered: tuple[str, ...]
) -> Asked:
    """Ask; the reply must be the metastore's own."""
    local.session.floors = None
    asked = local.ask(question.method, **arguments)
    assert (asked.reply.type, comparable(question.method, asked.reply.value, unordered)) == (
        own.type,
        comparable(question.method, own.value, unordered),
    )
    return asked


def compare_with(
    own: Reply, local: Local, question: Question, arguments: dict[str, Any], unordered: tuple[str, ...]
) -> None:
    asked = asked_alike(own, local, question, arguments, unordered)
    reason = "" if asked.by in ("hit", "hot") else asked.reason
    if asked.by == "hot" and question.reason:
        return  # learned from an equal question
    assert reason == question.reason


def reason_23(question: Question) -> str:
    """Hive 2.3 knows no catalogs, logs nothing of constraints, and has words of its own for names of partitions."""
    method, arguments = question.method, question.arguments
    if method in ("get_primary_keys", "get_foreign_keys"):
        return "unlogged"
    if method == "get_part_specs_by_filter":
        return "release"
    if method.startswith(("get_fields", "get_schema")) and question.reason in ("", "name", "serde"):
        return "name" if "@" in repr(arguments) else "release"
    if question.reason == "unlogged" and "validWriteIdList=b" in repr(arguments):
        return "table_id"
    if question.reason in ("", "location", "not_loaded", "unlogged"):
        if any(isinstance(value, bytes) and value.startswith(b"@") for value in arguments.values()):
            return "release" if method == "get_databases" else "name"
        absent = arguments.get("tbl_name") in (b"Absent", b"x")
        if method == "get_partition_names" and (absent or arguments["max_parts"] == 0):
            return "release"
    return question.reason


def numbered(release: str) -> list[Any]:
    asked = "3.1" if release == "2.3" else release
    questions = [question for question in everything() if asked in question.releases]
    if release in ("3.1", "2.3"):
        version = {"3.1": "3.1.3", "2.3": "2.3.10"}[release]
        questions = [question for question in questions if version in facts.METHODS[question.method].versions]
        questions = [q if q.reason_31 is None else q._replace(reason=q.reason_31) for q in questions]
    if release == "2.3":
        without = [q._replace(reason=reason_23(q)) for q in questions if "insert_only" not in repr(q.arguments)]
        questions = without if os.environ.get("QUESTIONS") == "all" else without[::STRIDE_23]
    return [pytest.param(q, id=f"{at}-{q.method}") for at, q in enumerate(questions)]


def without_proof() -> list[Any]:
    """Those about transactional tables, or with a table's id, that prove nothing."""
    return [param for param in numbered("4.2") if param.values[0].reason in ("no_write_id", "table_id", "write_id")]


def share_of_embedded() -> list[Any]:
    questions = numbered("4.2")
    return questions if os.environ.get("QUESTIONS") == "all" else questions[::STRIDE_EMBEDDED]


@pytest.mark.parametrize("question", numbered("4.2"))
def test_as_hive_4_2(world42: World, local42: Local, question: Question) -> None:
    compare(world42, local42, question)


@pytest.mark.parametrize("question", share_of_embedded())
def test_as_the_embedded_one(world_embedded: World, local_embedded: Local, question: Question) -> None:
    """It answers as Hive 4.2 does (tests/embedded/test_questions.py), and so does a cache over its tables."""
    compare(world_embedded, local_embedded, question)


@pytest.mark.parametrize("question", numbered("4.0"))
def test_as_hive_4_0(world40: World, local40: Local, question: Question) -> None:
    compare(world40, local40, question, (*UNORDERED, *UNORDERED_BEFORE))


@pytest.mark.parametrize("question", numbered("3.1"))
def test_as_hive_3_1(world31: World, local31: Local, question: Question) -> None:
    compare_old(world31, local31, question)


@pytest.mark.parametrize("question", numbered("2.3"))
def test_as_hive_2_3(world23: World, local23: Local, question: Question) -> None:
    compare_old(world23, local23, question)


@pytest.mark.parametrize("question", without_proof())
def test_without_proof_after_a_look(world42: World, looking42: Local, question: Question) -> None:
    """transactional_reads = "strict", the default: the same answer, from the cache; of tables only to clients that name
    their capabilities."""
    arguments = world42.filled(question.arguments)
    own = looking42.oracle.read(question.method, **arguments)
    found = until(
        lambda: asked_alike(own, looking42, question, arguments, UNORDERED),
        lambda asked: (asked.by, asked.reason) != ("miss", "strict"),
    )
    tables = question.method in ("get_table_req", "get_table_objects_by_name_req") and question.reason == "no_write_id"
    assert (found.by, found.reason) == (("miss", "capabilities") if tables else ("hit", "strict"))


def test_every_reader_is_asked() -> None:
    """Those of expressions in test_expressions.py, as only Hive's planner can write an expression."""
    asked = {q.method for q in everything() if not q.reason}
    assert {name for name, row in METHODS.items() if row.reads} == asked | READERS.keys()
