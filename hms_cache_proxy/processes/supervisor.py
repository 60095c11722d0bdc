"""The parent process: starts the children, keeps them alive, stops them in order, and serves HTTP.

Job: hold the data directory's lock and the Thrift port's socket, start N workers and the follower (each a new
interpreter, never a bare fork), restart a child that has ended after a growing pause, kill a child that hangs, drain on
SIGTERM or SIGINT. Must not know: Thrift, the database. A fault in those ends at most one child.

The workers inherit the socket and accept connections themselves. So the socket's queue outlives each worker, and this
process has no part in connections.

Shutdown has stages, each with a limit: /readyz answers 503; the workers get SIGTERM, stop accepting and finish running
calls, and after `drain_timeout_s` the remaining calls are aborted; then the follower stops, which has lifted fences
until then; then the embedded metastore, if there is one; then HTTP. A second signal skips the waiting. Children cannot
outlive this process (see child.py), and they inherit the lock's descriptor, so the next supervisor waits for the last
of them. Owner: one event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import os
import resource
import secrets
import signal
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import structlog

from hms_cache_proxy import __version__
from hms_cache_proxy.cache.state import Slot, StatePage, boottime_ns
from hms_cache_proxy.cache.targets import ALL
from hms_cache_proxy.cache.ttl import TtlCache, bounds_of
from hms_cache_proxy.config import Address, Config, paths
from hms_cache_proxy.config.security import uses_files
from hms_cache_proxy.consistency.fences import FenceStore
from hms_cache_proxy.consistency.processes import started
from hms_cache_proxy.consistency.replacement import Keeper
from hms_cache_proxy.consistency.suspension import left_on
from hms_cache_proxy.errors import CacheError
from hms_cache_proxy.metrics import SupervisorMetrics
from hms_cache_proxy.processes import addresses, ports, settings_reload
from hms_cache_proxy.processes.children import Child
from hms_cache_proxy.processes.cores import usable_cores
from hms_cache_proxy.processes.crashes import Crashes
from hms_cache_proxy.processes.settings_reload import SettingsReload
from hms_cache_proxy.processes.watchdog import Watchdog
from hms_cache_proxy.recording import start as recordings
from hms_cache_proxy.security import check
from hms_cache_proxy.server.worker_states import WorkerStates
from hms_cache_proxy.status.flush import Flusher
from hms_cache_proxy.status.probe import UpstreamProbe
from hms_cache_proxy.status.view import ProxyView, SharedFiles, Stage

log = structlog.get_logger()

FOLLOWER_STOP_S = 10.0  # for a step that is running; what it does not commit is read again at the next start
PEERS_STOP_S = 5.0
DRAIN_GRACE_S = 2.0  # a worker aborts what is left at drain_timeout_s; this is for its exit
WATCH_INTERVAL_S = 1.0
KILLED_S = 0.05  # until a process that was killed has let go of its files; its successor needs longer to open them
START_INTERVAL_S = 0.05  # between checks whether the embedded metastore answers
EMBEDDED_LISTEN = Address("127.0.0.1", 0)  # only this proxy needs to reach it
HTTP_DELAY_S = 2.0  # /healthz answers after this, whether there is a worker or not
HTTP_MODULE = "hms_cache_proxy.status.http"


def run(config: Config, read_again: Callable[[], Config] | None = None) -> int:
    """Run until a signal; 0 if everything ended in time, 1 if something had to be killed. `read_again` reads the
    configuration, at SIGHUP; None: it is not in a file.

    Raises CacheError if the data directory is not available, ConfigError if a port is not, or a file that
    secures connections.
    """
    check.files(config)
    if config.traces.wanted:
        from hms_cache_proxy.server import traces  # with all that reads calls, which only workers do

        traces.check(config)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:  # the usual soft limit, 1,024, exists for programs that call select(2)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    if hard:  # memory holds keys, tokens and passwords; Linux writes nothing at 1, not even to a program's pipe
        resource.setrlimit(resource.RLIMIT_CORE, (1, hard))
    with addresses.claimed(config) as directory, ports.shared(config.listen) as listener:
        settings_reload.forget(config)
        settings = SettingsReload(config, read_again) if read_again is not None else None
        listen = Address(config.listen.host, listener.getsockname()[1])
        config = replace(config, listen=listen, workers=config.workers or usable_cores())
        if config.replay:
            recordings.examine(config.replay)
            config = config.with_replay()
        http = ports.bound(config.http, "http")
        admin = ports.bound(config.admin.listen, "admin.listen")
        peers = ports.bound(config.peer_listen, "peer_listen", listening=False)[0] if config.peers else None
        if not config.embedded:
            return asyncio.run(
                Supervisor(config, directory.fileno(), Sockets(listener, http, admin, peers=peers), settings).run()
            )
        (own,) = ports.bound(EMBEDDED_LISTEN, "embedded")  # connections wait until the metastore runs
        with own:
            address = Address(EMBEDDED_LISTEN.host, own.getsockname()[1])
            config = config.with_embedded(address, paths.embedded_database(config))
            sockets = Sockets(listener, http, admin, own, peers)
            return asyncio.run(Supervisor(config, directory.fileno(), sockets, settings).run())


class Sockets(NamedTuple):
    """The sockets that this process has bound."""

    listener: socket.socket  # for the workers
    http: Sequence[socket.socket]
    admin: Sequence[socket.socket]
    metastore: socket.socket | None = None  # for the embedded metastore
    peers: socket.socket | None = None  # for other proxies


class Supervisor:
    """All children and the HTTP server of one proxy."""

    def __init__(self, config: Config, lock_fd: int, sockets: Sockets, settings: SettingsReload | None = None) -> None:
        self._config = config
        self._settings = settings
        self._lock_fd = lock_fd
        self._sockets = sockets
        self._metrics = SupervisorMetrics(paths.metrics(config), __version__)
        unfenced = left_on(paths.state(config))
        self._page = StatePage(paths.state(config), create=True)
        self._fences = self._recover_fences(unfenced) if config.source != "none" else None
        self._ttl = self._new_ttl_cache(unfenced) if config.ttl.enabled else None
        self._crashes = Crashes(paths.cache(config)) if config.source != "none" else None
        self._recording = recordings.begin(config) if config.record else None
        self._crew = WorkerStates(self._page, config.workers)
        self._workers = [self._worker(index) for index in range(config.workers)]
        self._follower = self._new_follower() if config.source != "none" else None
        self._metastore = self._embedded(sockets.metastore) if sockets.metastore is not None else None
        self._peers = self._new_peers(sockets.peers) if sockets.peers is not None else None
        children = (self._metastore, *self._workers, self._follower, self._peers)
        self._children = [child for child in children if child is not None]
        self._flusher = flusher = Flusher(config, self._page, self._fences, self._ttl)
        self._keeper = self._new_keeper(self._fences, flusher.lock) if self._fences is not None else None
        self._probe = UpstreamProbe(config, starting=self._metastore is not None)
        self._view = ProxyView(
            config,
            SharedFiles(self._page, self._ttl, self._recording),
            children=self._children,
            metrics=self._metrics,
            probe=self._probe,
            flusher=flusher,
        )
        self._stop = asyncio.Event()
        self._hurry = asyncio.Event()
        self._broken: BaseException | None = None

    def _recover_fences(self, unfenced: bool) -> FenceStore:
        """Before any child runs: keep writes fenced that a killed predecessor left in flight. If some were `unfenced`,
        fence everything."""
        request_timeout_ns = self._config.upstream_options.request_timeout_ns
        return FenceStore.recover(
            paths.fences(self._config), self._page, request_timeout_ns=request_timeout_ns, unfenced=unfenced
        )

    def _new_keeper(self, fences: FenceStore, lock: threading.Lock) -> Keeper:
        return Keeper(
            fences,
            paths.fences(self._config),
            request_timeout_ns=self._config.upstream_options.request_timeout_ns,
            lock=lock,
            workers=lambda: [
                one.pid for one in (*self._workers, self._peers) if one is not None and one.pid is not None
            ],
        )

    def _new_ttl_cache(self, unfenced: bool) -> TtlCache:
        """Create an empty cache, because the age of what an earlier run has loaded is unknown. The writes that it left
        in flight are held; if some were `unfenced`, everything is."""
        request_timeout_ns, now_ns = self._config.upstream_options.request_timeout_ns, time.monotonic_ns()
        bounds = bounds_of(self._config.ttl)
        cache = TtlCache.create(
            paths.ttl(self._config), bounds, started, now_ns=now_ns, request_timeout_ns=request_timeout_ns
        )
        if unfenced:
            cache.hold([ALL], now_ns + request_timeout_ns, now_ns)
        return cache

    def _child(
        self,
        role: str,
        index: int = 0,
        *,
        inherits: socket.socket | None = None,
        forget: Callable[[], None] | None = None,
        uses_fences: bool = True,
        crash_counts: bool = True,
    ) -> Child:
        """A child, and what is done when its process has ended. `forget` removes what it has said of itself, which is
        not its successor's; `crash_counts`: it may have crashed because of a damaged cache."""

        def died(name: str, code: int) -> None:
            if forget is not None:
                forget()
            self._metrics.died(name)
            if uses_fences and self._keeper is not None:
                self._keeper.died(worker=role == "worker")
            if crash_counts and self._crashes is not None:
                self._crashes.ended(code)

        passed = () if inherits is None else (inherits.fileno(),)
        return Child(role, index, lock_fd=self._lock_fd, died=died, passed=passed)

    def _clear(self, *slots: int) -> None:
        for slot in slots:
            self._page[slot] = 0

    def _worker(self, index: int) -> Child:
        return self._child("worker", index, inherits=self._sockets.listener, forget=partial(self._crew.forget, index))

    def _new_follower(self) -> Child:
        return self._child("follower", forget=partial(self._clear, Slot.HEARTBEAT_NS))

    def _new_peers(self, own: socket.socket) -> Child:
        """The process that speaks with other proxies, under a new incarnation of this one. Its lease says that fences
        of peers are recorded, and their file may be replaced when it has ended."""
        page = self._page
        page[Slot.INCARNATION], page[Slot.INCARNATION + 1] = secrets.randbits(64), secrets.randbits(64)
        page[Slot.PEERS_STARTED_NS] = boottime_ns()
        forget = partial(self._clear, Slot.LEASE_UNTIL_NS, Slot.PEERS_BEAT_NS)
        return self._child("peers", inherits=own, forget=forget, crash_counts=False)

    def _embedded(self, own: socket.socket) -> Child:
        """The metastore as a child. It inherits its listening socket, which outlives it."""
        return self._child("metastore", inherits=own, uses_fences=False, crash_counts=False)

    async def run(self) -> int:
        """Serve until a signal, then drain; see the module's `run`."""
        loop = asyncio.get_running_loop()
        if self._config.security.upstream_identity == "service":
            log.warning(
                "upstream_identity = service: the metastore takes all calls to come from the proxy",
                principal=self._config.kerberos.principal
                or self._config.http_transport.upstream_user
                or "of the token",
            )
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._signalled, signal.Signals(number).name)
        if self._settings is not None or uses_files(self._config.security, self._config.tls):
            loop.add_signal_handler(signal.SIGHUP, self._reload)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})  # one that came during the start is here now
        keepers = {child: self._spawn(self._keep(child), child.name) for child in self._children}
        watchers = [
            self._spawn(self._watch(), "watch children"),
            self._spawn(self._probe.watch(), "watch upstream"),
            self._spawn(self._view.history.watch(), "watch calls"),
        ]
        await self._first_worker()
        http = await asyncio.to_thread(importlib.import_module, HTTP_MODULE)
        async with http.HttpServer(self._config, self._view, http=self._sockets.http, admin=self._sockets.admin):
            self._announce()
            await self._stop.wait()
            in_time = await self._drain(keepers)
            for task in watchers:
                task.cancel()
            await asyncio.wait([*watchers, *keepers.values()])
        if self._fences is not None:
            self._fences.close(clean=True)
        if self._ttl is not None:
            self._ttl.end()
        if self._recording is not None:
            self._recording.close()
        if self._broken is not None:
            raise self._broken
        log.info("stopped", in_time=in_time)
        return 0 if in_time else 1

    async def _first_worker(self) -> None:
        """Until a worker accepts connections. What the HTTP server imports takes about as long as a worker's start, and
        on few cores would delay it."""
        deadline_s = time.monotonic() + HTTP_DELAY_S
        while not any(self._crew.beats()) and not self._stop.is_set() and time.monotonic() < deadline_s:
            await asyncio.sleep(START_INTERVAL_S)

    async def _keep(self, child: Child) -> None:
        """Keep a child alive. The follower of an embedded metastore starts once its database has been created."""
        while child is self._follower and self._metastore is not None and not self._stop.is_set():
            if self._probe.answered:
                break
            await asyncio.sleep(START_INTERVAL_S)
        await child.keep(self._config)

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=name)
        task.add_done_callback(self._task_ended)
        return task

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        """If a task has raised, that is a bug of the supervisor: drain, then raise the exception."""
        if not task.cancelled() and task.exception() is not None and self._broken is None:
            self._broken = task.exception()
            self._stop.set()

    def _announce(self) -> None:
        facts: dict[str, object] = {
            "pid": os.getpid(),
            "listen": str(self._config.listen),
            "http": str(_address(self._config.http, self._sockets.http)),
            "admin": str(_address(self._config.admin.listen, self._sockets.admin)),
        }
        addresses.announce(self._config, facts)
        upstream = [address.uri for address in self._config.upstream]
        log.info("started", version=__version__, workers=len(self._workers), upstream=upstream, **facts)

    def _signalled(self, name: str) -> None:
        if self._stop.is_set():
            log.warning("stopping at once", signal=name)
            self._hurry.set()
        else:
            log.info("draining", signal=name, timeout_s=self._config.drain_timeout_s)
            self._view.stage = Stage.DRAINING
            self._stop.set()

    def _reload(self) -> None:
        """The workers look at the state page once a second (server/reloading.py)."""
        log.info("reloading", signal="SIGHUP")
        if self._settings is not None and not self._settings.again():
            self._page[Slot.SETTINGS_REFUSED] += 1
        self._page[Slot.RELOADS] += 1

    async def _drain(self, keepers: dict[Child, asyncio.Task[None]]) -> bool:
        self._view.stage = Stage.DRAINING
        self._close_listener()
        tasks = [keepers[child] for child in self._workers]
        in_time = await self._end(tasks, self._workers, self._config.drain_timeout_s + DRAIN_GRACE_S)
        if self._peers is not None:
            in_time &= await self._end([keepers[self._peers]], [self._peers], PEERS_STOP_S)
        if self._follower is not None:
            in_time &= await self._end([keepers[self._follower]], [self._follower], FOLLOWER_STOP_S)
        if self._metastore is not None:
            in_time &= await self._end([keepers[self._metastore]], [self._metastore], FOLLOWER_STOP_S)
        return in_time

    async def _end(self, tasks: list[asyncio.Task[None]], children: list[Child], timeout_s: float) -> bool:
        """SIGTERM, and SIGKILL after `timeout_s` or at a second signal; True if that was not needed."""
        for child in children:
            child.stop(signal.SIGTERM)
        ended = asyncio.ensure_future(asyncio.wait(tasks))
        hurry = asyncio.create_task(self._hurry.wait(), name="hurry")
        await asyncio.wait([ended, hurry], timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        in_time = ended.done()
        hurry.cancel()
        for child in children:
            if child.pid is not None:
                log.warning("killing", child=child.name, pid=child.pid)
                child.stop(signal.SIGKILL)
        await ended
        return in_time

    def _close_listener(self) -> None:
        """End accepting, even in a worker that is stopped (SIGSTOP) and cannot close its descriptor."""
        with contextlib.suppress(OSError):  # no worker has made it listen yet
            self._sockets.listener.shutdown(socket.SHUT_RD)
        self._sockets.listener.close()

    async def _watch(self) -> None:
        """Kill children that hang; `Child.keep` starts the next. Replace damaged fences and lock files."""
        crew, page, worker_s = self._crew, self._page, self._config.worker_hung_after_s
        dogs = [Watchdog(worker, partial(crew.beat_of, worker.index), worker_s) for worker in self._workers]
        if self._follower is not None:
            dogs.append(Watchdog(self._follower, lambda: page[Slot.HEARTBEAT_NS], self._config.follower.hung_after_s))
        if self._peers is not None:
            dogs.append(Watchdog(self._peers, lambda: page[Slot.PEERS_BEAT_NS], worker_s))
        while True:
            for dog in dogs:
                dog.check(time.monotonic())
            if self._keeper is not None:
                self._keeper.check()
            if self._ttl is not None:
                await self._keep_usable(self._ttl)
            await asyncio.sleep(WATCH_INTERVAL_S)

    async def _keep_usable(self, ttl: TtlCache) -> None:
        """Restart all workers if something has happened to the lock file of the TTL cache."""
        reason = ttl.lock.damage()
        if reason is None:
            return
        log.error("the TTL cache is damaged: all workers are restarted", reason=reason)
        for worker in self._workers:
            worker.send(signal.SIGKILL)
        await asyncio.sleep(KILLED_S)
        try:
            self._flusher.renew()
        except (OSError, CacheError) as error:  # a full disk: the next check tries again
            log.error("the TTL cache cannot be opened yet", error=str(error))


def _address(wanted: Address, sockets: Sequence[socket.socket]) -> Address:
    """The requested address with the actual port."""
    return Address(wanted.host, sockets[0].getsockname()[1])
