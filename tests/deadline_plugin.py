"""A run that ends in time: after `--minutes`, no further test that starts a server is run.

Job: on a machine that is several times slower than usual, CI has the results of most tests instead of none. What was
not run is skipped with this reason, counted, and told in red at the end. Tests that start nothing always run.
Must not know: what a tier is. Invariants: without `--minutes` nothing is left out; the time counts from the start of
the whole run, also in the processes of pytest-xdist, which get it by the environment.
"""

from __future__ import annotations

import os
import time
from typing import Final

import pytest

from tests.needs import needs

UNTIL: Final = "HMS_TESTS_UNTIL"
REASON: Final = "the time of this run is up (--minutes)"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--minutes", type=float, help="start no test with a server after so many minutes")


def pytest_configure(config: pytest.Config) -> None:
    minutes = config.option.minutes
    if minutes is not None and not hasattr(config, "workerinput"):
        os.environ[UNTIL] = str(time.time() + 60 * minutes)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    until = os.environ.get(UNTIL) if item.config.option.minutes is not None else None
    if until is not None and time.time() > float(until) and needs(item):
        pytest.skip(REASON)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = terminalreporter.stats.get("skipped", [])
    left = sum(REASON in str(report.longrepr) for report in skipped)
    if left:
        done = sum(len(terminalreporter.stats.get(outcome, [])) for outcome in ("passed", "failed"))
        terminalreporter.section("time is up")
        terminalreporter.write_line(f"{left:,} tests were not run, {done:,} were (--minutes)", red=True)
