"""The questions of the proxy's readers (tests/methods), asked to Hive 4.2.0 and to the embedded metastore: one answer.

A share of them in each run; all with QUESTIONS=all.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

import pytest

from hms_cache_proxy.wire.message import MessageType
from tests.comparison import first_difference, is_unordered
from tests.embedded.differential import Asked
from tests.methods.oracle import Reply
from tests.methods.questions import Question, everything
from tests.methods.test_readers import UNORDERED, comparable
from tests.methods.world import World
from tests.testbed.bed import Bed
from tests.testbed.embedded import EMBEDDED
from tests.testbed.metastore import Metastore

pytestmark = pytest.mark.real

STRIDE = 1 if os.environ.get("QUESTIONS") == "all" else 12
QUESTIONS = [question for question in everything() if "4.2" in question.releases]


def differs(question: Question) -> bool:
    """What docs/metastore.md says of it: Hive fails, asks Java classes, or wants Java objects. For each method, one of
    these questions does differ (test_what_is_left_out_differs)."""
    asked = repr(question.arguments)
    if "of_json" in asked or "ClientCapabilities()" in asked:
        return True
    if question.method.startswith(("get_partition", "get_fields", "get_schema")) and re.search("[#!]'", asked):
        return True
    match question.method:
        case "get_aggr_stats_for":
            return question.reason == "statistics"
        case "get_tables_ext":
            return True
        case "get_databases":
            return "b'|'" in asked
        case "get_database_req":
            return "b'hive '" in asked
        case "get_partition_names_req":
            return question.reason in ("filter_unsupported", "order")
        case "get_partitions_statistics_req":
            return "b'absent'" in asked and not ("colNames" in asked and "partNames" in asked)
        case "get_table_statistics_req" if "b'absent'" in asked:
            return "colNames" not in asked
        case "get_table_column_statistics" | "get_table_statistics_req":
            return "b'unknown'" in asked and "b'mixed'" in asked
    return False


class Answering:
    """A metastore with the world in it."""

    def __init__(self, metastore: Metastore, world: World) -> None:
        places = {str(metastore.external): b"/WH/external", str(metastore.warehouse): b"/WH/managed"}
        self._asked = Asked(metastore.address, world.database.decode().removesuffix("main"), places)
        self._world = world

    def answer(self, question: Question) -> Any:
        """In a form that can be compared."""
        arguments = self._world.filled(question.arguments)
        reply: Reply = self._asked._oracle.read(question.method, **arguments)
        if reply.type is MessageType.EXCEPTION:
            return reply.type.name  # its text is Java's
        alike = (question.method,) if is_unordered(question.method, question.arguments) else UNORDERED
        return self._asked._common(comparable(question.method, reply.value, alike))

    def close(self) -> None:
        self._asked.close()


def answering(metastore: Metastore, world: World) -> Iterator[Answering]:
    made = Answering(metastore, world)
    yield made
    made.close()


@pytest.fixture(scope="module")
def hive(bed: Bed) -> Iterator[Answering]:
    """Hive 4.2.0 with a world of this module."""
    metastore = bed.private_metastore("hive42")
    world = World("{}:{}".format(*metastore.address), "", "eq_")
    world.create()
    yield from answering(metastore, world)
    bed.release(metastore)


@pytest.fixture(scope="module", params=EMBEDDED)
def ours(request: pytest.FixtureRequest, bed: Bed) -> Iterator[Answering]:
    """The embedded metastore with the same."""
    metastore = bed.private_metastore(request.param)
    world = World("{}:{}".format(*metastore.address), "", "eq_")
    world.create()
    yield from answering(metastore, world)
    bed.release(metastore)


@pytest.mark.timeout(600)
def test_as_hive_answers(hive: Answering, ours: Answering) -> None:
    found, asked = [], 0
    for number, question in enumerate(QUESTIONS[::STRIDE]):
        if not differs(question):
            asked += 1
            where = first_difference(hive.answer(question), ours.answer(question))
            if where:
                found.append(f"{number * STRIDE} {question.method}{question.arguments}: {where}")
    assert not found, f"{len(found)} of {asked}:\n" + "\n".join(found)
    assert asked > len(QUESTIONS) // STRIDE * 0.95


@pytest.mark.timeout(600)
def test_what_is_left_out_differs(hive: Answering, ours: Answering) -> None:
    """Else it is no longer to be left out."""
    alike: dict[str, bool] = {}
    for question in filter(differs, QUESTIONS):
        if alike.get(question.method, True):
            alike[question.method] = not first_difference(hive.answer(question), ours.answer(question))
    assert not [method for method, is_alike in alike.items() if is_alike]
    assert len(alike) == 19
