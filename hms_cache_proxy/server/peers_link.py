"""A worker's connection to the peers' process: asks whether a write may leave, or a reply be passed on.

Job: ask the questions, again on each new connection if they have no answer yet. If no answer comes, because the process
is stuck or gone, or because something could not be recorded, the state page decides: a question is answered with yes
once all leases have run out that this proxy had given when the question was asked, and the proxy is old enough to let
writes leave. This is safe: what a question is about (a fence, a note) is recorded before the question is asked, and the
process writes the end of a lease to the page before it reads the records and gives the lease (fleet.py), so whoever
gets a lease later is told first. While something cannot be recorded, no lease is given. A write that has left because
of the page may be over before the process hears of it. Its fence is gone then, and a note takes its place (`alone`). So
no question waits for longer than the longest lease, or than a young proxy waits for its peers. Must not know: the
protocol between proxies. Owner: the worker's loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, cast

from hms_cache_proxy.cache.state import Slot, boottime_ns
from hms_cache_proxy.peers.requests import ANSWER, PeerAsk, PeerRequest

RETRY_S = 0.05
AnsweredBy = Literal["process", "page"]
"""What has ended a wait."""


class Words(Protocol):
    """The state page."""

    def __getitem__(self, slot: int) -> int: ...


@dataclass(slots=True)
class _Question:
    request: PeerRequest
    answered: Callable[[], None]
    given_until_ns: int
    """Until when leases that were given before may last."""

    asked_ns: int


class PeersLink(asyncio.Protocol):
    """One worker's requests."""

    def __init__(
        self,
        path: Path,
        page: Words,
        write_age_ns: int,
        clock_ns: Callable[[], int] = boottime_ns,
        *,
        waited: Callable[[AnsweredBy, float], None] = lambda by, seconds: None,
    ) -> None:
        """`write_age_ns`: the age from which on writes may leave whoever has answered. `waited` is told of each wait
        that has ended, and its seconds."""
        self._path, self._page, self._write_age_ns = str(path), page, write_age_ns
        self._clock_ns = clock_ns
        self._waited = waited
        self._transport: asyncio.Transport | None = None
        self._waiting: dict[int, _Question] = {}
        self._tokens = 0
        self._buffer = bytearray()
        self._alone: set[int] = set()
        """Fences of writes that have left by the page."""

    def ask(self, request: PeerRequest, answered: Callable[[], None]) -> None:
        """Call `answered` when nothing has to wait any more."""
        self._tokens += 1
        given_until_ns = self._page[Slot.GIVEN_UNTIL_NS]
        self._waiting[self._tokens] = _Question(request, answered, given_until_ns, self._clock_ns())
        self._send(request, self._tokens)

    def tell(self, request: PeerRequest) -> None:
        """A request without an answer. If it is lost, the process finds out by itself."""
        self._send(request, 0)

    def _send(self, request: PeerRequest, token: int) -> None:
        if self._transport is not None and request.recorded:
            self._transport.write(request.pack(token))

    def alone(self, number: int) -> bool:
        """A write is over: has it left by the page? Then peers may not have been told of its fence."""
        alone = number in self._alone
        self._alone.discard(number)
        return alone

    async def run(self) -> None:
        """Stay connected; runs until it is cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            if self._transport is None:
                try:
                    await loop.create_unix_connection(lambda: self, self._path)
                except OSError:
                    pass  # there is no process now
            self.check()
            await asyncio.sleep(RETRY_S)

    def check(self) -> None:
        """Decide by the page about what has waited for long enough."""
        now_ns, page = self._clock_ns(), self._page
        if page[Slot.PEERS_SETTLED] or now_ns - page[Slot.PEERS_STARTED_NS] > self._write_age_ns:
            for token, question in list(self._waiting.items()):
                if now_ns >= question.given_until_ns:
                    self._answer(token, "page")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._buffer.clear()
        for token, question in list(self._waiting.items()):
            self._send(question.request, token)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while len(self._buffer) >= ANSWER.size:
            token: int = ANSWER.unpack_from(self._buffer)[0]
            del self._buffer[: ANSWER.size]
            self._answer(token, "process")

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None

    def _answer(self, token: int, by: AnsweredBy) -> None:
        question = self._waiting.pop(token, None)
        if question is not None:
            if by == "page" and question.request.kind is PeerAsk.WRITE and question.request.recorded:
                self._alone.add(question.request.number)
            self._waited(by, (self._clock_ns() - question.asked_ns) / 1e9)
            question.answered()
