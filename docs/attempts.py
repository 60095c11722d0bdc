"""What was tried for goals that are missed: a table from docs/attempts.json, which keeps one line for each attempt.

An attempt's figures are those of the message of its commit, which says how they were measured: before and after it, on
one machine, in turn. Figures of different lines cannot be compared. Must not know: which goals there are
(benchmarks/goals.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from docs.markdown import number, table

KEPT: Final = Path(__file__).with_name("attempts.json")


@dataclass(frozen=True, slots=True)
class Attempt:
    """`goal`: its key in benchmarks/goals.py. `measure`: what `before` and `after` are, with their unit; less is
    better."""

    goal: str
    commit: str
    tried: str
    measure: str
    before: float
    after: float


def attempts() -> list[Attempt]:
    """All, in the order of the file."""
    return [Attempt(**one) for one in json.loads(KEPT.read_text("utf-8"))]


def shown(works: dict[str, str]) -> Iterator[str]:
    """The attempts for these goals, by key: what each is about."""
    head = ["work", "what was tried", "commit", "measured", "before", "after"]
    rows = [
        [works[one.goal], one.tried, one.commit, one.measure, number(one.before), number(one.after)]
        for one in attempts()
        if one.goal in works
    ]
    if rows:
        yield from ("", "What was tried so far; the message of each commit says how it was measured:", "")
        yield from table([head, *rows], text=4)
