"""A machine that slept: what the follower had confirmed before is as old as it is, before it has taken another step."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from hms_cache_proxy.cache.state import MODE_SERVE, Slot
from tests.follower.stepping import Catalog, Stepping
from tests.testbed.slept import after_sleep

WORKER = """
import sys, time
from hms_cache_proxy.cache.state import StatePage
from hms_cache_proxy.consistency.gate import Gate, Rules
with StatePage(sys.argv[1]) as page:
    gate = Gate(page, None, Rules("session", max_unconfirmed_ns=1800 * 10**9))
    print(gate.standing(False, time.monotonic_ns()))
"""


@pytest.mark.parametrize(("slept_s", "reason"), [(0, "None"), (600, "None"), (7200, "unconfirmed")])
def test_a_worker_that_wakes_up_first(tmp_path: Path, slept_s: int, reason: str) -> None:
    with Catalog(tmp_path) as catalog, Stepping(tmp_path / "data", catalog) as stepping:
        catalog.table(b"t")
        stepping.settle()  # the next step finds nothing, and confirms all the same
        before_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        stepping.step()
        assert before_ns <= stepping.page[Slot.BEGAN_BOOT_NS] <= time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        stepping.page[Slot.SERVE_MODE] = MODE_SERVE
        assert after_sleep(slept_s, WORKER, str(tmp_path / "data" / "state")) == reason
