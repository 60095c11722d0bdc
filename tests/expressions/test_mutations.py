"""Of changed expressions, those that are read are what Hive's own classes read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chance import chance
from tests.clients.hive_classes import HiveClasses
from tests.expressions.mutations import SLOW_S, SOURCE, judge
from tests.lengths import by_tier

CHANGED = int(by_tier(test=1000, all=2000, every=20_000))


@pytest.mark.real
def test_what_is_read_is_what_hive_reads(tmp_path: Path) -> None:
    with HiveClasses(SOURCE, tmp_path / "java") as java:
        found = judge(java, chance("mutations"), CHANGED)
    assert not found.wrong
    assert found.read > 0 and found.slowest_s < SLOW_S
