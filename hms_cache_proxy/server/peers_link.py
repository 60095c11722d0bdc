"""A worker's connection to the peers' process: asks whether a write may leave, or a reply be passed on.

Job: requests with an answer are sent again on each new connection. If the process is stuck or gone, or if a write could
not be fenced, the words of the state page decide: a write waits no more once all leases that this proxy had given when
it was asked have run out, and writes may leave at all. This is safe because the process raises the word before it reads
the fences and gives a lease (fleet.py): whoever gets a lease later is told of the fence first, and while a write cannot
be fenced, no lease is given. What is not a fence that stands (a granted lock, an event's id) waits for the process as
long as there is a connection to it; a new connection to a peer covers these. Must not know: the protocol between
proxies. Owner: the worker's loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from time import CLOCK_BOOTTIME, clock_gettime_ns
from typing import cast

from hms_cache_proxy.cache.state import Slot, StatePage
from hms_cache_proxy.peers.requests import ANSWER, PeerAsk, PeerRequest

RETRY_S = 0.05


class PeersLink(asyncio.Protocol):
    """One worker's requests."""

    def __init__(self, path: Path, page: StatePage, write_age_ns: int) -> None:
        """`write_age_ns`: the age from which on writes may leave whoever has answered."""
        self._path, self._page, self._write_age_ns = str(path), page, write_age_ns
        self._transport: asyncio.Transport | None = None
        self._waiting: dict[int, tuple[PeerRequest, Callable[[], None], int]] = {}
        """By token: the request, what to call, and until when leases that were given before may last."""

        self._tokens = 0
        self._buffer = bytearray()

    def ask(self, request: PeerRequest, answered: Callable[[], None]) -> None:
        """Call `answered` when nothing has to wait any more."""
        self._tokens += 1
        self._waiting[self._tokens] = (request, answered, self._page[Slot.GIVEN_UNTIL_NS])
        self._send(request, self._tokens)

    def tell(self, request: PeerRequest) -> None:
        """A request without an answer. If it is lost, the process finds out by itself."""
        self._send(request, 0)

    def _send(self, request: PeerRequest, token: int) -> None:
        if self._transport is not None and not _unfenced(request):
            self._transport.write(request.pack(token))

    async def run(self) -> None:
        """Stay connected; runs until it is cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            if self._transport is None:
                try:
                    await loop.create_unix_connection(lambda: self, self._path)
                except OSError:
                    self._decide_alone(everything=True)
            self._decide_alone(everything=False)
            await asyncio.sleep(RETRY_S)

    def _decide_alone(self, *, everything: bool) -> None:
        """Decide by the page about what cannot be asked."""
        now_ns, page = clock_gettime_ns(CLOCK_BOOTTIME), self._page
        settled = page[Slot.PEERS_SETTLED] or now_ns - page[Slot.PEERS_STARTED_NS] > self._write_age_ns
        if not settled:
            return
        nothing_given = now_ns >= page[Slot.GIVEN_UNTIL_NS]
        for token, (request, _, given_until_ns) in list(self._waiting.items()):
            fenced = request.kind in (PeerAsk.WRITE, PeerAsk.PASS)
            if now_ns >= given_until_ns if fenced else everything and nothing_given:
                self._answer(token)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._buffer.clear()
        for token, (request, *_) in list(self._waiting.items()):
            self._send(request, token)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while len(self._buffer) >= ANSWER.size:
            token: int = ANSWER.unpack_from(self._buffer)[0]
            del self._buffer[: ANSWER.size]
            self._answer(token)

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None

    def _answer(self, token: int) -> None:
        waited = self._waiting.pop(token, None)
        if waited is not None:
            waited[1]()


def _unfenced(request: PeerRequest) -> bool:
    """A write that could not be recorded here: peers cannot be told of it, and get no leases."""
    return request.kind is PeerAsk.WRITE and not request.number
