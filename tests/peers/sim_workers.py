"""A worker of a simulated proxy: its real link to the peers' process, over a simulated Unix socket."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hms_cache_proxy.cache.state import Slot
from hms_cache_proxy.peers.requests import ANSWER, PeerRequest, take_requests
from hms_cache_proxy.server.peers_link import PeersLink

if TYPE_CHECKING:
    from tests.peers.world import SimProxy


class SimPipe:
    """One connection of the worker to the peers' process: bytes in two directions."""

    def __init__(self, worker: SimWorker) -> None:
        self.worker = worker
        self.up: deque[bytes] = deque()
        self.down: deque[bytes] = deque()
        self.received = bytearray()

    def write(self, data: bytes) -> None:
        """As the worker's transport."""
        self.up.append(data)
        self.worker.moved()

    def answer(self, token: int) -> None:
        """As the process's end: an AskingWorker."""
        if self.worker.pipe is self:
            self.down.append(ANSWER.pack(token))
            self.worker.moved()


class SimWorker:
    """One worker. What is on its way moves at once, unless the world is `slow`."""

    def __init__(self, proxy: SimProxy) -> None:
        self._proxy, self._world = proxy, proxy.world
        self.pipe: SimPipe | None = None
        self._moving = False
        self.link: Any = None

    def start(self) -> None:
        """A new process: it has asked nothing yet."""
        self.pipe = None
        write_age_ns = self._world.times.write_age_ns
        self.link = PeersLink(Path("peers.sock"), self._proxy.page, write_age_ns, self._proxy.local_ns)
        self.connect()

    def connect(self) -> None:
        if self.pipe is None:
            self.pipe = SimPipe(self)
            self.link.connection_made(self.pipe)

    def lose(self) -> None:
        """The connection ends. What was on its way is lost."""
        if self.pipe is not None:
            self.pipe = None
            self.link.connection_lost(None)

    def ask(self, request: PeerRequest, answered: Callable[[], None]) -> None:
        self.link.ask(request, answered)

    def moved(self) -> None:
        """Bytes are on their way."""
        while not self._world.slow and not self._moving and self.moves:
            self._moving = True
            for deliver in (self.deliver_up, self.deliver_down):
                deliver()
            self._moving = False

    @property
    def moves(self) -> bool:
        pipe = self.pipe
        return pipe is not None and bool((pipe.up and not self._proxy.stopped) or pipe.down)

    def deliver_up(self, part: int | None = None) -> None:
        """The process reads; `part`: only so many bytes."""
        pipe, proxy = self.pipe, self._proxy
        if pipe is None or not pipe.up or proxy.stopped:
            return
        pipe.received += _taken(pipe.up, part)
        for token, request in take_requests(pipe.received):
            proxy.desk.asked(pipe, token, request, proxy.local_ns())
        proxy.carry_out()

    def deliver_down(self, part: int | None = None) -> None:
        """The worker reads."""
        if self.pipe is not None and self.pipe.down:
            self.link.data_received(_taken(self.pipe.down, part))

    def look(self) -> None:
        """What the worker does every 50 ms."""
        self.connect()
        if "late_word" in self._world.faults:  # waits for the leases that are given now, not for those of then
            for question in self.link._waiting.values():
                question.given_until_ns = self._proxy.page[Slot.GIVEN_UNTIL_NS]
        if "never_alone" not in self._world.faults:
            self.link.check()


def _taken(queue: deque[bytes], part: int | None) -> bytes:
    data = b"".join(queue)
    queue.clear()
    if part is not None and part < len(data):
        queue.append(data[part:])
        return data[:part]
    return data
