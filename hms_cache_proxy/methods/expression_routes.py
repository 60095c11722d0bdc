"""Remembers in which ways the metastore has been seen to evaluate expressions.

Job: note each relayed expression that was answered. Hive's settings name the class that reads expressions, but do not
tell whether that class and the classes that it needs could be loaded. If they could not, a metastore refuses every
expression, or every one that it has to evaluate over names. Must not know: expressions, replies. Owner: one per worker,
on its loop.
"""

from __future__ import annotations

import time
from typing import Final

from hms_cache_proxy.consistency.gate import Reason

ROUTES: Final = frozenset((Reason.EXPRESSION_PUSHED, Reason.EXPRESSION_NAMES))
"""Each is also the reason of the misses while that way has not been seen."""
HOLDS_NS: Final = 600 * 10**9
"""After this time a way has to be seen again: the metastore may have been replaced by another."""


class ExpressionRoutes:
    """When each way was last seen."""

    __slots__ = ("_seen_ns",)

    def __init__(self) -> None:
        self._seen_ns: dict[Reason, int] = {}

    def went(self, route: Reason, now_ns: int) -> None:
        """The metastore has answered an expression that was relayed for this reason."""
        self._seen_ns[route] = now_ns

    def open(self, route: Reason) -> bool:
        """May expressions be answered here that a metastore evaluates in this way?"""
        seen_ns = self._seen_ns.get(route)
        return seen_ns is not None and time.monotonic_ns() - seen_ns < HOLDS_NS
