"""Conditions by chance over a running Hive 4.2: what the cache answers is the metastore's answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chance import chance
from tests.differential.conditions import SHARE_OF_HITS, Planner, bench, compare
from tests.lengths import by_tier
from tests.testbed.metastore import Metastore

CONDITIONS = int(by_tier(test=60, all=200, every=2000))


@pytest.mark.real
def test_conditions_select_what_the_metastore_selects(hms42: Metastore, unique_name: str, tmp_path: Path) -> None:
    with Planner(tmp_path / "planner") as planner, bench(hms42, unique_name, tmp_path / "data") as over:
        found = compare(planner, over, chance("conditions"), CONDITIONS)
    assert not found.different
    assert found.share() >= SHARE_OF_HITS, found.misses
    assert found.counts()["odd"].total() > 0 and found.refused < CONDITIONS / 20
