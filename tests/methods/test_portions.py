"""Work in turns: as long as a turn lasts, whatever an item takes."""

from __future__ import annotations

import pytest

from hms_cache_proxy.methods.readers import portions
from hms_cache_proxy.methods.readers.portions import TURN_NS, Portions


@pytest.mark.parametrize("each_ns", [1, TURN_NS // 1000, TURN_NS // 40, TURN_NS // 3, 3 * TURN_NS])
@pytest.mark.parametrize("most", [1, 50])
def test_a_turn_ends_in_time(each_ns: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    now_ns = [0]
    monkeypatch.setattr(portions, "perf_counter_ns", lambda: now_ns[0])
    work, items, done = Portions(most), list(range(500)), list[int]()
    lengths = []
    while len(done) < len(items):
        began_ns = now_ns[0]
        for some in work.of_turn(items, len(done)):
            assert 0 < len(some) <= most
            done += some
            now_ns[0] += each_ns * len(some)
        lengths.append(now_ns[0] - began_ns)
    assert done == items
    assert max(lengths) <= TURN_NS + each_ns, "no more than the item that was begun"
    assert len(lengths) <= len(items) * each_ns // (TURN_NS // 2) + 2, "turns are used"


def test_a_row_that_takes_longer_than_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a slow one the next portion is small again, and then grows."""
    now_ns = [0]
    monkeypatch.setattr(portions, "perf_counter_ns", lambda: now_ns[0])
    work, items = Portions(100), list(range(300))
    sizes = []
    at = 0
    while at < len(items):
        for some in work.of_turn(items, at):
            at += len(some)
            sizes.append(len(some))
            now_ns[0] += sum(TURN_NS if item == 150 else 1000 for item in some)
    assert sizes[0] == 1 and max(sizes[:-1]) == 100 and min(sizes[2:-1]) < 100


def test_nothing_to_do() -> None:
    assert list(Portions(5).of_turn([], 0)) == []
