"""Which child is killed for showing no life."""

from __future__ import annotations

import signal

import pytest

from hms_cache_proxy.processes.watchdog import START_S, Watchdog

LIMIT_S = 10


class Child:
    """What a watchdog sees of one."""

    name = "worker-0"

    def __init__(self) -> None:
        self.pid: int | None = 100
        self.life = 0
        self.sent: list[int] = []

    def send(self, signal_number: int) -> None:
        self.sent.append(signal_number)


class Bench:
    """A child and its watchdog, which looks every second."""

    def __init__(self) -> None:
        self.child = Child()
        self.dog = Watchdog(self.child, lambda: self.child.life, LIMIT_S)
        self.now_s = 1000.0

    def pass_s(self, seconds: int, *, alive: bool = False) -> bool:
        """Was the child killed meanwhile?"""
        before = len(self.child.sent)
        for _ in range(seconds):
            self.now_s += 1
            self.child.life += alive
            self.dog.check(self.now_s)
        return len(self.child.sent) > before


@pytest.fixture
def bench() -> Bench:
    found = Bench()
    assert not found.pass_s(3 * LIMIT_S, alive=True)
    return found


def test_one_that_hangs_is_killed(bench: Bench) -> None:
    assert not bench.pass_s(LIMIT_S)
    assert bench.pass_s(1)
    assert bench.child.sent == [signal.SIGKILL]


def test_any_sign_of_life_counts(bench: Bench) -> None:
    for _ in range(3):
        assert not bench.pass_s(LIMIT_S)
        assert not bench.pass_s(1, alive=True)


def test_a_start_may_take_longer(bench: Bench) -> None:
    bench.child.pid, bench.child.life = 101, 0
    assert not bench.pass_s(int(START_S))
    assert bench.pass_s(2)


def test_the_next_process_has_its_own_time(bench: Bench) -> None:
    assert not bench.pass_s(LIMIT_S)
    bench.child.pid = 101  # what it shows is still its predecessor's
    assert not bench.pass_s(LIMIT_S)


def test_where_none_runs_nobody_is_killed(bench: Bench) -> None:
    bench.child.pid = None
    assert not bench.pass_s(3 * LIMIT_S)


def test_the_time_in_which_nobody_looked_does_not_count(bench: Bench) -> None:
    assert not bench.pass_s(LIMIT_S - 1)
    bench.now_s += 3600
    assert not bench.pass_s(LIMIT_S)
    assert bench.pass_s(2)
