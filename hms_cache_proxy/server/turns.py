"""Schedules long work: which connection continues next, and for how long in one turn of the loop.

Job: long work (a listing, a search, a large message) is cut into slices of about a millisecond. Between two polls of
the sockets, a worker runs slices for its budget, at least one. So a short call waits for about one slice, however much
long work there is. The addresses of clients take turns, and so do the connections of one address. Must not know: what a
slice does. Owner: the worker's event loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from time import monotonic_ns
from typing import Final

BUDGET_NS: Final = 1_000_000
"""Of one turn."""

Slice = Callable[[], None]


class Turns:
    """Slices that wait. Work that continues is added again for each slice."""

    __slots__ = ("_due", "_waiting", "budget_ns")

    def __init__(self, budget_ns: int = BUDGET_NS) -> None:
        self.budget_ns = budget_ns
        self._waiting: dict[str, deque[Slice]] = {}  # by address; the next one comes first
        self._due = False

    def add(self, address: str, work: Slice) -> None:
        """Call `work` soon, once, on behalf of this address."""
        self._waiting.setdefault(address, deque()).append(work)
        self._call_soon()

    def _call_soon(self) -> None:
        if not self._due:
            self._due = True
            asyncio.get_running_loop().call_soon(self._run)

    def _run(self) -> None:
        self._due = False
        until_ns = monotonic_ns() + self.budget_ns
        left = sum(map(len, self._waiting.values()))  # slices added meanwhile run after the sockets
        while left:
            left -= 1
            self._next()()
            if monotonic_ns() >= until_ns:
                break
        if self._waiting:
            self._call_soon()

    def _next(self) -> Slice:
        address = next(iter(self._waiting))
        queue = self._waiting.pop(address)
        work = queue.popleft()
        if queue:
            self._waiting[address] = queue
        return work
