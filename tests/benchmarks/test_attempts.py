"""What was tried for missed goals: docs/attempts.json names goals that there are, and gains."""

from __future__ import annotations

import re

from benchmarks.goals import ORDER
from docs.attempts import attempts, shown


def test_attempts_are_about_goals_and_gained_something() -> None:
    for one in attempts():
        assert one.goal in ORDER, one
        assert one.after < one.before, one
        assert re.fullmatch("[0-9a-f]{8}", one.commit), one


def test_only_attempts_for_missed_goals_are_shown() -> None:
    first = attempts()[0]
    lines = list(shown({first.goal: "the work"}))
    assert sum(line.startswith("| the work |") for line in lines) == sum(one.goal == first.goal for one in attempts())
    assert not list(shown({}))
