"""Where the time of a run goes: a table by folder and module, and one of the servers that were started.

Job: collect from the reports of the tests (also of several worker processes) how long set-up, call and teardown took
and what they started; print both tables at the end of a run.
Invariants: a start is counted at the test during which it happened, so a shared server's at its first user.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Generator, Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.testbed import ledger

LONG_RUN_S = 30.0
MODULES = 25
FUNCTIONS = 25


@dataclass
class Spent:
    """Seconds by phase, and items."""

    items: int = 0
    phases: Counter[str] = field(default_factory=Counter)

    @property
    def total_s(self) -> float:
        return float(sum(self.phases.values()))

    def row(self, name: str) -> str:
        phases = "".join(f"{self.phases[phase]:9.1f}" for phase in ("setup", "call", "teardown"))
        return f"{self.total_s:9.1f}{phases}{self.items:8}  {name}"


class Times:
    """The figures of one run."""

    def __init__(self) -> None:
        self.began_s = time.monotonic()
        self.functions: dict[str, Spent] = defaultdict(Spent)
        self.starts: Counter[str] = Counter()
        self.starting_s: Counter[str] = Counter()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, Any, Any]:
        """Where the test ran: what it has started goes with its report."""
        report = yield
        report.starts = ledger.take()
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Where the run is summed up."""
        spent = self.functions[report.nodeid.partition("[")[0]]
        spent.items += report.when == "call" or (report.when == "setup" and report.outcome == "skipped")
        spent.phases[report.when or ""] += report.duration
        for kind, took_s in getattr(report, "starts", ()):
            self.starts[kind] += 1
            self.starting_s[kind] += took_s

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """The tables of a long run."""
        wall_s = time.monotonic() - self.began_s
        if wall_s < LONG_RUN_S:
            return
        terminalreporter.section(f"where {wall_s:.0f} s went")
        for line in self.lines():
            terminalreporter.write_line(line)

    def lines(self) -> Iterable[str]:
        """Both tables."""
        heading = f"{'seconds':>9}{'set-up':>9}{'call':>9}{'teardown':>9}{'items':>8}"
        for title, depth, most in (("folder", 1, None), ("module", 2, MODULES), ("function", 3, FUNCTIONS)):
            yield f"{heading}  {title}" + (f" ({most} slowest)" if most else "")
            rows = sorted(self._by(depth).items(), key=lambda row: -row[1].total_s)
            yield from (spent.row(name) for name, spent in rows[:most])
        yield f"{'seconds':>9}{'starts':>9}{'mean':>9}  started"
        for kind, number in sorted(self.starts.items(), key=lambda row: -self.starting_s[row[0]]):
            took_s = self.starting_s[kind]
            yield f"{took_s:9.1f}{number:9}{took_s / number:9.2f}  {kind}"

    def _by(self, depth: int) -> dict[str, Spent]:
        """Summed by folder (1), module (2) or test function (3)."""
        found: dict[str, Spent] = defaultdict(Spent)
        for nodeid, spent in self.functions.items():
            path, _, _ = nodeid.partition("::")
            name = "/".join(path.split("/")[:2]) if depth == 1 else path if depth == 2 else nodeid
            found[name].items += spent.items
            found[name].phases.update(spent.phases)
        return found


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Times(), "tests-times")
