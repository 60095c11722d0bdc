"""The torture machine for a short time: no wrong answer, no lost write, and everything recovers.

How long a recovery takes, and what the slowest reads do, is judged by `make torture` alone.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chance import chance
from tests.lengths import MOST, by_tier
from tests.testbed.bed import Bed
from tests.torture.__main__ import FULL_MINUTES
from tests.torture.faults import every
from tests.torture.run import tortured
from tests.torture.schedule import planned
from tests.torture.world import world

SECONDS = by_tier(test=6, all=150, every=600)


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.timeout(MOST * SECONDS + 400)
@pytest.mark.covers("A history under faults of everything around a proxy", "hive42", cache="SQL")
def test_no_fault_makes_an_answer_wrong(bed: Bed, tmp_path: Path) -> None:
    plan = planned(chance("torture").getrandbits(32), SECONDS, {name: kind.seconds for name, kind in every().items()})
    with world(tmp_path, bed) as there:
        there.scale = min(1.0, SECONDS / 60 / FULL_MINUTES)
        outcome = tortured(there, plan, seconds=SECONDS)
    print(outcome.summary())
    assert not outcome.wrong, outcome.summary()
    assert all(one.recovery_s is not None for one in outcome.struck), outcome.struck
    assert [one.kind for one in outcome.struck] == [one.kind for one in plan] != []
    assert outcome.counts["reads"] > SECONDS and outcome.counts["hits"] > 0, outcome.summary()
