"""Reads that wait for a look and whose replies are kept: recognized by their bytes, before anything is decoded.

Job: `wait` says whether the hot path (hot.py) would answer a request if a look had begun after it arrived, and asks for
that look. After the look, the hot path answers. Must not know: sockets, what a request means.

A request that this does not recognize takes the full path (dispatch.py), which decides the same.

Owner: one per worker, on its loop.
"""

from __future__ import annotations

from hms_cache_proxy.consistency.gate import LOOKS, Gate
from hms_cache_proxy.consistency.looks import Looks

from .decision import ClientSession, Wait
from .hot import HotPath
from .patience import Patience


class HotLooks:
    """One worker's."""

    __slots__ = ("_ever", "_gate", "_hot", "_looks", "_patience")

    def __init__(self, hot: HotPath, gate: Gate, looks: Looks, patience: Patience, *, ever: bool) -> None:
        """`ever`: can the settings make a read wait for a look?"""
        self._ever = ever
        self._hot = hot
        self._gate = gate
        self._looks = looks
        self._patience = patience

    def wait(self, session: ClientSession, data: bytes, now_ns: int) -> Wait | None:
        """A Wait if `data` is exactly one request whose kept reply only lacks a look; else None."""
        if not self._ever:
            return None
        began_ns = self._looks.began_ns
        entry = self._hot.kept(session, data)
        patience_ns = self._patience.for_look(began_ns)
        if entry is None or not patience_ns:
            return None
        reason = self._gate.standing(session.relay_for_good, now_ns)
        if reason not in LOOKS and not (reason is None and entry.by_look and began_ns <= now_ns):
            return None
        self._looks.ask(now_ns)
        return Wait(0, now_ns + patience_ns, told=True, look_after_ns=now_ns)
