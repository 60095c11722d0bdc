"""What the connections of one worker share: counters, tasks, turns, and the list of those that wait for the follower.

Job: hold this state, and do what concerns all connections: sweep, relieve, drain. Must not know: how one connection is
served (driver.py). Owner: the worker's event loop; nothing here is called from another thread.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from time import monotonic_ns
from typing import TYPE_CHECKING, Any

import structlog

from hms_cache_proxy.methods.decision import Dispatcher, Wait
from hms_cache_proxy.rate_limited_log import RateLimitedLog
from hms_cache_proxy.server.connection_settings import ConnectionSettings
from hms_cache_proxy.server.peers_link import PeersLink
from hms_cache_proxy.server.slow_clients import SlowClients
from hms_cache_proxy.server.turns import Turns
from hms_cache_proxy.server.worker_basis import WorkerBasis
from hms_cache_proxy.server.worker_states import Member
from hms_cache_proxy.upstream.endpoints import Endpoint
from hms_cache_proxy.upstream.places import ConnectionPlaces

if TYPE_CHECKING:
    from hms_cache_proxy.server.driver import Client

WATCH_INTERVAL_S = 0.0005  # how often the state page is read while requests wait
TOLD_INTERVAL_S = 0.005  # the same if the follower tells when its step has ended: it may not have been heard
LOOKED_AT_ONCE = 64  # reads that are answered on the hot path in one turn of the loop: about a millisecond
AGAIN_S = 1.0  # until a task that has failed is started again
SWEEP_AT_ONCE = 200  # connections checked in one turn of the loop

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Allowed:
    """Limits on the connections of one worker: numbers, and how long they may wait."""

    connections: int  # of all workers together
    connections_per_address: int  # 0: any number
    upstream_connections: int  # to each metastore; 0: any number
    connect_s: float
    queue_s: float


class Hub:
    """What the connections of one worker share."""

    def __init__(
        self,
        basis: WorkerBasis,
        *,
        dispatcher: Dispatcher,
        settings: ConnectionSettings,
        member: Member,
        allowed: Allowed,
        peers: PeersLink | None = None,
    ) -> None:
        self.dispatcher = dispatcher
        self.endpoints = basis.endpoints
        self.settings = settings
        self.metrics = basis.metrics
        self.member = member
        self.allowed = allowed
        self.logs = basis.logs
        self.peers = peers
        self.places: ConnectionPlaces[Client] = ConnectionPlaces(allowed.upstream_connections)
        self.by_address: Counter[str] = Counter()  # connections of each client address
        self.clients: set[Client] = set()
        self.draining = False
        self.turns = Turns()
        self.stuck: SlowClients[Client] = SlowClients(settings.room.budgets.memory)
        self._tasks: set[asyncio.Task[None]] = set()
        self._waiting: dict[Client, Wait] = {}  # clients whose request waits for the dispatcher
        self._watching: asyncio.TimerHandle | None = None
        self._watch_at_s = 0.0
        self.say = RateLimitedLog().warn

    def leave_place(self, endpoint: Endpoint, client: Client) -> None:
        """A client needs its place at the metastore no more, or waits for it no longer. It goes to the next one."""
        first = self.places.leave(endpoint, client)
        if first is not None:
            first.place_free(endpoint)

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Start a named task. It is referenced until it ends, and its failure is logged."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def keep(self, work: Callable[[], Coroutine[Any, Any, None]], name: str) -> None:
        """The same for a task that runs as long as the worker: if it fails, it is started again."""

        def ended(task: asyncio.Task[None]) -> None:
            if not task.cancelled() and task.exception() is not None:
                asyncio.get_running_loop().call_later(AGAIN_S, self.keep, work, name)

        self.spawn(work(), name).add_done_callback(ended)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self.metrics.internal_error("task")
            log.error("a task failed", task=task.get_name(), exc_info=task.exception())

    def wait(self, client: Client, what: Wait) -> None:
        """Call the client's `moved` when its request may be decided again."""
        self._waiting[client] = what
        if self._watching is None or not what.told:
            self._watch_in(TOLD_INTERVAL_S if what.told else WATCH_INTERVAL_S)

    def gone(self, client: Client) -> None:
        """The client has gone, so nothing waits for an answer to it any more."""
        self._waiting.pop(client, None)

    def _watch_in(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        at_s = loop.time() + seconds
        if self._watching is not None:
            if self._watch_at_s <= at_s:
                return
            self._watching.cancel()
        self._watch_at_s, self._watching = at_s, loop.call_at(at_s, self._watch)

    def _watch(self) -> None:
        self._watching = None
        self.look()

    def look(self) -> None:
        """Call the clients whose requests may be decided again."""
        now_ns, moved, looked_ns = monotonic_ns(), self.dispatcher.moved(), self.dispatcher.looked_ns()
        due = [
            client
            for client, what in self._waiting.items()
            if what.until_ns <= now_ns
            or (moved != what.seen if what.look_after_ns is None else looked_ns > what.look_after_ns)
        ]
        for client in due:
            del self._waiting[client]
        if self._waiting:
            told = all(what.told for what in self._waiting.values())
            self._watch_in(TOLD_INTERVAL_S if told else WATCH_INTERVAL_S)
        for number, client in enumerate(due):
            if number >= LOOKED_AT_ONCE or not client.looked():
                self.turns.add(client.address, client.moved)

    async def sweep(self, interval_s: float) -> None:
        """Repeatedly end what has waited for too long."""
        while True:
            await asyncio.sleep(interval_s)
            for number, client in enumerate(list(self.clients)):
                if number % SWEEP_AT_ONCE == SWEEP_AT_ONCE - 1:
                    await asyncio.sleep(0)
                client.expire()
            self.relieve()

    def relieve(self) -> None:
        """Close the clients that have not read for the longest time, until the replies fit into memory."""
        for client in self.stuck.too_much(monotonic_ns()):
            client.take_too_much()

    async def drain(self, timeout_s: float) -> None:
        """Let calls in flight end, then close; abort connections that have not ended in time."""
        self.draining = True
        for client in list(self.clients):
            client.drain()
        deadline = monotonic_ns() + int(timeout_s * 1e9)
        while self.clients and monotonic_ns() < deadline:
            await asyncio.sleep(0.02)
        if self.clients:
            log.warning("connections were closed at the end of the drain time", connections=len(self.clients))
        for client in list(self.clients):
            client.abort()
        await asyncio.sleep(0)
