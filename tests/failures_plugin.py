"""A failed test is told when it fails: a run that is stopped before its end has said what it found.

Job: with CI=true, print each failure at once, besides pytest's own account at the end.
Must not know: what a tier is.
"""

from __future__ import annotations

import os

import pytest


class Failures:
    """Prints the reports of failed tests as they arrive, from all worker processes."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        terminal = self.config.pluginmanager.get_plugin("terminalreporter")
        if report.failed and terminal is not None:
            terminal.ensure_newline()
            terminal.section(f"failed in {report.when}: {report.nodeid}", sep="-")
            terminal.write_line(report.longreprtext)


def pytest_configure(config: pytest.Config) -> None:
    if os.environ.get("CI", "").lower() not in ("", "0", "false") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Failures(config), "tests-failures")
