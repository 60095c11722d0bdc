"""Keeps the questions of workers that have no answer yet.

Job: turn a worker's request into an event of the Fleet, and MayLeave into the worker's answer. A question that comes
before there is a Fleet waits for it. So does a question whose worker has connected again in the meantime and asks it
again. While there is no cache, there is no Fleet; workers then get no answer, decide by the state page, and go on
asking. So only the last MOST_EARLY of these questions are kept. Must not know: sockets, the protocol between proxies.
Owner: the peers' process.
"""

from __future__ import annotations

from collections import deque
from typing import Final, Protocol

from hms_cache_proxy.peers.fleet import Fleet
from hms_cache_proxy.peers.requests import PeerAsk, PeerRequest

MOST_EARLY: Final = 1000
"""Questions that wait for a Fleet."""


class AskingWorker(Protocol):
    """A worker's connection."""

    def answer(self, token: int) -> None:
        """What was asked under this token need not wait any more."""
        ...


class WorkerDesk:
    """The questions of all workers. `fleet` is None until this proxy takes part."""

    def __init__(self, fleet: Fleet | None = None) -> None:
        self._fleet = fleet
        self._early: deque[tuple[AskingWorker, int, PeerRequest]] = deque(maxlen=MOST_EARLY)
        self._asked: dict[int, tuple[AskingWorker, int]] = {}
        self._last = 0

    def open(self, fleet: Fleet, now_ns: int) -> None:
        """This proxy takes part from now on."""
        self._fleet = fleet
        for worker, token, request in self._early:
            self.asked(worker, token, request, now_ns)
        self._early.clear()

    def asked(self, worker: AskingWorker, token: int, request: PeerRequest, now_ns: int) -> None:
        """A request has arrived."""
        fleet = self._fleet
        if fleet is None:
            if request.answered:  # there is nobody yet who could be told of anything else
                self._early.append((worker, token, request))
            return
        if request.answered:
            self._last += 1
            self._asked[self._last] = (worker, token)
        match request.kind:
            case PeerAsk.WRITE:
                fleet.write(self._last, request.number, request.targets, now_ns)
            case PeerAsk.OVER:
                fleet.over(request.number, now_ns)
            case PeerAsk.CANCELLED:
                fleet.over(request.number, now_ns, executed=False)
            case PeerAsk.NOTED:
                fleet.noted(self._last, request.number, now_ns)
            case PeerAsk.LOCKED:
                fleet.locked(request.number, request.targets, now_ns)
            case PeerAsk.PASS:
                fleet.passes(self._last)

    def may_leave(self, token: int) -> None:
        """The Fleet has answered."""
        worker, asked = self._asked.pop(token)
        worker.answer(asked)
