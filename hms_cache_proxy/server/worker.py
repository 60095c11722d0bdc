"""A worker process: accepts, serves, drains.

Job: `run` builds what the connections share, accepts from the listening socket together with the other workers
(acceptor.py), and drains on SIGTERM: no new connections; running calls may take up to `drain_timeout_s`; the rest are
aborted. Owner: the process.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import resource
import signal
import socket
from collections import deque
from collections.abc import Callable
from functools import partial
from time import monotonic_ns
from typing import TYPE_CHECKING, Any, NamedTuple

import structlog
import uvloop

from hms_cache_proxy.budget import Budget, Budgets
from hms_cache_proxy.cache.reader import CacheReader
from hms_cache_proxy.cache.state import Slot, StatePage
from hms_cache_proxy.cache.streams import HOLD_NS
from hms_cache_proxy.cache.ttl import TtlCache, bounds_of
from hms_cache_proxy.config import Config, paths
from hms_cache_proxy.config.security import offers_http, offers_tls, passes_logins, wants_login
from hms_cache_proxy.consistency.fences import FenceStore
from hms_cache_proxy.consistency.processes import started
from hms_cache_proxy.consistency.suspension import Suspension
from hms_cache_proxy.methods.capabilities import CapableDecider
from hms_cache_proxy.methods.decision import Decider
from hms_cache_proxy.methods.dispatch import SharedState
from hms_cache_proxy.methods.hot import Sampled
from hms_cache_proxy.methods.learned import dispatcher
from hms_cache_proxy.methods.logins import LoginDecider
from hms_cache_proxy.methods.plan import declared_reads
from hms_cache_proxy.methods.protection import ProtectedDecider
from hms_cache_proxy.methods.relay import RelayDispatcher
from hms_cache_proxy.methods.ttl.dispatcher import LoadingDispatcher
from hms_cache_proxy.methods.ttl.switch import Switch
from hms_cache_proxy.metrics import FLUSH_INTERVAL_S, WorkerMetrics
from hms_cache_proxy.peers.terms import fleet_times
from hms_cache_proxy.recording import writer as recording
from hms_cache_proxy.recording.recorder import Recorder
from hms_cache_proxy.recording.replay import Recorded, ReplayDispatcher
from hms_cache_proxy.security import tls
from hms_cache_proxy.security.towards import towards_metastores
from hms_cache_proxy.server import traces
from hms_cache_proxy.server.acceptor import Acceptor
from hms_cache_proxy.server.access_log import AccessLog
from hms_cache_proxy.server.audit_log import AuditLog
from hms_cache_proxy.server.connection_settings import ConnectionSettings
from hms_cache_proxy.server.crew import BEAT_INTERVAL_S, Member
from hms_cache_proxy.server.door import Door
from hms_cache_proxy.server.driver import Client
from hms_cache_proxy.server.hub import Allowed, Hub
from hms_cache_proxy.server.line_log import LineLog
from hms_cache_proxy.server.log_file import LogFile
from hms_cache_proxy.server.peers_link import AnsweredBy, PeersLink
from hms_cache_proxy.server.refresher import Refresher
from hms_cache_proxy.server.reloading import FollowedSettings, Reloading
from hms_cache_proxy.server.sasl_service import SaslService
from hms_cache_proxy.server.spool import SpoolRoom
from hms_cache_proxy.server.tops import Tops
from hms_cache_proxy.server.turns import Turns
from hms_cache_proxy.server.waker import Waker
from hms_cache_proxy.upstream.delegation import Delegation
from hms_cache_proxy.upstream.endpoints import Endpoints
from hms_cache_proxy.upstream.prober import Prober
from hms_cache_proxy.wire.message import MessageLimits

if TYPE_CHECKING:
    from hms_cache_proxy.server.http_service import HttpService

SPARE_DESCRIPTORS = 200
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # malloc.h
LARGE_BLOCK_BYTES = 4 << 20
FREE_HEAP_BYTES = 8 << 20  # of freed memory that the heap keeps at its end
NO_STORE = "no_store"  # the reason of relayed calls where there is nothing to follow
TEND_INTERVAL_S = HOLD_NS / 4e9
SETTLE_INTERVAL_S = 0.5
SWEEP_INTERVAL_S = 1.0  # the precision of time-outs

log = structlog.get_logger()


def run(config: Config, index: int, listener: int) -> None:
    """Serve until SIGTERM. `listener`: the descriptor of the socket that all workers accept from."""
    _allow_descriptors(config.limits.max_connections)
    _return_large_blocks()
    metrics = WorkerMetrics()
    suspension = Suspension(StatePage(paths.state(config)), index) if _caches(config) else None
    in_turn = config.upstream_options.choice == "round_robin"
    budgets, towards = _budgets(config), towards_metastores(config)
    endpoints = Endpoints(config.upstream, towards, in_turn=in_turn)
    if towards.logins is not None and config.security.upstream_identity == "delegate":
        endpoints.act_for_users(Delegation(towards, config.upstream_options.connect_timeout_s))
    cache: _Cache | None = None
    ttl: _Ttl | None = None
    if suspension is not None and config.source != "none":
        cache = _Cache(config, index, metrics, suspension, budgets.memory)
    if suspension is not None and config.ttl.enabled:
        ttl = _Ttl(config, metrics, endpoints, suspension, budgets.memory)
    sasl = SaslService(config) if wants_login(config.security) else None
    writer = recording.Writer(config.record, config.record_max_bytes, metrics) if config.record else None
    try:
        decider = _capable(config, _decider(config, cache, ttl))
        recorded = _logged_in(config, sasl, decider if writer is None else Recorder(decider, writer))
        protected = _protected(config, recorded)
        if cache is not None:
            protected.forget = cache.dispatcher.forget
        rules = [] if sasl is None else [sasl.use]
        settings = FollowedSettings(config, lambda now: protected.apply(now.protection), *rules)
        member = Member(StatePage(paths.state(config)), index, config.workers)
        hub = _hub(config, protected, endpoints, member, metrics, budgets)
        hub.access_log, hub.slow_log = _access_log(config, index, metrics), _slow_log(config, index, metrics)
        hub.audit_log = _audit_log(config, index, metrics)
        hub.traces = traces.opened(config, index, metrics)
        hits = deque[Sampled]() if cache is None else cache.dispatcher.samples
        hub.tops = Tops(paths.tops(config, index), hits, users=config.admin.show_users)
        uvloop.run(_serve(config, socket.socket(fileno=listener), hub, settings, _Opened(cache, ttl, writer, sasl)))
    finally:
        for opened in (cache, ttl, writer):
            if opened is not None:
                opened.close()
        metrics.flush()


class _Cache:
    """What a worker with a followed cache opens."""

    def __init__(
        self, config: Config, index: int, metrics: WorkerMetrics, suspension: Suspension, memory: Budget
    ) -> None:
        self.page = StatePage(paths.state(config))
        self.reader = CacheReader(paths.cache(config), self.page, paths.uses(config))
        hold_ns = config.upstream_options.request_timeout_ns
        self.fences = FenceStore(paths.fences(config), self.page, hold_ns=hold_ns, fleet=bool(config.peers))
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


class _Ttl:
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


class _Opened(NamedTuple):
    """What a worker has opened."""

    cache: _Cache | None
    ttl: _Ttl | None
    writer: recording.Writer | None
    sasl: SaslService | None


def _budgets(config: Config) -> Budgets:
    """The budgets of the worker; logs settings that are larger than their budget."""
    limits = config.limits
    for setting, size, budget, total in (
        ("limits.max_message_bytes", limits.max_message_bytes, "limits.spool_bytes", limits.spool_bytes),
        ("replies.max_entry_bytes", config.replies.max_entry_bytes, "limits.memory_bytes", limits.memory_bytes),
    ):
        if size > total:
            log.warning("a setting is larger than its budget", setting=setting, size=size, budget=budget, limit=total)
    return Budgets(limits.memory_bytes, limits.spool_bytes)


def _caches(config: Config) -> bool:
    return config.source != "none" or config.ttl.enabled


def _allow_descriptors(connections: int) -> None:
    """Allow two sockets for each client and some files, as far as the hard limit permits."""
    wanted = 2 * connections + SPARE_DESCRIPTORS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    if allowed < wanted:
        log.warning(
            "not enough file descriptors for limits.max_connections",
            allowed=allowed,
            wanted=wanted,
            limit="limits.max_connections",
        )


def _return_large_blocks() -> None:
    """Make glibc map every large block separately, so that it returns to the system as soon as it is freed.

    By default glibc raises the limit to the largest block that was ever freed (up to 32 MB). Later blocks are then in
    the heap, and all their pages are touched, even those of bytes that are only skipped (wire/scan.py). A reply of
    1,000 partitions (1.5 MB) is below the limit, and the heap keeps room for it: mapping it again takes ten times as
    long as sending it.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):  # musl has no mallopt, and needs none
        libc.mallopt(M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES)
        libc.mallopt(M_TRIM_THRESHOLD, FREE_HEAP_BYTES)


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


def _hub(
    config: Config,
    decider: Decider,
    endpoints: Endpoints,
    member: Member,
    metrics: WorkerMetrics,
    budgets: Budgets,
) -> Hub:
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


def _decider(config: Config, cache: _Cache | None, ttl: _Ttl | None) -> Decider:
    if config.replay:
        return ReplayDispatcher(Recorded(config.replay))
    if cache is not None and ttl is not None:
        switch = Switch(cache.dispatcher, ttl.dispatcher, cache.page)
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


def _protected(config: Config, decider: Decider) -> ProtectedDecider:
    queue_ns = int(config.upstream_options.queue_timeout_s * 1e9)
    return ProtectedDecider(decider, config.protection, declared_reads(config), queue_ns=queue_ns)


async def _serve(
    config: Config,
    listener: socket.socket,
    hub: Hub,
    settings: FollowedSettings,
    opened: _Opened,
) -> None:
    cache = opened.cache
    loop = asyncio.get_running_loop()
    metrics = hub.metrics
    stop = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    logs = [one for one in (hub.access_log, hub.slow_log, hub.audit_log, hub.traces) if one is not None]
    if cache is not None:
        of_hits = hub.traces if hub.traces is not None and hub.traces.of_hits else None
        for told in (hub.access_log, hub.audit_log, of_hits):
            if told is not None:
                cache.dispatcher.tell_hits(told.hit)
    gc.collect()
    gc.freeze()  # these objects stay: the collector need not visit them again
    secured = tls.for_clients(config.tls) if offers_tls(config.security) else None
    http = _http_service(config, hub) if offers_http(config.security) else None
    over_http = http.client if http is not None else None
    reloading = Reloading(StatePage(paths.state(config)), metrics, secured, hub.endpoints.tls, settings)
    logins = opened.sasl.start(hub, reloading) if opened.sasl is not None else None
    door = Door(config.security, secured, logins, lambda: Client(hub), metrics, over_http)
    door.audit_log = hub.audit_log
    acceptor = Acceptor(listener, hub.member, door.admit, hub.spawn)
    acceptor.start()
    log.info("worker listens", worker=hub.member.number, listen=str(config.listen))
    hub.keep(partial(_beat, hub.member), "show life")
    if http is not None:
        http.start(reloading)
    hub.keep(reloading.run, "follow files")
    hub.keep(partial(hub.sweep, _sweep_interval_s(config)), "sweep")
    hub.keep(Prober(hub.endpoints, metrics.circuit).run, "probe metastores")
    hub.keep(partial(_flush, metrics, hub.settings.room.budgets, hub.member), "flush metrics")
    if cache is not None and config.serve_stale:
        cache.dispatcher.serve_in_outages(lambda: hub.endpoints.all_sick)
        hub.keep(partial(_doubt, config, cache.page, hub.endpoints), "doubt metastores")
    if hub.tops is not None:
        hub.keep(partial(_look, hub.tops), "count tables and users")
    for one in logs:
        hub.keep(partial(_flush_log, one), "flush a log")
    _tend(config, hub, opened)
    await stop.wait()
    log.info("worker drains", worker=hub.member.number, connections=len(hub.clients))
    acceptor.close()
    door.close()
    await hub.drain(config.drain_timeout_s)
    for one in logs:
        await one.flush()
    if hub.traces is not None:
        await hub.traces.close()
    log.info("worker ends", worker=hub.member.number)


def _tend(config: Config, hub: Hub, opened: _Opened) -> None:
    """Start what keeps the caches and the recording going."""
    cache, ttl, writer = opened.cache, opened.ttl, opened.writer
    if cache is not None and config.peers:
        write_age_ns = fleet_times(config.peers).write_age_ns
        hub.peers = PeersLink(paths.peers_socket(config), cache.page, write_age_ns)
        hub.peers.waited = partial(_waited, hub)
        cache.dispatcher.has_peers(hub.peers.tell, hub.peers.alone)
        hub.keep(hub.peers.run, "ask peers")
    if cache is not None:
        asyncio.get_running_loop().add_reader(cache.waker.fileno(), cache.hear, hub)
        hub.keep(partial(cache.tend, hub.turns), "tend streams")
        hub.keep(partial(_settle, cache.dispatcher.settle), "settle fences")
    if ttl is not None:
        hub.keep(partial(_settle, ttl.dispatcher.settle), "settle holds")
        hub.keep(ttl.tend, "tend TTL cache")
    if writer is not None:
        hub.keep(partial(_write_out, writer), "write the recording")


def _waited(hub: Hub, by: AnsweredBy, seconds: float) -> None:
    hub.metrics.waited_for_peers(by, seconds)
    if by == "page":
        hub.say("the peers' process has not answered: a call has waited for leases", by, seconds=f"{seconds:.1f}")


def _http_service(config: Config, hub: Hub) -> HttpService:
    from hms_cache_proxy.server.http_service import HttpService  # needs packages that not everybody has

    return HttpService(config, hub)


def _sweep_interval_s(config: Config) -> float:
    options = config.upstream_options
    times = [options.request_timeout_s, *filter(None, (config.limits.idle_timeout_s, options.idle_timeout_s))]
    return max(0.02, min(SWEEP_INTERVAL_S, *(time / 4 for time in times)))


async def _beat(member: Member) -> None:
    """Show a sign of life while the event loop runs."""
    while True:
        member.beat()
        await asyncio.sleep(BEAT_INTERVAL_S)


async def _settle(settle: Callable[[], object]) -> None:
    """Record what could not be recorded, once there is room."""
    while True:
        settle()
        await asyncio.sleep(SETTLE_INTERVAL_S)


async def _doubt(config: Config, page: StatePage, endpoints: Endpoints) -> None:
    """Have the metastores probed when the cache has been unconfirmed for half of `max_unconfirmed_ms`: an outage must
    be known when the first answer is too old."""
    while True:
        await asyncio.sleep(min(1.0, config.max_unconfirmed_ms / 4e3))
        if monotonic_ns() - page[Slot.BEGAN_NS] > config.max_unconfirmed_ms * 10**6 / 2:
            for endpoint in endpoints.all:
                endpoints.suspect(endpoint)


async def _write_out(writer: recording.Writer) -> None:
    while writer.active:
        await asyncio.sleep(recording.FLUSH_INTERVAL_S)
        await asyncio.to_thread(writer.write, writer.take())


async def _flush(metrics: WorkerMetrics, budgets: Budgets, member: Member) -> None:
    while True:
        for budget in (budgets.memory, budgets.spool):
            metrics.budget(budget.setting, budget.used, budget.limit)
        await asyncio.sleep(FLUSH_INTERVAL_S)
        if metrics.flush():
            member.has_read()


async def _look(tops: Tops) -> None:
    while True:
        await asyncio.sleep(FLUSH_INTERVAL_S)
        await tops.look()


async def _flush_log(some: LineLog[Any] | traces.Traces) -> None:
    while True:
        await asyncio.sleep(FLUSH_INTERVAL_S)
        await some.flush()
