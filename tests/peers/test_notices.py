"""Log lines about peers: which are left out."""

from __future__ import annotations

import structlog

from hms_cache_proxy.peers.notices import ADDRESSES, OTHER_NS, SAME_NS, PeerNotices


def test_the_same_again_is_left_out_for_a_while() -> None:
    notices = PeerNotices()
    with structlog.testing.capture_logs() as lines:
        for now_ns in (1, SAME_NS // 2, SAME_NS):
            notices.say("away", "a:1", "why", now_ns)
        notices.say("away", "b:1", "why", SAME_NS)
        notices.say("away", "a:1", "why", SAME_NS + 1)
    assert [(line["address"], line.get("left_out")) for line in lines] == [("a:1", None), ("b:1", None), ("a:1", 2)]


def test_another_reason_is_told_sooner() -> None:
    notices = PeerNotices()
    with structlog.testing.capture_logs() as lines:
        notices.say("away", "a:1", "one", 1)
        notices.say("away", "a:1", "two", OTHER_NS)
        notices.say("away", "a:1", "three", OTHER_NS + 1)
    assert [line["reason"] for line in lines] == ["one", "three"]


def test_what_is_remembered_is_bounded() -> None:
    notices = PeerNotices()
    with structlog.testing.capture_logs() as lines:
        for number in (*range(ADDRESSES + 1), 0):
            notices.say("away", str(number), "why", 1)
    assert len(lines) == ADDRESSES + 2
