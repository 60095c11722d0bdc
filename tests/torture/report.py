"""What is kept of a run: docs/figures/torture/seed-N.json, of which `make docs` makes tables of docs/test-results.md.

Job: `written(outcome, ...)`. Must not know: how a run is made, how a page shows it.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

from tests import figures
from tests.torture.run import Outcome


def kinds(outcome: Outcome) -> dict[str, dict[str, Any]]:
    """Of each kind: how often it has struck, and the longest recovery; None: one did not recover."""
    found: dict[str, list[float | None]] = defaultdict(list)
    for one in outcome.struck:
        found[one.kind].append(one.recovery_s)
    return {
        kind: {
            "times": len(seconds),
            "recovery_s": None if None in seconds else max(s for s in seconds if s is not None),
        }
        for kind, seconds in sorted(found.items())
    }


def written(outcome: Outcome, *, seed: int, minutes: float, of: figures.Origin) -> Path:
    """The file."""
    document = {
        "seed": seed,
        "minutes": minutes,
        "wrong": len(outcome.wrong),
        "slow": len(outcome.slow),
        "slowdown": {when: round(factor, 2) for when, factor in outcome.slowdown.items()},
        "counts": outcome.counts,
        "failures": outcome.failures,
        "p99_ms": {kind: round(ms, 2) for kind, ms in outcome.p99_ms.items()},
        "kinds": kinds(outcome),
        "said": [line[:300] for line in [*outcome.wrong[:10], *outcome.slow[:10]]],
    }
    command = f"make torture SEED={seed} MINUTES={minutes:g} FIGURES=1"
    return figures.write(f"torture/seed-{seed}", document, command=command, of=of)
