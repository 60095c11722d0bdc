"""What the follower tells of its cache, when the cache is closed after a failure and opened again."""

from __future__ import annotations

import json
from pathlib import Path

from hms_cache_proxy.cache.state import Slot, StatePage
from hms_cache_proxy.cache.writer import CacheWriter
from hms_cache_proxy.follower import progress
from hms_cache_proxy.follower.step_states import StepOutcome
from hms_cache_proxy.metrics import FollowerMetrics
from tests.cache.records import IDENTITY


def test_a_cache_that_was_closed_is_not_counted(tmp_path: Path) -> None:
    """A step was told, and the next one failed before its write ids were counted: each sign of life, of which an
    opening store gives some, would fail for the closed cache, and so nothing would ever be opened again."""
    with StatePage(tmp_path / "state", create=True) as page:
        report = progress.ProgressReport(page, FollowerMetrics(), tmp_path / "follower.json")
        report.heartbeat()  # the next one within a second writes nothing
        writer = CacheWriter.open(tmp_path / "cache", page, IDENTITY)
        report.step(StepOutcome(event_id=1, changed=True, more=False), writer, None, 0.01)
        report.cache_closed()
        writer.close()
        report._written_s -= progress.WRITE_INTERVAL_S
        report.heartbeat()
        assert json.loads((tmp_path / "follower.json").read_text())["cursor_event_id"] == page[Slot.CURSOR]
        writer = CacheWriter.open(tmp_path / "cache", page, IDENTITY)
        page[Slot.CACHE_BYTES] = 0
        report.step(StepOutcome(event_id=1, changed=False, more=False), writer, None, 0.01)
        assert page[Slot.CACHE_BYTES] > 0, "shown again, though nothing has changed"
        report.close()
        writer.close()
