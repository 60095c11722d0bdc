"""A second run for tests that wait for something: `.ci/run` alone asks for it (`--again`), and it is listed as a rerun.

Job: the list of such tests. Must not know: why one failed.
Invariants: a test that compares answers is not in it, as a wrong or stale answer is never asked again; nor is one with
a planted bug. What is in it measures time, or starts programs whose time-outs a machine with two busy cores can exceed.
The list is to become empty (docs/testing.md).
"""

from __future__ import annotations

import pytest

WAITING = (
    "tests/clients/test_flink",
    "tests/clients/test_spark",
    "tests/follower/test_following_thrift.py::test_concurrent_changes",
    "tests/ops/test_demo",
    "tests/ops/test_drain",
    "tests/ops/test_slow_database",
    "tests/ops/test_supervisor",
    "tests/pipeline/",
    "tests/recording/test_serve",
    "tests/server/test_faults",
    "tests/server/test_large",
    "tests/server/test_limits",
    "tests/testbed_tests/",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--again", action="store_true", help="run a failed test of tests/again_plugin.py a second time")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.option.again:
        for item in items:
            if item.nodeid.startswith(WAITING):
                item.add_marker(pytest.mark.flaky(reruns=1, reruns_delay=2))
