"""What `make lakehouse` tells of a job."""

from __future__ import annotations

from tests.clients.lakehouse import JOBS, Outcome
from tests.clients.with_and_without import told

REQUESTS = {("get_table", "hit", ""): 3.0, ("get_table", "miss", "fence"): 1.0, ("drop_table", "write", ""): 2.0}


def test_a_step_that_is_not_ok_is_a_failure() -> None:
    steps = {"append": "ok", "read": "expected [[1]], found [[2]]", "drop": "Py4JJavaError: no"}
    outcome = Outcome("delta", steps, 12.34, REQUESTS)
    assert outcome.failures == {name: steps[name] for name in ("read", "drop")}
    lines = outcome.text().splitlines()
    assert lines[:2] == ["delta: read: expected [[1]], found [[2]]", "delta: drop: Py4JJavaError: no"]
    assert lines[-2:] == [
        "3 of 4 calls other than writes were hits (75.0%)",
        "delta: 3 steps in 12 s, 2 not as they should be",
    ]
    told = outcome.figures()
    assert (told["steps"], told["failures"], told["reads"], told["hits"]) == (3, outcome.failures, 4, 3)


def test_a_job_without_failures() -> None:
    outcome = Outcome("iceberg", {"append": "ok"}, 1.0, {})
    assert outcome.failures == {} and outcome.text().splitlines()[0].startswith("method")


def test_each_job_has_jars_of_its_own() -> None:
    assert len({job.jars for job in JOBS}) == len({job.module for job in JOBS}) == len(JOBS)


def test_steps_with_and_without_the_proxy_are_counted() -> None:
    refused = "Py4JJavaError: Failed to get table info"
    found = told({"create": "ok", "read": "ok", "drop": "ok"}, {"create": "ok", "read": refused, "drop": refused})
    assert (found["steps"], found["through"], found["without"]) == (3, 3, 1)
