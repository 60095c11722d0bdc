"""How long the long tests are, by tier: seconds of a history, reads of a comparison, appends of writers."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from tests.testbed.ledger import TIER

MOST = 15.0
"""So many times as long a test may go on, on a busy machine."""


def by_tier(*, test: float, all: float, every: float) -> float:
    """A length in `make test`, in `make test-all`, and in full (--tier every)."""
    return {"quick": test, "test": test, "all": all, "every": every}[os.environ.get(TIER, "every")]


def lasting(seconds: float, enough: Callable[[], bool]) -> Callable[[], bool]:
    """Is a test to go on? For so long, and further until enough was done; a busy machine takes longer for the same."""
    began_s = time.monotonic()

    def going_on() -> bool:
        passed_s = time.monotonic() - began_s
        return passed_s < seconds or passed_s < MOST * seconds and not enough()

    return going_on
