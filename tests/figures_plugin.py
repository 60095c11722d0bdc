"""At the end of a run, a line for each file of docs/figures/ that is stale, or of which that cannot be told.

Job: print what `tests/figures.py` says; the process that sums up the run prints it, its workers do not.
"""

from __future__ import annotations

import pytest

from tests import figures


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    lines = list(figures.complaints(config.rootpath))
    if lines:
        terminalreporter.section("figures in docs/")
        for line in lines:
            terminalreporter.write_line(line, yellow=True)
