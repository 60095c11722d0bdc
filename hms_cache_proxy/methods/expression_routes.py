"""Which ways of reading an expression the metastore has been seen to go.

Job: remember that a relayed expression was answered. Hive's settings name the class that reads expressions, but not
whether it could be loaded, nor what it needs: a metastore without that refuses every expression, or those that it has
to evaluate over names. Must not know: expressions, replies. Owner: one per worker, on its loop.
"""

from __future__ import annotations

import time
from typing import Final

from hms_cache_proxy.consistency.gate import Reason

ROUTES: Final = frozenset((Reason.EXPRESSION_PUSHED, Reason.EXPRESSION_NAMES))
"""Each is the reason of misses while it has not been seen."""
HOLDS_NS: Final = 600 * 10**9
"""Then it has to be seen again: another metastore may have taken the place of the one that answered."""


class ExpressionRoutes:
    """When each was seen last."""

    __slots__ = ("_seen_ns",)

    def __init__(self) -> None:
        self._seen_ns: dict[Reason, int] = {}

    def went(self, route: Reason, now_ns: int) -> None:
        """The metastore has answered an expression that was relayed for this reason."""
        self._seen_ns[route] = now_ns

    def open(self, route: Reason) -> bool:
        """May expressions be answered here that a metastore reads this way?"""
        seen_ns = self._seen_ns.get(route)
        return seen_ns is not None and time.monotonic_ns() - seen_ns < HOLDS_NS
