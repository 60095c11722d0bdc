"""When a recovery is late, and when reads are slow."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.slowdown import Measured
from tests.torture.faults import every
from tests.torture.latencies import too_many
from tests.torture.pulse import Call, Signs
from tests.torture.run import CALM, RECOVERY_S, Outcome, Struck, judge_latencies
from tests.torture.world import REQUEST_TIMEOUT_S

SOON = Signs({"read": 0.3, "write": 0.5, "hit": 0.6}, {})


def struck(hit_s: float | None, misses: dict[str, float], *, slowdown: float = 1.0) -> Struck:
    """A metastore was restarted; one proxy recovered soon, the other one so."""
    assert every(["restart_metastore"])["restart_metastore"].grace_s == 0
    other = Signs({"read": 0.3, "write": 0.5, "hit": hit_s}, misses)
    return Struck("restart_metastore", 1.0, 2.0, other.slowest_s, slowdown, [SOON, other])


@pytest.mark.parametrize(
    ("hit_s", "misses", "late"),
    [
        (RECOVERY_S - 0.1, {"miss starting": 9.0}, False),
        (RECOVERY_S + 0.1, {"miss starting": 9.0}, True),
        (RECOVERY_S + 0.1, {}, True),
        (RECOVERY_S + 0.1, {"miss fence": 9.0, "miss floor": 1.0}, False),
        (RECOVERY_S + 0.1, {"miss fence": 9.0, "miss unconfirmed": 1.0}, True),
        (RECOVERY_S + REQUEST_TIMEOUT_S + 0.1, {"miss fence": 9.0}, True),
        (None, {"miss fence": 9.0}, True),
    ],
)
def test_fences_alone_may_last_as_long_as_a_write(hit_s: float | None, misses: dict[str, float], late: bool) -> None:
    assert struck(hit_s, misses).late is late


def test_a_busy_machine_gets_more_time() -> None:
    assert struck(RECOVERY_S * 1.5, {"miss starting": 1.0}).late
    assert not struck(RECOVERY_S * 1.5, {"miss starting": 1.0}, slowdown=2.0).late
    assert struck(None, {}, slowdown=100.0).late


def test_what_is_late_by_the_clock_is_counted_whatever_the_machine() -> None:
    slow = struck(RECOVERY_S * 1.5, {"miss starting": 1.0}, slowdown=2.0)
    assert slow.late_by_the_clock and not slow.late
    assert not struck(RECOVERY_S - 0.1, {}, slowdown=2.0).late_by_the_clock


def test_reads_that_a_fault_interrupts_are_no_reads_in_calm() -> None:
    """Else what is slow for the fault would hide what is slow for misbehaving clients."""
    assert every(["slow_readers"])["slow_readers"].clients
    strikes = [
        Struck("kill_workers", 10.0, 1.0, 2.0, 1.0, []),
        Struck("slow_readers", 20.0, 5.0, 1.0, 1.0, []),
    ]
    reads = [Call(5.0, 0.1), Call(9.9, 3.0), Call(11.0, 4.0), Call(15.0, 0.1), Call(22.0, 0.2), Call(24.9, 0.34)]
    outcome = Outcome(struck=strikes)
    slowdown = SimpleNamespace(at_start=1.0, measured=[Measured(1.0, 1.1), Measured(21.0, 21.1)])
    judge_latencies(outcome, [SimpleNamespace(reads=reads)], slowdown, 0.0)  # type: ignore[arg-type, list-item]  # parts
    assert outcome.p99_ms == {CALM: 100.0, "slow_readers": 200.0}
    assert outcome.slow == []
    assert outcome.slowdown.keys() == {"at the start", "in the mean", "during calm", "during slow_readers"}
    assert list(outcome.slowdown.values()) == pytest.approx([1.0] * 4)


@pytest.mark.parametrize(("factor", "judged"), [(1.0, True), (2.0, True), (4.0, False)])
def test_slow_reads_are_judged_by_how_much_slower_the_machine_was_than_in_calm(factor: float, judged: bool) -> None:
    outcome = Outcome(struck=[Struck("slow_readers", 20.0, 5.0, 1.0, 1.0, [])])
    reads = [Call(5.0, 0.01), *[Call(22.0, 0.1)] * 2]
    slowdown = SimpleNamespace(at_start=1.0, measured=[Measured(1.0, 1.1), Measured(21.0, 21.0 + 0.1 * factor)])
    judge_latencies(outcome, [SimpleNamespace(reads=reads)], slowdown, 0.0)  # type: ignore[arg-type, list-item]  # parts
    assert bool(outcome.slow) is judged


@pytest.mark.parametrize(
    ("took_s", "slow"),
    [
        ([], False),
        ([0.01] * 100, False),
        ([0.01] * 100 + [0.11] * 5, False),  # by chance
        ([0.01] * 100 + [0.11] * 6, True),
        ([0.01] * 10_000 + [0.11] * 134, False),
        ([0.01] * 10_000 + [0.11] * 136, True),
        ([0.01] * 100 + [0.30], False),
        ([0.01] * 100 + [0.41], True),  # so long that six would have been begun meanwhile
    ],
)
def test_slow_reads_that_are_more_than_one_in_a_hundred(took_s: list[float], slow: bool) -> None:
    assert too_many(took_s, 0.1) is slow


@pytest.mark.parametrize(("relayed", "judged"), [(0, True), (3, False)])
def test_reads_that_were_relayed_are_not_judged(relayed: int, judged: bool) -> None:
    outcome = Outcome(struck=[Struck("slow_readers", 20.0, 5.0, 1.0, 1.0, [], relayed)])
    reads = [Call(5.0, 0.01), *[Call(22.0, 0.01)] * 30, *[Call(22.0, 0.9)] * 3]
    slowdown = SimpleNamespace(at_start=1.0, measured=[Measured(1.0, 1.1), Measured(21.0, 21.1)])
    judge_latencies(outcome, [SimpleNamespace(reads=reads)], slowdown, 0.0)  # type: ignore[arg-type, list-item]  # parts
    assert bool(outcome.slow) is judged
