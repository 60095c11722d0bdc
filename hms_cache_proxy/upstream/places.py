"""Limits a worker's connections to each metastore, and decides which client gets the next.

Job: keep the places, and a queue for each metastore (first come, first served). Must not know sockets or the clock. One
per worker. Invariant: no client has a place while an earlier one waits for a place at the same metastore.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

from hms_cache_proxy.upstream.endpoints import Endpoint

Holder = TypeVar("Holder")


class ConnectionPlaces(Generic[Holder]):
    """`limit`: connections to each metastore; 0: any number."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._held: dict[Endpoint, dict[Holder, None]] = {}
        self._waiting: dict[Endpoint, dict[Holder, None]] = {}

    def take(self, endpoint: Endpoint, who: Holder) -> bool:
        """True: `who` has a place. False: it waits until another's `leave` returns it."""
        held = self._held.setdefault(endpoint, {})
        if self.limit and len(held) >= self.limit:
            self._waiting.setdefault(endpoint, {})[who] = None
            return False
        held[who] = None
        return True

    def leave(self, endpoint: Endpoint, who: Holder) -> Holder | None:
        """`who` gives up its place, or stops waiting. Returns the client that gets the place, if any."""
        waiting = self._waiting.get(endpoint, {})
        if who in waiting:
            del waiting[who]
            return None
        held = self._held[endpoint]
        del held[who]
        if not waiting or len(held) >= self.limit:
            return None
        first = next(iter(waiting))
        del waiting[first]
        held[first] = None
        return first

    def wanted(self, endpoint: Endpoint) -> bool:
        """Whether a client waits for a place."""
        return bool(self._waiting.get(endpoint))

    def holders(self, endpoint: Endpoint) -> Iterable[Holder]:
        """The clients that have a place, the longest first."""
        return tuple(self._held.get(endpoint, ()))
