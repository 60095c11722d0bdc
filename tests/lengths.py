"""How long the long tests are, by tier: seconds of a history, reads of a comparison, appends of writers."""

from __future__ import annotations

import os

from tests.testbed.ledger import TIER


def by_tier(*, test: float, all: float, every: float) -> float:
    """A length in `make test`, in `make test-all`, and in full (--tier every)."""
    return {"quick": test, "test": test, "all": all, "every": every}[os.environ.get(TIER, "every")]
