"""Builds the parts of a worker from the settings.

Job: make what the connections of a worker share: budgets, metastores, open caches, the decider with the deciders around
it, the hub with its logs. Must not know: signals, tasks, in which order a worker starts and ends (worker.py).
Invariants: nothing here runs by itself; whoever has a cache opened closes it.
Owner: the process.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import structlog

from hms_cache_proxy.budget import Budget, Budgets
from hms_cache_proxy.cache.reader import CacheReader
from hms_cache_proxy.cache.state import StatePage
from hms_cache_proxy.cache.streams import COPY_AFTER_NS
from hms_cache_proxy.cache.ttl import TtlCache, bounds_of
from hms_cache_proxy.config import Config, paths
from hms_cache_proxy.config.security import offers_http, passes_logins
from hms_cache_proxy.consistency.fences import FenceStore
from hms_cache_proxy.consistency.processes import started
from hms_cache_proxy.consistency.suspension import Suspension
from hms_cache_proxy.methods.capabilities import CapableDecider
from hms_cache_proxy.methods.decision import Decider
from hms_cache_proxy.methods.dispatch import SharedState
from hms_cache_proxy.methods.hot import Sampled
from hms_cache_proxy.methods.learned import dispatcher
from hms_cache_proxy.methods.logins import LoginDecider
from hms_cache_proxy.methods.method_plan import declared_reads
from hms_cache_proxy.methods.protection import ProtectedDecider
from hms_cache_proxy.methods.relay import RelayDispatcher
from hms_cache_proxy.methods.ttl.dispatcher import LoadingDispatcher
from hms_cache_proxy.methods.ttl.switch import Switch
from hms_cache_proxy.metrics import FLUSH_INTERVAL_S, WorkerMetrics
from hms_cache_proxy.recording import writer as recording
from hms_cache_proxy.recording.recorder import Recorder
from hms_cache_proxy.recording.replay import Recorded, ReplayDispatcher
from hms_cache_proxy.security.metastore_security import towards_metastores
from hms_cache_proxy.server import traces
from hms_cache_proxy.server.access_log import AccessLog
from hms_cache_proxy.server.audit_log import AuditLog
from hms_cache_proxy.server.connection_settings import ConnectionSettings
from hms_cache_proxy.server.hub import Allowed, Hub
from hms_cache_proxy.server.log_file import LogFile
from hms_cache_proxy.server.most_asked import MostAsked
from hms_cache_proxy.server.refresher import Refresher
from hms_cache_proxy.server.sasl_service import SaslService
from hms_cache_proxy.server.spool import SpoolRoom
from hms_cache_proxy.server.turns import Turns
from hms_cache_proxy.server.waker import Waker
from hms_cache_proxy.server.worker_states import Member
from hms_cache_proxy.upstream.delegation import Delegation
from hms_cache_proxy.upstream.endpoints import Endpoints
from hms_cache_proxy.wire.message import MessageLimits

NO_STORE = "no_store"  # the reason of relayed calls where there is nothing to follow
TEND_INTERVAL_S = COPY_AFTER_NS / 4e9

log = structlog.get_logger()


class OpenedCache:
    """What a worker with a followed cache opens."""

    def __init__(
        self, config: Config, index: int, metrics: WorkerMetrics, suspension: Suspension, memory: Budget
    ) -> None:
        self.page = StatePage(paths.state(config))
        self.reader = CacheReader(paths.cache(config), self.page, paths.uses(config))
        request_timeout_ns = config.upstream_options.request_timeout_ns
        self.fences = FenceStore(
            paths.fences(config), self.page, request_timeout_ns=request_timeout_ns, fleet=bool(config.peers)
        )
        self.waker = Waker(paths.follower_socket(config), paths.worker_socket(config, index))
        shared = SharedState(self.page, self.reader, self.fences, suspension)
        self.dispatcher = dispatcher(config, shared, metrics, self.waker.wake)
        self.dispatcher.bound_floors(memory)
        if config.authorization in ("per_user", "relay"):  # auto: the follower checks the metastores
            self.dispatcher.authorize(config.authorization)

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

    def __init__(
        self, config: Config, metrics: WorkerMetrics, endpoints: Endpoints, suspension: Suspension, memory: Budget
    ) -> None:
        self.cache = TtlCache(paths.ttl(config), bounds_of(config.ttl), started)
        options = config.upstream_options
        self.refresher = Refresher(
            endpoints,
            metrics,
            connect_timeout_s=options.connect_timeout_s,
            request_timeout_s=options.request_timeout_s,
            memory=memory,
        )
        self.by_time: Callable[[], bool] = lambda: True  # is TTL mode in charge?
        self.dispatcher = LoadingDispatcher(config, self.cache, metrics, self.refresher.wake, suspension)
        self.memory = memory
        self.dispatcher.bound_floors(memory)

    async def tend(self) -> None:
        """Load what is due, and keep what the workers share up to date; runs until it is cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.refresher.run(self.dispatcher.due), name="refresh")
            while True:
                await asyncio.sleep(FLUSH_INTERVAL_S)
                for piece in self.dispatcher.used():
                    self.dispatcher.touch(piece)
                    await asyncio.sleep(0)
                if self.by_time():
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


def budgets_of(config: Config) -> Budgets:
    """The budgets of the worker; logs settings that are larger than their budget."""
    limits = config.limits
    for setting, size, budget, total in (
        ("limits.max_message_bytes", limits.max_message_bytes, "limits.spool_bytes", limits.spool_bytes),
        ("replies.max_entry_bytes", config.replies.max_entry_bytes, "limits.memory_bytes", limits.memory_bytes),
    ):
        if size > total:
            log.warning("a setting is larger than its budget", setting=setting, size=size, budget=budget, limit=total)
    return Budgets(limits.memory_bytes, limits.spool_bytes)


def endpoints_of(config: Config) -> Endpoints:
    """The metastores, and who logs in there."""
    in_turn = config.upstream_options.choice == "round_robin"
    towards = towards_metastores(config)
    endpoints = Endpoints(config.upstream, towards, in_turn=in_turn)
    if towards.logins is not None and config.security.upstream_identity == "delegate":
        endpoints.act_for_users(Delegation(towards, config.upstream_options.connect_timeout_s))
    return endpoints


def decider_of(config: Config, opened: Opened) -> ProtectedDecider:
    """What decides about requests, from the inside out: the cache, capabilities for clients, the recording, logins,
    protection. What a layer refuses or answers, those inside it do not see."""
    cache = opened.cache
    decider = _capable(config, _innermost(config, cache, opened.ttl))
    if opened.writer is not None:
        decider = Recorder(decider, opened.writer)
    decider = _logged_in(config, opened.sasl, decider)
    queue_ns = int(config.upstream_options.queue_timeout_s * 1e9)
    protected = ProtectedDecider(decider, config.protection, declared_reads(config), queue_ns=queue_ns)
    if cache is not None:
        protected.forget = cache.dispatcher.forget
    return protected


def _innermost(config: Config, cache: OpenedCache | None, ttl: OpenedTtl | None) -> Decider:
    """The decider that answers or relays."""
    if config.replay:
        return ReplayDispatcher(Recorded(config.replay))
    if cache is not None and ttl is not None:
        switch = Switch(cache.dispatcher, ttl.dispatcher, cache.page, ttl.memory)
        ttl.by_time = switch.by_time
        return switch
    opened = cache or ttl
    return RelayDispatcher(NO_STORE) if opened is None else opened.dispatcher


def _capable(config: Config, decider: Decider) -> Decider:
    """The decider, for clients that are given capabilities."""
    bridge = config.bridge
    relocates = bridge.managed_locations == "metastore"
    return CapableDecider(decider, bridge.capabilities, relocates=relocates) if bridge.capabilities else decider


def _logged_in(config: Config, sasl: SaslService | None, decider: Decider) -> Decider:
    """The decider, if users are known by logins or tokens, or the proxy logs in to the metastores."""
    security = config.security
    upstream = config.kerberos.upstream or config.http_transport.upstream
    used = upstream or sasl is not None or offers_http(security)
    if not used:
        return decider
    tokens, passed = None if sasl is None else sasl.tokens, passes_logins(security, config.kerberos)
    return LoginDecider(decider, upstream=upstream, block=security.block, tokens=tokens, passed=passed)


def hub_of(
    config: Config,
    decider: Decider,
    endpoints: Endpoints,
    member: Member,
    metrics: WorkerMetrics,
    budgets: Budgets,
) -> Hub:
    """What the connections share, without logs (`keep_logs`)."""
    limits, options = config.limits, config.upstream_options
    return Hub(
        decider=decider,
        endpoints=endpoints,
        settings=ConnectionSettings(
            limits=MessageLimits(message_bytes=limits.max_message_bytes, string_bytes=limits.max_string_bytes),
            idle_timeout_ns=int(limits.idle_timeout_s * 1e9),
            request_timeout_ns=options.request_timeout_ns,
            upstream_idle_ns=int(options.idle_timeout_s * 1e9),
            room=SpoolRoom(config.data_dir, budgets),
        ),
        metrics=metrics,
        member=member,
        allowed=Allowed(
            connections=limits.max_connections,
            connections_per_address=limits.max_connections_per_address,
            upstream_connections=options.max_connections,
            connect_s=options.connect_timeout_s,
            queue_s=options.queue_timeout_s,
        ),
    )


def keep_logs(hub: Hub, config: Config, index: int, hits: deque[Sampled]) -> None:
    """Give the hub the logs, traces and counts that the settings ask for. `hits`: HotPath.samples."""
    metrics = hub.metrics
    hub.access_log, hub.slow_log = _access_log(config, index, metrics), _slow_log(config, index, metrics)
    hub.audit_log = _audit_log(config, index, metrics)
    hub.traces = traces.opened(config, index, metrics)
    hub.tops = MostAsked(paths.tops(config, index), hits, users=config.admin.show_users)


def _access_log(config: Config, index: int, metrics: WorkerMetrics) -> AccessLog | None:
    settings = config.access_log
    if not settings.directory:
        return None
    file = LogFile(paths.access_log(config, index), max_bytes=settings.max_bytes, files=settings.files)
    return AccessLog(file, settings.sample, metrics)


def _slow_log(config: Config, index: int, metrics: WorkerMetrics) -> AccessLog | None:
    settings = config.slow_log
    if not settings.directory:
        return None
    file = LogFile(paths.slow_log(config, index), max_bytes=settings.max_bytes, files=settings.files)
    return AccessLog(file, 1.0, metrics, slower_than_ns=int(settings.threshold_s * 1e9))


def _audit_log(config: Config, index: int, metrics: WorkerMetrics) -> AuditLog | None:
    settings = config.audit_log
    if not settings.directory:
        return None
    file = LogFile(paths.audit_log(config, index), max_bytes=settings.max_bytes, files=settings.files)
    return AuditLog(file, metrics)
