"""Log lines that repeat: which are left out."""

from __future__ import annotations

import structlog

from hms_cache_proxy.rate_limited_log import TOPICS, RateLimitedLog

S = 1_000_000_000


class Bench:
    """A log with a clock of its own."""

    def __init__(self, **settings: float) -> None:
        self.now_ns = 0
        self.log = RateLimitedLog(clock_ns=lambda: self.now_ns, **settings)

    def say(self, at_ns: int, topic: str, reason: str = "why") -> None:
        self.now_ns = at_ns
        self.log.warn("away", topic, address=topic, reason=reason)


def test_what_repeats_is_left_out_for_a_while() -> None:
    bench = Bench(same_reason_s=600)
    with structlog.testing.capture_logs() as lines:
        for at_ns in (1, 300 * S, 600 * S):
            bench.say(at_ns, "a:1")
        bench.say(600 * S, "b:1")
        bench.say(600 * S + 1, "a:1")
        bench.say(1200 * S + 1, "a:1")
    assert [(line["address"], line.get("left_out")) for line in lines] == [
        ("a:1", None),
        ("b:1", None),
        ("a:1", 2),
        ("a:1", None),
    ]


def test_another_reason_is_told_sooner() -> None:
    bench = Bench(same_reason_s=600)
    with structlog.testing.capture_logs() as lines:
        bench.say(1, "a:1", "one")
        bench.say(S, "a:1", "two")
        bench.say(S + 1, "a:1", "three")
    assert [line["reason"] for line in lines] == ["one", "three"]


def test_without_a_rule_about_reasons_they_do_not_matter() -> None:
    bench = Bench()
    with structlog.testing.capture_logs() as lines:
        bench.say(1, "a:1", "one")
        bench.say(S, "a:1", "two")
        bench.say(S + 1, "a:1", "one")
    assert [line["reason"] for line in lines] == ["one", "one"]


def test_what_is_remembered_is_bounded() -> None:
    bench = Bench()
    with structlog.testing.capture_logs() as lines:
        for number in (*range(TOPICS + 1), 0):
            bench.say(1, str(number))
    assert len(lines) == TOPICS + 2
