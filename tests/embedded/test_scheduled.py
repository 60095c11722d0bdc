"""Runs of a scheduled query, told to Hive 4.2.0 and to the embedded metastore, each with its numbers of executions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.embedded.differential import Asked
from tests.embedded.scheduled_scripts import ALTER, CREATE, DROP, Queries
from tests.testbed.metastore import Metastore

INITED, EXECUTING, FAILED, FINISHED, TIMED_OUT, AUTO_DISABLED = range(6)


def runs(asked: Asked, queries: Queries) -> Iterator[Any]:
    """What is answered. Each run begins with a time of the query that has passed."""
    for states in (
        (INITED, EXECUTING, INITED, EXECUTING, TIMED_OUT, EXECUTING),
        (EXECUTING, FINISHED, EXECUTING),
        (FAILED, FINISHED),
        (AUTO_DISABLED, FINISHED),
    ):
        yield asked.ask(*queries.keep(ALTER, "q", nextExecution=6))
        method, arguments = queries.poll()
        polled = asked._oracle.ask(method, **arguments)
        execution = polled.value.success.executionId
        yield asked._common(polled.plain)
        yield asked.ask(*queries.get("q"))
        for state in states:
            yield asked.ask(*queries.keep(ALTER, "q", nextExecution=6))
            yield asked.ask(*queries.poll())
            yield asked.ask(*queries.progress(execution, state, errorMessage="e" if state == FAILED else None))
        yield list(asked.ask(*queries.poll())[1]["success"][1])
        yield asked.ask(*queries.keep(DROP, "q"))
        yield list(asked.ask(*queries.progress(execution, FINISHED))[1])
        yield asked.ask(*queries.keep(CREATE, "q"))


@pytest.mark.real
def test_runs(hms42: Metastore, embedded: Metastore, unique_name: str) -> None:
    queries = Queries(unique_name)
    both = Asked(hms42.address, unique_name, {}), Asked(embedded.address, unique_name, {})
    hive, ours = ([asked.ask(*queries.keep(CREATE, "q")), *runs(asked, queries)] for asked in both)
    for asked in both:
        asked.close()
    assert ours == hive
