"""What a proxy was asked in a run: calls by method and outcome, and the share of hits.

Job: turn Proxy.requests() into rows and sums. Must not know: who asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

OUTCOMES: Final = ("hit", "miss", "relay", "write", "error")
READS: Final = ("hit", "miss", "relay")

Requests = Mapping[tuple[str, str, str], float]
"""Counts by method, outcome, reason."""


def rows(requests: Requests) -> list[list[Any]]:
    """Method, its calls by each of OUTCOMES, the reasons of those that are no hits; the most frequent method first."""
    methods: dict[str, dict[str, int]] = {}
    reasons: dict[str, dict[str, int]] = {}
    for (method, outcome, reason), count in requests.items():
        if count:
            counted = methods.setdefault(method, dict.fromkeys(OUTCOMES, 0))
            counted[outcome] += int(count)
            if reason and outcome != "hit":
                told = reasons.setdefault(method, {})
                told[reason] = told.get(reason, 0) + int(count)
    found = []
    for method, counted in sorted(methods.items(), key=lambda one: (-sum(one[1].values()), one[0])):
        why = sorted(reasons.get(method, {}).items(), key=lambda one: (-one[1], one[0]))
        found.append([method, *counted.values(), ", ".join(f"{reason} {count}" for reason, count in why)])
    return found


def reads(requests: Requests) -> int:
    """Calls other than writes that did not fail in the proxy: reads, and locks, which are relayed."""
    return sum(int(count) for (_, outcome, _), count in requests.items() if outcome in READS)


def hits(requests: Requests) -> int:
    """Those of them that the cache answered."""
    return sum(int(count) for (_, outcome, _), count in requests.items() if outcome == "hit")


def misses(requests: Requests) -> int:
    """Reads that the cache can answer, and did not."""
    return sum(int(count) for (_, outcome, _), count in requests.items() if outcome == "miss")


def since(before: Requests, after: Requests) -> dict[tuple[str, str, str], float]:
    """What was counted between two readings."""
    return {key: count - before.get(key, 0) for key, count in after.items() if count > before.get(key, 0)}


def figures(requests: Requests) -> dict[str, Any]:
    """For docs/figures/."""
    return {"reads": reads(requests), "hits": hits(requests), "methods": rows(requests)}


def summary(requests: Requests) -> str:
    """One sentence."""
    asked, answered = reads(requests), hits(requests)
    share = f" ({answered / asked:.1%})" if asked else ""
    return f"{answered:,} of {asked:,} calls other than writes were hits{share}"


def table(requests: Requests) -> str:
    """Rows for a terminal."""
    head = f"{'method':38}" + "".join(f"{outcome:>8}" for outcome in OUTCOMES) + "  why not a hit"
    lines = [f"{row[0]:38}" + "".join(f"{count:8}" for count in row[1:-1]) + f"  {row[-1]}" for row in rows(requests)]
    return "\n".join(line.rstrip() for line in [head, *lines])
