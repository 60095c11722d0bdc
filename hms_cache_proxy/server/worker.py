"""A worker process: accepts, serves, drains.

Job: `run` makes what the connections share (worker_parts.py), accepts connections from the socket that all workers
share (acceptor.py), does periodic work, and drains on SIGTERM: it accepts no new connections, gives running calls up to
`drain_timeout_s`, and aborts the rest. Owner: the process.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import resource
import signal
import socket
from collections.abc import Callable
from functools import partial
from time import monotonic_ns
from typing import TYPE_CHECKING, Any

import structlog
import uvloop

from hms_cache_proxy.budget import Budgets
from hms_cache_proxy.cache.state import Slot, StatePage
from hms_cache_proxy.config import Config, paths
from hms_cache_proxy.config.security import offers_http, offers_tls, wants_login
from hms_cache_proxy.consistency.suspension import Suspension
from hms_cache_proxy.metrics import FLUSH_INTERVAL_S, WorkerMetrics
from hms_cache_proxy.recording import writer as recording
from hms_cache_proxy.security import tls
from hms_cache_proxy.server import traces
from hms_cache_proxy.server.acceptor import Acceptor
from hms_cache_proxy.server.driver import Client
from hms_cache_proxy.server.handshakes import Handshakes
from hms_cache_proxy.server.hub import Hub
from hms_cache_proxy.server.line_log import LineLog
from hms_cache_proxy.server.most_asked import MostAsked
from hms_cache_proxy.server.reloading import FollowedSettings, Reloading
from hms_cache_proxy.server.sasl_service import SaslService
from hms_cache_proxy.server.set_ugi_check import SetUgiCheck
from hms_cache_proxy.server.worker_basis import basis_of
from hms_cache_proxy.server.worker_parts import (
    Opened,
    OpenedCache,
    OpenedTtl,
    dispatcher_of,
    hub_of,
)
from hms_cache_proxy.server.worker_states import BEAT_INTERVAL_S, Member
from hms_cache_proxy.upstream.endpoints import Endpoints
from hms_cache_proxy.upstream.prober import Prober

if TYPE_CHECKING:
    from hms_cache_proxy.server.http_service import HttpService

SPARE_DESCRIPTORS = 200
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # malloc.h
LARGE_BLOCK_BYTES = 4 << 20
FREE_HEAP_BYTES = 8 << 20  # of freed memory that the heap keeps at its end
SETTLE_INTERVAL_S = 0.5
SWEEP_INTERVAL_S = 1.0  # the precision of time-outs

log = structlog.get_logger()


def run(config: Config, index: int, listener: int) -> None:
    """Serve until SIGTERM. `listener`: the descriptor of the socket that all workers accept from."""
    _allow_descriptors(config.limits.max_connections)
    _return_large_blocks()
    metrics = WorkerMetrics()
    suspension = Suspension(StatePage(paths.state(config)), index) if _caches(config) else None
    basis = basis_of(config, index, metrics)
    cache: OpenedCache | None = None
    ttl: OpenedTtl | None = None
    if suspension is not None and config.source != "none":
        cache = OpenedCache(config, index, basis, suspension)
    if suspension is not None and config.ttl.enabled:
        ttl = OpenedTtl(config, basis, suspension, None if cache is None else cache.page)
    sasl = SaslService(config) if wants_login(config.security) else None
    writer = recording.Writer(config.record, config.record_max_bytes, metrics) if config.record else None
    opened = Opened(cache, ttl, writer, sasl)
    try:
        dispatcher = dispatcher_of(config, opened)
        rules = [] if sasl is None else [sasl.use]
        settings = FollowedSettings(config, lambda now: dispatcher.apply(now.protection), *rules)
        member = Member(StatePage(paths.state(config)), index, config.workers)
        hub = hub_of(config, basis, cache, dispatcher, member)
        uvloop.run(_serve(config, socket.socket(fileno=listener), hub, settings, opened))
    finally:
        for one in (cache, ttl, writer):
            if one is not None:
                one.close()
        metrics.flush()


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


async def _serve(
    config: Config,
    listener: socket.socket,
    hub: Hub,
    settings: FollowedSettings,
    opened: Opened,
) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    gc.collect()
    gc.freeze()  # these objects stay: the collector need not visit them again
    secured = tls.for_clients(config.tls) if offers_tls(config.security) else None
    heeding = SetUgiCheck(config, hub)
    http = _http_service(config, hub, heeding) if offers_http(config.security) else None
    over_http = http.client if http is not None else None
    reloading = Reloading(StatePage(paths.state(config)), hub.metrics, secured, hub.endpoints.tls, settings)
    logins = opened.sasl.start(hub, reloading, heeding) if opened.sasl is not None else None
    door = Handshakes(config.security, secured, logins, lambda: Client(hub), hub, over_http)
    acceptor = Acceptor(listener, hub.member, door.admit, hub.spawn)
    acceptor.start()
    log.info("worker listens", worker=hub.member.number, listen=str(config.listen))
    hub.keep(partial(_beat, hub.member), "show life")
    if http is not None:
        http.start(reloading)
    if http is not None or logins is not None:
        heeding.start()
    hub.keep(reloading.run, "follow files")
    _tend_connections(config, hub)
    _tend_caches(config, hub, opened)
    await stop.wait()
    log.info("worker drains", worker=hub.member.number, connections=len(hub.clients))
    acceptor.close()
    door.close()
    await hub.drain(config.drain_timeout_s)
    for one in hub.logs.kept:
        await one.flush()
    if hub.logs.traces is not None:
        await hub.logs.traces.close()
    log.info("worker ends", worker=hub.member.number)


def _tend_connections(config: Config, hub: Hub) -> None:
    """Start what watches clients and metastores, and what is counted and logged of them."""
    hub.keep(partial(hub.sweep, _sweep_interval_s(config)), "sweep")
    prober = Prober(hub.endpoints, hub.metrics.circuit)
    for endpoint in hub.endpoints.all:
        hub.keep(partial(prober.watch, endpoint), f"probe {endpoint.uri}")
    hub.keep(partial(_flush, hub.metrics, hub.settings.room.budgets, hub.member), "flush metrics")
    if hub.logs.tops is not None:
        hub.keep(partial(_count, hub.logs.tops), "count tables and users")
    for one in hub.logs.kept:
        hub.keep(partial(_flush_log, one), "flush a log")


def _tend_caches(config: Config, hub: Hub, opened: Opened) -> None:
    """Start what keeps the caches and the recording going."""
    cache, ttl, writer = opened.cache, opened.ttl, opened.writer
    if cache is not None and config.serve_stale:
        hub.keep(partial(_doubt, config, cache.page, hub.endpoints), "doubt metastores")
    if hub.peers is not None:
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


def _http_service(config: Config, hub: Hub, heeding: SetUgiCheck) -> HttpService:
    from hms_cache_proxy.server.http_service import HttpService  # needs packages that not everybody has

    return HttpService(config, hub, heeding)


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


async def _count(tops: MostAsked) -> None:
    while True:
        await asyncio.sleep(FLUSH_INTERVAL_S)
        await tops.count()


async def _flush_log(some: LineLog[Any] | traces.Traces) -> None:
    while True:
        await asyncio.sleep(FLUSH_INTERVAL_S)
        await some.flush()
