"""Cancelled tokens between the workers' file and the Fleet."""

from __future__ import annotations

from pathlib import Path

import pytest

from hms_cache_proxy.config.tokens import LONGEST_S
from hms_cache_proxy.peers import cancellations
from hms_cache_proxy.peers.cancellations import PeerCancellations
from hms_cache_proxy.security.cancelled_tokens import CancelledTokens, packed

NOW_MS = 1_000_000


def mark(number: int) -> bytes:
    return number.to_bytes(16, "big")


def shared(directory: Path, most: int = 100) -> tuple[PeerCancellations, CancelledTokens]:
    """Of the peers' process, and of a worker."""
    made, worker = (CancelledTokens(directory / "list", most) for _ in range(2))
    return PeerCancellations(made), worker


def test_what_is_new_in_the_file_is_told_unless_it_has_expired(tmp_path: Path) -> None:
    ours, worker = shared(tmp_path)
    ours.exchange({}, NOW_MS)
    worker.add_all({mark(1): NOW_MS - 1, mark(2): NOW_MS + 5}, 0)
    assert ours.exchange({}, NOW_MS) == (packed([(mark(2), NOW_MS + 5)]), True)
    assert ours.exchange({}, NOW_MS) == (None, True), "nothing is new"


def test_what_peers_tell_is_in_the_file(tmp_path: Path) -> None:
    """But not of a token that has expired, or that cannot be one."""
    ours, worker = shared(tmp_path)
    far_ms = NOW_MS + 1000 * LONGEST_S
    ours.told(packed([(mark(1), NOW_MS), (mark(2), NOW_MS - 1), (mark(3), far_ms), (mark(4), far_ms + 1)]), NOW_MS)
    taken = ours.take()
    assert not ours.waiting
    ours.put_back(taken)
    records, fitted = ours.exchange(ours.take(), NOW_MS)
    assert records is not None and len(records) == 2 and fitted
    assert dict(worker.all()) == {mark(1): NOW_MS, mark(3): far_ms}


def test_it_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cancellations, "MOST", 10)
    ours, worker = shared(tmp_path, 10)
    for number in range(1000):
        ours.told(packed([(mark(number), NOW_MS + 1)]), NOW_MS)
    assert len(ours.waiting) == 11
    records, fitted = ours.exchange(ours.take(), NOW_MS)
    assert records is not None and len(records) == 10 and not fitted
    assert len(worker.all()) == 10 and (tmp_path / "list").stat().st_size == 240
