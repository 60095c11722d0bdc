"""The peers' process: carries out the commands of a Fleet.

Job: handle sockets, the clock, look-ups of the list, the words of the state page, and a report for the supervisor. It
decides nothing. It is a process of its own, so if its loop is stuck, this costs leases (other proxies wait for two
seconds, once), but does not disturb the readers of this proxy. Its successor begins with the fences of the environment
and the words of the page.

Until the cache shows which metastore's database it belongs to, no peer is dialled and no worker's request is answered;
workers then wait by the words of the page (server/peers_link.py). Owner: the process.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import signal
import socket
from collections.abc import Coroutine
from dataclasses import replace
from time import monotonic_ns, time_ns
from typing import Any

import structlog
import uvloop

from hms_cache_proxy.cache.reader import CacheReader
from hms_cache_proxy.cache.state import Slot, StatePage, boottime_ns
from hms_cache_proxy.config import Address, Config, paths
from hms_cache_proxy.config.peers import DNS_PREFIX
from hms_cache_proxy.config.security import issues_tokens
from hms_cache_proxy.consistency.peer_fences import PeerFences
from hms_cache_proxy.errors import CacheError
from hms_cache_proxy.metrics import PeersMetrics
from hms_cache_proxy.peers.cancellations import PeerCancellations
from hms_cache_proxy.peers.connections import PeerWire, WorkerWire
from hms_cache_proxy.peers.fleet import Fleet, OwnMember
from hms_cache_proxy.peers.messages import Hello, PeerMessage
from hms_cache_proxy.peers.open_requests import WorkerDesk
from hms_cache_proxy.peers.protocol import (
    SECOND,
    CancelTokens,
    ClosePeer,
    DialPeer,
    MayLeave,
    PeerCommand,
    SendToPeer,
    ServeUntil,
    TellPeer,
    WakeFollower,
    fleet_times,
)
from hms_cache_proxy.peers.requests import PeerRequest
from hms_cache_proxy.rate_limited_log import RateLimitedLog
from hms_cache_proxy.security.cancelled_tokens import CancelledTokens

LOOK_UP_S = 2.5
DIAL_S = 3.0
IDENTITY_S = 0.05
REPORT_S = 1.0
CANCELLED_S = 0.25
SAME_NOTICE_S = 600.0  # a peer that does not belong here dials again every two seconds, and anybody can open the port
MOST_GREETING = 64
"""Connections at once from whoever has not shown that it knows the secret."""

log = structlog.get_logger()


def run(config: Config, listener: int) -> None:
    """Serve until SIGTERM. `listener`: the descriptor of the socket that other proxies dial."""
    with StatePage(paths.state(config)) as page:
        page[Slot.LEASE_UNTIL_NS] = 0
        uvloop.run(PeersProcess(config, page).serve(socket.socket(fileno=listener)))


def unix_ms() -> int:
    """The clock of tokens."""
    return time_ns() // 1_000_000


class PeersProcess:
    """The loop, and what it has open."""

    def __init__(self, config: Config, page: StatePage) -> None:
        self._config, self._page = config, page
        self.secret = config.peer_secret.encode()
        self.incarnation = page[Slot.INCARNATION].to_bytes(8, "big") + page[Slot.INCARNATION + 1].to_bytes(8, "big")
        request_timeout_ns = config.upstream_options.request_timeout_ns
        self._fences = PeerFences(paths.fences(config), page, self.incarnation, request_timeout_ns=request_timeout_ns)
        self._wires: dict[int, PeerWire] = {}
        self._greeting: dict[int, PeerWire] = {}
        """Accepted connections whose handshake is not over, in their order."""

        self._say = RateLimitedLog(same_reason_s=SAME_NOTICE_S).warn
        self._links = 0
        self._desk = WorkerDesk()
        self._tasks: set[asyncio.Task[None]] = set()
        self._follower = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._fleet: Fleet | None = None
        self._own = b""  # what the cache belongs to
        self._file = 0  # the file in which that was found
        tokens = issues_tokens(config.security, config.kerberos)
        self._cancelled = PeerCancellations(CancelledTokens(paths.cancelled_tokens(config))) if tokens else None

    async def serve(self, listener: socket.socket) -> None:
        """Until SIGTERM."""
        loop = asyncio.get_running_loop()
        stop = asyncio.Event()
        loop.add_signal_handler(signal.SIGTERM, stop.set)
        loop.set_exception_handler(self._broken)
        path = paths.peers_socket(self._config)
        path.unlink(missing_ok=True)
        await loop.create_unix_server(lambda: WorkerWire(self), str(path))
        os.chmod(path, 0o600)
        self._spawn(self._begin(listener))
        await stop.wait()
        if self._fleet is not None:
            self._fleet.stop(boottime_ns())
            self._carry_out()
            await asyncio.sleep(0.1)  # for what was sent

    async def _begin(self, listener: socket.socket) -> None:
        """Learn what the cache belongs to, then take part."""
        while (metastore := self._belongs_to()) is None:
            self._page[Slot.PEERS_BEAT_NS] = monotonic_ns()
            await asyncio.sleep(IDENTITY_S)  # the follower creates it
        self._own = metastore
        own = OwnMember(
            self.incarnation,
            str(self._config.peer_listen),
            metastore,
            self._page[Slot.PEERS_STARTED_NS],
            self._page[Slot.GIVEN_UNTIL_NS],
            serves=self._config.consistency in ("session", "bounded"),
        )
        self._fleet = Fleet(own, self._fences, fleet_times(self._config.peers))
        await asyncio.get_running_loop().create_server(self._accepted, sock=listener)
        log.info("peers", listen=str(self._config.peer_listen), peers=list(self._config.peers))
        self._desk.open(self._fleet, boottime_ns())
        self._carry_out()
        for work in (self._look_up(), self._tick(), self._report()):
            self._spawn(work)
        if self._cancelled is not None:
            self._spawn(self._share(self._cancelled))

    def _belongs_to(self) -> bytes | None:
        """Identifies the database and what of it is cached. None: there is no cache at the moment."""
        config, file = self._config, self._page[Slot.CACHE_FILE]
        reader = CacheReader(paths.cache(config), self._page)
        try:
            reader.snapshot().close()
        except CacheError:
            return None
        finally:
            reader.close()
        assert reader.identity is not None
        self._file = file
        scope = json.dumps([reader.identity.database_uuid, sorted(config.include), sorted(config.exclude)])
        return hashlib.sha256(scope.encode()).digest()

    def _belongs_elsewhere(self) -> bool:
        """Is there another cache in the place of the one that was there: of another database, or of one that has an id
        only now?"""
        found = self._belongs_to() if self._page[Slot.CACHE_FILE] != self._file else None
        return found is not None and found != self._own

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._end(task.exception())

    def _broken(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """A callback of the loop has raised. Commands may be lost, for which a write would wait forever."""
        self._end(context.get("exception") or RuntimeError(context["message"]))

    def _end(self, error: BaseException | None) -> None:
        """End at once after a bug."""
        log.error("the peers' process ends after an internal error", exc_info=error)
        self._begin_again()

    def _begin_again(self) -> None:
        """End at once. The supervisor starts another process, which begins with what is recorded, and workers ask it
        again."""
        self._page[Slot.LEASE_UNTIL_NS] = 0
        os._exit(1)

    # the list and the clock

    async def _look_up(self) -> None:
        while True:
            began_ns = boottime_ns()
            addresses, complete = await self._addresses()
            assert self._fleet is not None
            self._fleet.listed(addresses, began_ns, complete=complete)
            self._carry_out()
            await asyncio.sleep(LOOK_UP_S)

    async def _addresses(self) -> tuple[list[str], bool]:
        loop, found, complete = asyncio.get_running_loop(), [], True
        for peer in self._config.peers:
            if not peer.startswith(DNS_PREFIX):
                found.append(peer)
                continue
            host, _, port = peer.removeprefix(DNS_PREFIX).rpartition(":")
            try:
                rows = await loop.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)
            except (OSError, ValueError) as error:  # ValueError: it cannot be a name of DNS
                complete = False
                self._say("peers cannot be looked up", host, address=host, reason=str(error))
                continue
            found += [str(Address(str(row[4][0]), int(port))) for row in rows]
        return found, complete

    async def _tick(self) -> None:
        dropped_ns = 0
        while True:
            fleet, now_ns = self._fleet, boottime_ns()
            assert fleet is not None
            self._page[Slot.PEERS_BEAT_NS] = monotonic_ns()
            if self._belongs_elsewhere():
                log.warning("the cache is of another database now: the peers' process begins again")
                self._begin_again()
            self._renew(fleet, now_ns)
            fleet.tick(now_ns)
            self._carry_out()
            if now_ns - dropped_ns > 60 * SECOND:
                dropped_ns = now_ns
                try:
                    self._fences.drop_old()
                except CacheError as error:
                    log.warning("old records cannot be dropped", error=str(error))
            await asyncio.sleep(max(0.005, (fleet.next_ns(boottime_ns()) - boottime_ns()) / SECOND))

    def _renew(self, fleet: Fleet, now_ns: int) -> None:
        """If the fences' file is another one, nothing of the peers is recorded in it: begin again with all of them. The
        new file fences everything for this process until the word is out that it has no lease: each new one begins
        with what its giver tells again. (If this process has just been started, it may have had none.)"""
        try:
            if self._fences.renew():
                fleet.begin_again(now_ns)
                self._carry_out()
            self._fences.join()
        except CacheError as error:
            log.error("the fences cannot be opened yet", error=str(error))

    # connections

    def _accepted(self) -> PeerWire:
        self._links += 1
        return PeerWire(self, self._links, None)

    def connected(self, wire: PeerWire) -> None:
        """A connection is open, and its handshake begins. Of too many that are accepted, the oldest has had the most
        time."""
        if wire.address is not None:
            return
        if len(self._greeting) >= MOST_GREETING:
            self._greeting.pop(next(iter(self._greeting))).close("too many connections have not greeted")
        self._greeting[wire.link] = wire

    async def _dial(self, address: str) -> None:
        assert self._fleet is not None
        self._links += 1
        link, (host, _, port) = self._links, address.rpartition(":")
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(DIAL_S):
                await loop.create_connection(lambda: PeerWire(self, link, address), host.strip("[]"), int(port))
        except (OSError, TimeoutError, ValueError) as error:  # ValueError: what a peer has named is no address
            self._fleet.dial_failed(address, str(error) or "no answer in time", boottime_ns())
            self._carry_out()

    def opened(self, wire: PeerWire, incarnation: bytes) -> None:
        """A handshake is over."""
        assert self._fleet is not None
        self._greeting.pop(wire.link, None)
        self._wires[wire.link] = wire
        if wire.address is None:
            self._fleet.accepted(wire.link, incarnation, boottime_ns())
        else:
            self._fleet.dialled(wire.link, wire.address, incarnation, boottime_ns())
        self._carry_out()

    def arrived(self, wire: PeerWire, message: PeerMessage) -> None:
        """A message."""
        assert self._fleet is not None
        self._fleet.received(wire.link, message, boottime_ns())
        self._carry_out()

    def ended(self, wire: PeerWire, problem: str) -> None:
        """A connection has ended, or its handshake has failed."""
        assert self._fleet is not None
        if self._wires.pop(wire.link, None) is not None:
            self._fleet.closed(wire.link, boottime_ns())
        elif not wire.greeted and wire.address is not None:
            self._say("a peer does not greet", wire.address, address=wire.address, reason=problem)
            self._fleet.dial_failed(wire.address, problem, boottime_ns())
        elif not wire.greeted:
            self._greeting.pop(wire.link, None)
            self._say("a peer was turned away", wire.remote_host, address=wire.remote_host, reason=problem)
        self._carry_out()

    # workers

    def asked(self, worker: WorkerWire, token: int, request: PeerRequest) -> None:
        """A request of a worker."""
        self._desk.asked(worker, token, request, boottime_ns())
        if self._fleet is not None:
            self._carry_out()

    # commands

    def _carry_out(self) -> None:
        assert self._fleet is not None
        while commands := self._fleet.take():
            for command in commands:
                self._one(command)
        self._page[Slot.PEERS_SETTLED] = int(self._fleet.writes_leave)

    def _one(self, command: PeerCommand) -> None:
        match command:
            case SendToPeer(link, message):
                wire = self._wires.get(link)
                if wire is not None:
                    wire.send(self._addressed(wire, message))
            case ClosePeer(link, reason):
                closing = self._wires.pop(link, None)
                if closing is not None:
                    closing.close(reason)
            case DialPeer(address):
                self._spawn(self._dial(address))
            case ServeUntil(until_ns):
                self._page[Slot.LEASE_UNTIL_NS] = until_ns
            case MayLeave(token):
                self._desk.may_leave(token)
            case WakeFollower():
                self._wake()
            case CancelTokens(records):
                if self._cancelled is not None:
                    self._cancelled.told(records, unix_ms())
            case TellPeer(event, address, reason):
                self._say(event, address, address=address, reason=reason)

    def _addressed(self, wire: PeerWire, message: PeerMessage) -> PeerMessage:
        """A hello names this proxy as the other one can reach it."""
        own = self._config.peer_listen
        if not isinstance(message, Hello) or own.host not in ("0.0.0.0", "::"):
            return message
        return replace(message, address=str(own._replace(host=wire.own_host)).encode())

    def _wake(self) -> None:
        try:
            self._follower.sendto(b"!", str(paths.follower_socket(self._config)))
        except OSError:
            return  # there is no follower, or its queue is full of such datagrams

    # cancelled tokens

    async def _share(self, cancelled: PeerCancellations) -> None:
        """What is new in the file is told; what peers have told is written there."""
        fleet, problem = self._fleet, ""
        assert fleet is not None
        while True:
            taken, before = cancelled.take(), problem
            try:
                records, fitted = await asyncio.to_thread(cancelled.exchange, taken, unix_ms())
            except OSError as error:  # a full disk; tried again
                cancelled.put_back(taken)
                problem = str(error)
            else:
                problem = "" if fitted else "there are too many"
                if records is not None:
                    fleet.tokens_cancelled(records)
                    self._carry_out()
            if problem and problem != before:
                log.error("cancelled tokens that peers tell of cannot be kept", reason=problem)
            await asyncio.sleep(CANCELLED_S)

    # the report

    async def _report(self) -> None:
        metrics, written = PeersMetrics(), True
        while True:
            assert self._fleet is not None
            self._fleet.counted(self._page[Slot.HITS], self._page[Slot.CACHEABLE_READS])
            self._carry_out()
            found = self._fleet.report(boottime_ns())
            try:
                self._write(json.dumps(found))
                written = True
            except OSError as error:  # a full disk: /status shows an old report, which must not end the leases
                if written:
                    log.error("what is known of the peers cannot be written for /status", error=str(error))
                written = False
            metrics.peers([str(one["state"]) for one in found])
            while self._fleet.outbox.acks_ns:
                metrics.acknowledged(self._fleet.outbox.acks_ns.popleft() / 1e9)
            await asyncio.sleep(REPORT_S)

    def _write(self, report: str) -> None:
        path = paths.peers_report(self._config)
        fresh = path.with_name(path.name + ".new")
        fresh.write_text(report)
        os.replace(fresh, path)
