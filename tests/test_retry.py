"""Pauses between attempts."""

from __future__ import annotations

from hms_cache_proxy.retry import Retry


def test_pauses_double_up_to_the_longest() -> None:
    retry = Retry(0.1, 5.0)
    assert not retry.succeeded()
    assert [retry.failed() for _ in range(8)] == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    assert retry.next_s == 5.0
    assert retry.succeeded() and not retry.succeeded()
    assert retry.next_s == 0.1


def test_a_million_failures() -> None:
    assert Retry(0.1, 30.0, failures=1_000_000).failed() == 30.0
