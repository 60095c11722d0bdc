"""How slow the machine is, and what that changes: bounds on time alone."""

from __future__ import annotations

import time

import pytest

from tests.slowdown import USUAL_S, Measured, Slowdown, mean


def took(began_s: float, times: float) -> Measured:
    return Measured(began_s, began_s + times * USUAL_S)


def test_so_many_times_as_long_as_a_usual_machine() -> None:
    assert took(5.0, 4.0).factor == pytest.approx(4.0)
    assert took(5.0, 0.3).factor == 1.0, "a quick machine has no less time than a usual one"
    assert mean([took(1.0, 2.0), took(2.0, 4.0)]) == pytest.approx(3.0)


def test_a_stretch_has_the_measurements_that_were_under_way() -> None:
    slowdown = Slowdown()
    slowdown.measured = [took(10.0, 2.0), took(20.0, 10.0), took(30.0, 50.0), took(40.0, 3.0)]
    assert slowdown.between(12.0, 20.5) == pytest.approx(10.0)
    assert slowdown.between(20.9, 34.0) == pytest.approx(30.0)
    assert slowdown.between(0.0, 50.0) == pytest.approx(65 / 4)


def test_a_stretch_without_any_gets_one() -> None:
    slowdown = Slowdown()
    before_s = time.monotonic()
    factor = slowdown.between(before_s, before_s)
    assert slowdown.measured[-1].began_s >= before_s and slowdown.measured[-1].factor == factor


def test_it_is_measured_again_and_again() -> None:
    slowdown = Slowdown()
    slowdown.start()
    while len(slowdown.measured) < 3:
        time.sleep(0.05)
    slowdown.stop()
    assert slowdown.at_start == slowdown.measured[0].factor >= 1
    assert [one.began_s for one in slowdown.measured] == sorted(one.began_s for one in slowdown.measured)
