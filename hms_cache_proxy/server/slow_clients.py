"""Clients that do not read what is sent to them, and the memory that they occupy.

Job: count the bytes in their transports' buffers, and choose which to close when all memory is used up: those that have
not read for the longest time, but at least for PATIENCE_NS. A client that reads never stops for so long. Must not know:
sockets, the clock. Owner: the worker's event loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Generic, TypeVar

from hms_cache_proxy.budget import Budget, Charge

PATIENCE_NS: Final = 1_000_000_000

Holder = TypeVar("Holder")


class SlowClients(Generic[Holder]):
    """By client: the memory counted for it, and since when it has not read."""

    __slots__ = ("_clients", "_memory")

    def __init__(self, memory: Budget) -> None:
        self._memory = memory
        self._clients: dict[Holder, tuple[Charge, int]] = {}

    def add(self, client: Holder, size: int, now_ns: int) -> None:
        """The client takes no more, and so many bytes wait for it."""
        charge = Charge(self._memory, must=True)
        charge.grow(size)
        self._clients[client] = charge, now_ns

    def remove(self, client: Holder) -> None:
        """The client reads again, or is gone."""
        known = self._clients.pop(client, None)
        if known is not None:
            known[0].close()

    def too_much(self, now_ns: int) -> Iterator[Holder]:
        """Clients to close, until there is memory again."""
        for client, (_, since_ns) in list(self._clients.items()):
            if self._memory.has(0, for_write=True) or now_ns - since_ns < PATIENCE_NS:
                return
            self.remove(client)
            yield client
