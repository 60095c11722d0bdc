"""Reads that wait for a look and whose replies are kept: recognized by their bytes, before anything is decoded.

Job: `wait` says whether the hot path (hot.py) would answer a request if a look had begun after it arrived, and asks for
that look. After the look, the hot path answers. Must not know: sockets, what a request means.

A read waits nowhere else: whatever this does not recognize takes the full path (dispatch.py), which decides the same.

Owner: one per worker, on its loop.
"""

from __future__ import annotations

from collections.abc import Callable

from hms_cache_proxy.consistency.gate import LOOKS, Gate
from hms_cache_proxy.consistency.looks import Looks

from .decision import ClientSession, Wait
from .hot import HotPath

PATIENCE_NS = 25_000_000
"""How long a read may wait for the follower's next step (some milliseconds). Waiting saves the metastore a call. And a
connection that reads without pause would never get a hit again, because each relayed reply sets a new floor."""


class HotLooks:
    """One worker's. `slow_since_ns`: BEGAN_NS when a read waited in vain; no read waits until that changes."""

    __slots__ = ("_gate", "_hot", "_looks", "_moved", "slow_since_ns")

    def __init__(self, hot: HotPath, gate: Gate, looks: Looks, moved: Callable[[], int]) -> None:
        """`moved`: the decider's."""
        self._moved = moved
        self._hot = hot
        self._gate = gate
        self._looks = looks
        self.slow_since_ns = -1

    def wait(self, session: ClientSession, data: bytes, now_ns: int) -> Wait | None:
        """A Wait if `data` is exactly one request whose kept reply only lacks a look; else None."""
        seen, began_ns = self._moved(), self._looks.began_ns
        entry = self._hot.kept(session, data)
        if entry is None or began_ns == self.slow_since_ns:
            return None
        reason = self._gate.standing(session.relay_for_good, now_ns)
        if reason not in LOOKS and not (reason is None and entry.by_look and began_ns <= now_ns):
            return None
        self._looks.ask(now_ns)
        return Wait(seen, now_ns + PATIENCE_NS, told=True)
