"""Where the time of a run goes: a table by folder and module, and one of the servers that were started.

Job: collect from the reports of the tests (also of several worker processes) how long set-up, call and teardown took,
how much processor time they used, what they started, and which failed; print both tables at the end of a run, and keep
all of it in docs/figures/ where `--figures` asks so.
Invariants: a start is counted at the test during which it happened, so a shared server's at its first user. Processor
time is that of the process that runs the tests and of the children that it has waited for: a server's is counted at the
test that ends it, and that of grandchildren only if their parents wait for them, too.
"""

from __future__ import annotations

import os
import time
from collections import Counter, defaultdict
from collections.abc import Generator, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from tests import figures
from tests.slowdown import at_rest
from tests.testbed import ledger

LONG_RUN_S = 30.0
MODULES = 25
FUNCTIONS = 25


@dataclass
class Spent:
    """Seconds by phase, processor time, and items."""

    items: int = 0
    cpu_s: float = 0.0
    phases: Counter[str] = field(default_factory=Counter)

    @property
    def total_s(self) -> float:
        return float(sum(self.phases.values()))

    def row(self, name: str) -> str:
        phases = "".join(f"{self.phases[phase]:9.1f}" for phase in ("setup", "call", "teardown"))
        return f"{self.total_s:9.1f}{phases}{self.cpu_s:9.1f}{self.items:8}  {name}"


COMMANDS: Final = {"quick": "make quick FIGURES=1", "test": "make test FIGURES=1", "all": "make test-all FIGURES=1"}
MEASURES: Final = ("hms_cache_proxy", "tests")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--figures", action="store_true", help="keep the run's figures in docs/figures/tests-TIER.json")


def cpu_s() -> float:
    """Processor time of this process and of its children that have ended."""
    return sum(os.times()[:4])


def kept_name(nodeid: str) -> str:
    """The test's name, with its parameters unless they look like a path, which may be one of this machine."""
    name, _, parameters = nodeid.partition("[")
    return name if "/" in parameters else nodeid


class Times:
    """The figures of one run; `origin`: of what, where they are kept. `slowdown`: of the machine, before the run."""

    def __init__(self, tier: str, processes: int, origin: figures.Origin | None) -> None:
        self.tier = tier
        self.processes = processes
        self.origin = origin
        self.slowdown = at_rest() if origin is not None else None
        self.outcomes: Counter[str] = Counter()
        self.failed: list[str] = []
        self.began_s = time.monotonic()
        self.functions: dict[str, Spent] = defaultdict(Spent)
        self.starts: Counter[str] = Counter()
        self.starting_s: Counter[str] = Counter()
        self.cpu_before_s = cpu_s()

    def pytest_runtest_logstart(self) -> None:
        """Where the test runs: what was done since the last one is nobody's."""
        self.cpu_before_s = cpu_s()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, Any, Any]:
        """Where the test ran: what it has started and used goes with its report."""
        report = yield
        report.starts = ledger.take()
        before_s, self.cpu_before_s = self.cpu_before_s, cpu_s()
        report.cpu_s = self.cpu_before_s - before_s
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Where the run is summed up."""
        spent = self.functions[report.nodeid.partition("[")[0]]
        spent.items += report.when == "call" or (report.when == "setup" and report.outcome == "skipped")
        spent.phases[report.when or ""] += report.duration  # type: ignore[assignment]  # seconds add up as numbers do
        spent.cpu_s += getattr(report, "cpu_s", 0.0)
        if report.when == "call" or report.outcome != "passed":
            how = "xfailed" if hasattr(report, "wasxfail") else report.outcome
            self.outcomes[how if report.when != "teardown" else "failed at teardown"] += 1
        if report.failed:
            self.failed.append(kept_name(report.nodeid))
        for kind, took_s in getattr(report, "starts", ()):
            self.starts[kind] += 1
            self.starting_s[kind] += took_s

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """The tables of a long run."""
        wall_s = time.monotonic() - self.began_s
        if self.origin is not None:
            document, command = self.figures(wall_s), COMMANDS[self.tier]
            kept = figures.write(f"tests-{self.tier}", document, command=command, of=self.origin)
            terminalreporter.write_line(f"figures: {kept.relative_to(figures.ROOT)}; make docs shows them")
        if wall_s < LONG_RUN_S:
            return
        terminalreporter.section(f"where {wall_s:.0f} s went")
        for line in self.lines():
            terminalreporter.write_line(line)

    def figures(self, wall_s: float) -> dict[str, Any]:
        """What docs/testing.md and docs/test-results.md show."""
        spent = self._by(1)
        return {
            "seed": os.environ.get("SEED", ""),
            "processes": self.processes,
            "slowdown": self.slowdown,
            "wall_s": round(wall_s, 1),
            "tests_s": round(sum(one.total_s for one in spent.values()), 1),
            "items": sum(one.items for one in spent.values()),
            "outcomes": dict(self.outcomes),
            "failed": sorted(set(self.failed)),
            "folders": {name: {"seconds": round(one.total_s, 1), "items": one.items} for name, one in spent.items()},
            "started": {
                kind: {"starts": number, "seconds": round(self.starting_s[kind], 1)}
                for kind, number in self.starts.items()
            },
        }

    def lines(self) -> Iterable[str]:
        """Both tables."""
        heading = f"{'seconds':>9}{'set-up':>9}{'call':>9}{'teardown':>9}{'CPU':>9}{'items':>8}"
        for title, depth, most in (("folder", 1, None), ("module", 2, MODULES), ("function", 3, FUNCTIONS)):
            yield f"{heading}  {title}" + (f" ({most} slowest)" if most else "")
            found = self._by(depth)
            rows = sorted(found.items(), key=lambda row: -row[1].total_s)
            yield from (spent.row(name) for name, spent in rows[:most])
            if most is not None:
                yield f"{heading}  {title} ({most} of most processor time)"
                rows = sorted(found.items(), key=lambda row: -row[1].cpu_s)
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
            found[name].cpu_s += spent.cpu_s
        return found


def pytest_configure(config: pytest.Config) -> None:
    origin = None
    if config.getoption("--figures") and not hasattr(config, "workerinput"):
        whole = config.args_source == pytest.Config.ArgsSource.TESTPATHS and not config.getoption("keyword")
        if not whole or config.option.tier not in COMMANDS:
            raise pytest.UsageError("--figures is for a whole run of the tiers " + ", ".join(COMMANDS))
        origin = figures.origin(*MEASURES)
    processes = config.getoption("numprocesses", default=None) or 1
    config.pluginmanager.register(Times(config.option.tier, int(processes), origin), "tests-times")
