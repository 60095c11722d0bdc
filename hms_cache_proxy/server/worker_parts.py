"""Builds the parts of a worker from the settings.

Job: make what the connections of a worker share: open caches, the dispatcher with those around it,
the hub with its logs. Must not know: signals, tasks, in which order a worker starts and ends (worker.py).
Invariants: nothing here runs by itself; whoever has a cache opened closes it.
Owner: the process.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import structlog

from hms_cache_proxy.cache.reader import CacheReader
from hms_cache_proxy.cache.state import StatePage
from hms_cache_proxy.cache.streams import COPY_AFTER_NS
from hms_cache_proxy.cache.ttl import TtlCache, bounds_of
from hms_cache_proxy.config import Config, paths
from hms_cache_proxy.config.security import offers_http, passes_logins
from hms_cache_proxy.consistency.fences import FenceStore
from hms_cache_proxy.consistency.processes import started
from hms_cache_proxy.consistency.suspension import Suspension
from hms_cache_proxy.methods.capabilities import CapableDispatcher
from hms_cache_proxy.methods.decision import Dispatcher
from hms_cache_proxy.methods.dispatch import SharedState, WorkerLinks
from hms_cache_proxy.methods.learned import dispatcher
from hms_cache_proxy.methods.logins import LoginDispatcher
from hms_cache_proxy.methods.method_plan import declared_reads
from hms_cache_proxy.methods.protection import ProtectedDispatcher
from hms_cache_proxy.methods.relay import RelayDispatcher
from hms_cache_proxy.methods.ttl.dispatcher import LoadingDispatcher
from hms_cache_proxy.methods.ttl.switch import Switch, is_by_time
from hms_cache_proxy.metrics import FLUSH_INTERVAL_S, WorkerMetrics
from hms_cache_proxy.peers.protocol import fleet_times
from hms_cache_proxy.rate_limited_log import RateLimitedLog
from hms_cache_proxy.recording import writer as recording
from hms_cache_proxy.recording.recorder import Recorder
from hms_cache_proxy.recording.replay import Recorded, ReplayDispatcher
from hms_cache_proxy.server.connection_settings import ConnectionSettings
from hms_cache_proxy.server.hub import Allowed, Hub
from hms_cache_proxy.server.peers_link import AnsweredBy, PeersLink
from hms_cache_proxy.server.refresher import Refresher
from hms_cache_proxy.server.sasl_service import SaslService
from hms_cache_proxy.server.spool import SpoolRoom
from hms_cache_proxy.server.turns import Turns
from hms_cache_proxy.server.waker import Waker
from hms_cache_proxy.server.worker_basis import WorkerBasis
from hms_cache_proxy.server.worker_states import Member
from hms_cache_proxy.wire.message import MessageLimits

NO_STORE = "no_store"  # the reason of relayed calls where there is nothing to follow
TEND_INTERVAL_S = COPY_AFTER_NS / 4e9

log = structlog.get_logger()


class OpenedCache:
    """What a worker with a followed cache opens."""

    def __init__(self, config: Config, index: int, basis: WorkerBasis, suspension: Suspension) -> None:
        self.page = StatePage(paths.state(config))
        self.reader = CacheReader(paths.cache(config), self.page, paths.uses(config))
        request_timeout_ns = config.upstream_options.request_timeout_ns
        self.fences = FenceStore(
            paths.fences(config), self.page, request_timeout_ns=request_timeout_ns, fleet=bool(config.peers)
        )
        self.waker = Waker(paths.follower_socket(config), paths.worker_socket(config, index))
        self.peers = _peers_of(config, self.page, basis.metrics) if config.peers else None
        shared = SharedState(self.page, self.reader, self.fences, suspension)
        links = WorkerLinks(
            self.waker.wake,
            memory=basis.budgets.memory,
            outage=lambda: basis.endpoints.all_sick,
            peers=self.peers,
            told=basis.logs.of_hits,
            samples=basis.logs.samples,
        )
        self.dispatcher = dispatcher(config, shared, basis.metrics, links)

    def hear(self, hub: Hub) -> None:
        """The follower tells that a step has ended."""
        self.waker.heard()
        hub.look()

    async def tend(self, turns: Turns) -> None:
        """Detach long listings from their snapshots; runs until it is cancelled."""

        def some() -> None:
            if self.reader.streams.tend():
                turns.add("", some)

        while True:
            await asyncio.sleep(TEND_INTERVAL_S)
            some()

    def close(self) -> None:
        self.waker.close()
        self.reader.close()
        self.fences.close()
        self.page.close()


class OpenedTtl:
    """What a worker in TTL mode opens."""

    def __init__(self, config: Config, basis: WorkerBasis, suspension: Suspension, page: StatePage | None) -> None:
        """`page`: of a followed cache, beside which TTL mode is not always in charge."""
        metrics, memory = basis.metrics, basis.budgets.memory
        self._page = page
        self.cache = TtlCache(paths.ttl(config), bounds_of(config.ttl), started)
        options = config.upstream_options
        self.refresher = Refresher(
            basis.endpoints,
            metrics,
            connect_timeout_s=options.connect_timeout_s,
            request_timeout_s=options.request_timeout_s,
            memory=memory,
        )
        self.memory = memory
        self.dispatcher = LoadingDispatcher(config, self.cache, metrics, self.refresher.wake, suspension, memory)

    async def tend(self) -> None:
        """Load what is due, and keep what the workers share up to date; runs until it is cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.refresher.run(self.dispatcher.due), name="refresh")
            while True:
                await asyncio.sleep(FLUSH_INTERVAL_S)
                for piece in self.dispatcher.used():
                    self.dispatcher.touch(piece)
                    await asyncio.sleep(0)
                if self._page is None or is_by_time(self._page):
                    self.dispatcher.tell()
                self.dispatcher.forget_dead_readers()

    def close(self) -> None:
        self.cache.close()


class Opened(NamedTuple):
    """What a worker has opened."""

    cache: OpenedCache | None
    ttl: OpenedTtl | None
    writer: recording.Writer | None
    sasl: SaslService | None


def _peers_of(config: Config, page: StatePage, metrics: WorkerMetrics) -> PeersLink:
    """The way to the other proxies, which counts and logs how long calls wait for them."""
    say = RateLimitedLog().warn

    def waited(by: AnsweredBy, seconds: float) -> None:
        metrics.waited_for_peers(by, seconds)
        if by == "page":
            say("the peers' process has not answered: a call has waited for leases", by, seconds=f"{seconds:.1f}")

    return PeersLink(paths.peers_socket(config), page, fleet_times(config.peers).write_age_ns, waited=waited)


def dispatcher_of(config: Config, opened: Opened) -> ProtectedDispatcher:
    """What decides about requests, from the inside out: the cache, capabilities for clients, the recording, logins,
    protection. What a layer refuses or answers, those inside it do not see."""
    cache = opened.cache
    inner = _capable(config, _innermost(config, cache, opened.ttl))
    if opened.writer is not None:
        inner = Recorder(inner, opened.writer)
    inner = _logged_in(config, opened.sasl, inner)
    queue_ns = int(config.upstream_options.queue_timeout_s * 1e9)
    forget = None if cache is None else cache.dispatcher.forget
    return ProtectedDispatcher(inner, config.protection, declared_reads(config), queue_ns=queue_ns, forget=forget)


def _innermost(config: Config, cache: OpenedCache | None, ttl: OpenedTtl | None) -> Dispatcher:
    """The dispatcher that answers or relays."""
    if config.replay:
        return ReplayDispatcher(Recorded(config.replay))
    if cache is not None and ttl is not None:
        return Switch(cache.dispatcher, ttl.dispatcher, cache.page, ttl.memory)
    opened = cache or ttl
    return RelayDispatcher(NO_STORE) if opened is None else opened.dispatcher


def _capable(config: Config, inner: Dispatcher) -> Dispatcher:
    """The dispatcher, for clients that are given capabilities."""
    bridge = config.bridge
    relocates = bridge.managed_locations == "metastore"
    return CapableDispatcher(inner, bridge.capabilities, relocates=relocates) if bridge.capabilities else inner


def _logged_in(config: Config, sasl: SaslService | None, inner: Dispatcher) -> Dispatcher:
    """The dispatcher, if users are known by logins or tokens, or the proxy logs in to the metastores."""
    security = config.security
    upstream = config.kerberos.upstream or config.http_transport.upstream
    used = upstream or sasl is not None or offers_http(security)
    if not used:
        return inner
    tokens, passed = None if sasl is None else sasl.tokens, passes_logins(security, config.kerberos)
    return LoginDispatcher(inner, upstream=upstream, block=security.block, tokens=tokens, passed=passed)


def hub_of(
    config: Config, basis: WorkerBasis, cache: OpenedCache | None, dispatcher: Dispatcher, member: Member
) -> Hub:
    """What the connections share."""
    limits, options = config.limits, config.upstream_options
    return Hub(
        basis,
        dispatcher=dispatcher,
        settings=ConnectionSettings(
            limits=MessageLimits(message_bytes=limits.max_message_bytes, string_bytes=limits.max_string_bytes),
            idle_timeout_ns=int(limits.idle_timeout_s * 1e9),
            request_timeout_ns=options.request_timeout_ns,
            upstream_idle_ns=int(options.idle_timeout_s * 1e9),
            room=SpoolRoom(config.data_dir, basis.budgets),
        ),
        member=member,
        allowed=Allowed(
            connections=limits.max_connections,
            connections_per_address=limits.max_connections_per_address,
            upstream_connections=options.max_connections,
            connect_s=options.connect_timeout_s,
            queue_s=options.queue_timeout_s,
        ),
        peers=None if cache is None else cache.peers,
    )
