"""The follower's process: opens what a step needs, runs steps at the right pace, and never gives up.

Job: run one loop. It runs a step, reports it, and waits as long as the pace says, or until a datagram comes on the
socket `data-dir/follower.sock`. The checks of the metastores run in a thread, because they may block. The loop catches
Exception: a step that fails is logged, counted and tried again after a pause. Meanwhile the confirmation on the state
page grows old, and workers stop serving by themselves.

Owner: the follower's process. The supervisor starts it, and ends it with SIGTERM.
"""

from __future__ import annotations

import contextlib
import gc
import math
import os
import select
import signal
import socket
import time
import traceback
from types import FrameType

import structlog

from hms_cache_proxy.cache.mode import ModeReason
from hms_cache_proxy.cache.reader import CacheReader
from hms_cache_proxy.cache.state import Slot, StatePage
from hms_cache_proxy.cache.writer import CacheWriter
from hms_cache_proxy.config import Config, paths
from hms_cache_proxy.consistency.fences import FenceStore
from hms_cache_proxy.errors import LogClosed, ProxyError, SnapshotError, StoreError
from hms_cache_proxy.follower.cycle import Cycle, StepSettings
from hms_cache_proxy.follower.examiner import Examiner
from hms_cache_proxy.follower.mode import ServingMode
from hms_cache_proxy.follower.pace import Chunks, Pace, may_look_s
from hms_cache_proxy.follower.progress import ProgressReport
from hms_cache_proxy.follower.step import ResetReason
from hms_cache_proxy.follower.sweep import Sweep
from hms_cache_proxy.metrics import FollowerMetrics
from hms_cache_proxy.retry import Retry
from hms_cache_proxy.security.metastore_security import towards_metastores
from hms_cache_proxy.store.protocol import RawStore, StoreIdentity

EXPIRE_INTERVAL_S = 1.0
UNORDERED_LOG = (
    "Hive 2.3 gives event ids without order: followed in its database if that is PostgreSQL, else relayed unless"
    " store = sql or thrift asks to follow it all the same"
)
MAP_RESERVE_BYTES = 256 << 20
"""Address space above twice the cache's size, for dropped objects until they are collected."""

THRIFT_CHUNK = 1000
"""Partitions that a step loads over Thrift. A metastore returns about a thousand a second, and a step should take one
second."""

FIRST_RETRY_S = 0.1
LONGEST_RETRY_S = 5.0
HURRIED_RETRY_S = 1.0  # between attempts while reads wait for one
"""A database that is back is noticed within this time, and is not flooded with attempts while it is down."""
CLOSED_RETRY_S = 30.0
"""How often to try again to read the log of a metastore that refuses it."""

_log = structlog.get_logger(__name__)


def run(config: Config) -> None:
    """Follows until SIGTERM; returns when the current step is done."""
    with StatePage(paths.state(config)) as page, WakeListener(config) as wakes:
        Runner(config, page, wakes).run()


class WakeListener:
    """Ends a pause early: on a datagram from a worker or a thread of this process, or on SIGTERM."""

    def __init__(self, config: Config) -> None:
        self.stopping = False
        self._asking: set[str] = set()  # who asked for the step that begins next, or is under way
        path = self._path = paths.follower_socket(config)
        path.unlink(missing_ok=True)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._socket.bind(str(path))
        os.chmod(path, 0o600)
        self._signals, self._signalled = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.signal(signal.SIGTERM, self._stop)
        signal.set_wakeup_fd(self._signalled, warn_on_full_buffer=False)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self.stopping = True

    def wait(self, seconds: float) -> bool:
        """Sleeps for this time, or until it is woken (then True)."""
        ready, _, _ = select.select([self._socket.fileno(), self._signals], [], [], max(0.0, seconds))
        if self._socket.fileno() in ready:
            self.drain()
        return bool(ready)

    def ring(self) -> None:
        """From another thread: ends the pause."""
        with contextlib.suppress(OSError):  # the queue is full of datagrams, or the process ends
            self._socket.sendto(b"!", str(self._path))

    def drain(self) -> None:
        """Takes all datagrams: those who sent them share the step that begins next."""
        while True:
            try:
                _, sender = self._socket.recvfrom(16)
            except BlockingIOError:
                return
            if sender and sender != str(self._path):
                self._asking.add(sender)

    def answer(self) -> None:
        """A step has ended: tells those who asked for it."""
        for sender in self._asking:
            with contextlib.suppress(OSError):  # it has ended, or has so many answers to read that it knows
                self._socket.sendto(b"!", sender)
        self._asking.clear()

    def __enter__(self) -> WakeListener:
        return self

    def __exit__(self, *_: object) -> None:
        signal.set_wakeup_fd(-1)
        os.close(self._signals)
        os.close(self._signalled)
        self._socket.close()


class Runner:
    """The loop, and what it keeps open."""

    def __init__(self, config: Config, page: StatePage, wakes: WakeListener) -> None:
        self._config = config
        self._page = page
        self._wakes = wakes
        self._metrics = FollowerMetrics(ResetReason)
        self._report = ProgressReport(page, self._metrics, paths.follower_report(config))
        self._mode = ServingMode(
            page, paths.not_followed(config), paths.answers(config), stored=config.source != "none"
        )
        request_timeout_ns = config.upstream_options.request_timeout_ns
        self._fences = FenceStore(
            paths.fences(config), page, request_timeout_ns=request_timeout_ns, fleet=bool(config.peers)
        )
        self._examiner = Examiner(config, wakes.ring)
        self._retry = Retry(FIRST_RETRY_S, LONGEST_RETRY_S)
        self._chunks = Chunks(config.follower.prewarm_chunk)
        freshness_ms = config.max_staleness_ms or config.max_unconfirmed_ms
        follower = config.follower
        self._pace = Pace.of(follower.poll_interval_min_ms, follower.poll_interval_max_ms, freshness_ms=freshness_ms)
        self._sweep = Sweep(follower.revalidate_interval_s, time.monotonic())
        self._store: RawStore | None = None
        self._identity: StoreIdentity | None = None
        self._writer: CacheWriter | None = None
        self._reader: CacheReader | None = None
        self._cycle: Cycle | None = None
        self._expired_s = 0.0
        self._changed_s = -math.inf
        self._to_bootstrap = bool(config.bootstrap)

    def run(self) -> None:
        """Until SIGTERM."""
        gc.freeze()  # partitions are many small tuples: with rare collections a load takes 30 % less CPU
        gc.set_threshold(50_000, 20, 20)
        self._page[Slot.BEGAN_NS] = 0  # nothing is served before this process has caught up
        self._report.mode(ModeReason.STARTING)
        try:
            while not self._wakes.stopping:
                began_s = time.monotonic()
                pause_s = self._guarded()
                least_s = min(pause_s, HURRIED_RETRY_S) if self._retry.failures else 0.0
                soonest_s = max(may_look_s(began_s, time.monotonic()), began_s + least_s)
                if self._wakes.wait(pause_s):
                    self._chunks.woken(time.monotonic())
                    if pause_s:
                        self._space(soonest_s)
        finally:
            self._examiner.stop()
            self._close()
            self._report.close()

    def _space(self, soonest_s: float) -> None:
        """Sleeps until the next step may begin; who asks for it meanwhile shares it."""
        time.sleep(max(0.0, soonest_s - time.monotonic()))
        self._wakes.drain()

    def _guarded(self) -> float:
        """One turn of the loop; returns the pause after it. Never raises an Exception."""
        try:
            pause_s = self._turn()
        except Exception as error:
            pause_s = self._failed(error)
        else:
            if self._retry.succeeded():
                self._report.recovered()
        return pause_s

    def _failed(self, error: Exception) -> float:
        pause_s = self._retry.failed()
        if not isinstance(error, ProxyError):
            _log.error("unexpected", traceback="".join(traceback.format_exception(error)))
        if not isinstance(error, StoreError):
            self._metrics.internal_error("follower")
        if isinstance(error, LogClosed):
            pause_s = CLOSED_RETRY_S
            self._mode.closed(True)
            self._drop_tickets()
            self._report.mode(self._mode.decide(None))
        self._report.failed(type(error).__name__, error, pause_s)
        self._close(keep_cache=isinstance(error, StoreError))
        return pause_s

    def _turn(self) -> float:
        """A step, or what is done instead where nothing may be served."""
        self._fences.renew()
        self._expire()
        self._examiner.ensure()
        if self._config.source == "none":
            self._drop_tickets()
            self._report.mode(self._mode.decide(self._examiner.verdict))
            self._report.heartbeat()
            return self._pace.after(changed=False, more=False)
        verdict = self._examiner.take()
        if verdict is not None:
            self._report.verdict(verdict)
            if verdict.differs is not None:
                self._mode.answer(verdict.differs)
            if verdict.identified:  # the check has created the database's uuid: open the store again to read it
                self._close(keep_cache=True)
        cycle = self._opened()
        if self._mode.idle(self._examiner.verdict):
            self._page[Slot.BEGAN_NS] = 0
            if self._mode.must_reset:
                self._drop_tickets()
            self._mode.saw(cycle.peek())
            self._report.heartbeat()
            more = changed = False
        else:
            more, changed = self._step(cycle)
        self._report.mode(self._mode.decide(self._examiner.verdict))
        return self._pace.after(changed=changed, more=more, quiet_s=self._quiet_s(changed))

    def _quiet_s(self, changed: bool) -> float:
        """How long there has been neither an event nor a read. Infinite if a look takes more than one statement, as
        with Hive 2.3."""
        now_s = time.monotonic()
        if changed:
            self._changed_s = now_s
        if self._store is None or not self._store.identity.ordered_log:
            return math.inf
        return now_s - max(self._changed_s, self._page[Slot.READ_NS] / 1e9)

    def _step(self, cycle: Cycle) -> tuple[bool, bool]:
        if self._to_bootstrap:
            self._bootstrap()
        if self._mode.must_reset:
            cycle.distrust()
        began_s = time.monotonic()
        outcome = cycle.step(self._chunks.next(began_s))
        self._wakes.answer()
        self._mode.stepped(outcome)
        assert self._writer is not None, "a cycle has a writer"
        self._report.step(outcome, self._writer, cycle.work, time.monotonic() - began_s)
        garbage = cycle.collect()
        return outcome.more or garbage, outcome.changed

    def _bootstrap(self) -> None:
        """Before the first step: fills an empty cache from a snapshot, if one may be used."""
        from hms_cache_proxy.follower.bootstrap import Bootstrap, LoadScope  # only if there is a snapshot to read

        assert self._store is not None and self._writer is not None, "a cycle has a store and a writer"
        config = self._config
        scope = LoadScope(config.include, config.exclude, config.cache.max_bytes, config.follower.prewarm_chunk)
        try:
            if self._mode.must_reset:
                raise SnapshotError("for a time the log was not followed, and changes may have left no trace in it")
            filling = Bootstrap(config.bootstrap, self._store, self._writer, self._page, scope, self._still_wanted)
            filled = filling.run()
        except SnapshotError as error:
            self._report.not_bootstrapped(config.bootstrap, str(error))
        else:
            if filled is not None:
                self._report.bootstrapped(filled)
        self._to_bootstrap = False

    def _still_wanted(self) -> None:
        self._report.heartbeat()
        if self._wakes.stopping:
            from hms_cache_proxy.follower.bootstrap import BootstrapEnded

            raise BootstrapEnded("this process has been told to end")

    def _expire(self) -> None:
        """Turns the fences of dead processes, and of writes whose outcome never became known, into tickets."""
        now_s = time.monotonic()
        if now_s - self._expired_s >= EXPIRE_INTERVAL_S:
            self._expired_s = now_s
            self._fences.expire(time.monotonic_ns())
            self._report.fences(self._fences.standing(), now_s)

    def _drop_tickets(self) -> None:
        """Marks all tickets as done, because there is no cache, or all of it will be loaded again."""
        last_ticket, _ = self._fences.pending_tickets()
        self._fences.done(last_ticket)

    # --- what is held open

    def _opened(self) -> Cycle:
        if self._store is None:
            self._store = self._open_store()
            self._mode.closed(False)
            self._examiner.database_uuid(self._store.identity.database_uuid)
        if self._writer is not None:
            self._writer.check()
            if self._identity != self._store.identity:
                self._close_cache()
        if self._writer is None:
            self._identity = self._store.identity
            self._writer = self._open_writer(self._store)
            self._fences.number_after(self._writer.meta.done_ticket)
            self._cycle = None
        if self._cycle is None:
            self._cycle = self._new_cycle(self._store, self._writer)
        return self._cycle

    def _open_store(self) -> RawStore:
        config = self._config
        patience_s = config.follower.hung_after_s / 2  # for one answer: a follower that waits for one is not hung
        if config.source == "sql":
            from hms_cache_proxy.store.sql.store import (
                open_sql_store,  # SQLAlchemy is 12 MB: only if there is a database
            )

            alive = self._report.heartbeat
            store = open_sql_store(config.store_url, statement_timeout_s=patience_s, answered=alive, two=True)
            if config.store == "auto" and not store.identity.ordered_log and store.database.under_way() is None:
                store.close()
                raise LogClosed(UNORDERED_LOG)
            return store
        timeout_s = min(config.upstream_options.request_timeout_s, patience_s)
        from hms_cache_proxy.store.thrift.store import open_thrift_store  # only if there is none

        followed = open_thrift_store(
            config.upstream,
            timeout_s=timeout_s,
            connect_timeout_s=config.upstream_options.connect_timeout_s,
            answered=self._report.heartbeat,
            secured=towards_metastores(config),
        )
        if config.store == "auto" and not followed.identity.ordered_log:
            followed.close()
            raise LogClosed(UNORDERED_LOG)
        return followed

    def _open_writer(self, store: RawStore) -> CacheWriter:
        config = self._config
        writer = CacheWriter.open(
            paths.cache(config),
            self._page,
            store.identity,
            scope=repr((config.include, config.exclude)),
            map_size=2 * config.cache.max_bytes + MAP_RESERVE_BYTES,
        )
        if writer.rebuilt is not None:
            _log.warning("the cache that was there is not used", reason=writer.rebuilt)
        return writer

    def _new_cycle(self, store: RawStore, writer: CacheWriter) -> Cycle:
        config = self._config
        chunk = config.follower.prewarm_chunk
        if config.source == "thrift":
            chunk = min(chunk, THRIFT_CHUNK)
        cache = config.cache
        settings = StepSettings(config.selection, cache.max_bytes, chunk, pin=cache.pin, sweep=self._sweep)
        if self._reader is None:
            self._reader = CacheReader(paths.cache(config), self._page, paths.uses(config))
        return Cycle(store, writer, self._reader, self._fences, self._page, settings)

    def _close(self, *, keep_cache: bool = False) -> None:
        store, self._store, self._cycle = self._store, None, None
        if store is not None:
            store.close()
        if not keep_cache:
            self._close_cache()

    def _close_cache(self) -> None:
        writer, self._writer, self._cycle = self._writer, None, None
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()
        if writer is not None:
            self._report.cache_closed()
            writer.close()
