"""Every metric, declared once, and the cheap counting in workers.

A prometheus counter and histogram cost 4 us per observation in multiprocess mode, so a worker counts in
plain Python numbers (`CallCounts.observe`, about 0.2 us), and on a timer `WorkerMetrics.flush` adds what is
new to prometheus_client's files. If a worker is killed, only what it counted since its last flush is lost.

Files are named by role (`worker-0`, `follower`), not by process id: a restarted child continues its
predecessor's file, so counters stay monotonic and files do not accumulate. One process at a time has a role.
The supervisor aggregates the files for /metrics, and adds its own few metrics (`SupervisorMetrics`), which it
keeps in memory.

`TABLE` lists all metrics; the documentation and its test read it. Labels come from literal tables of this package,
never from a peer's bytes: otherwise a client could make the files grow without limit.

The files are memory-mapped, so their disk space is reserved in advance (`RESERVED`): a store to a page for which a full
disk has no room kills the process with SIGBUS.
"""

from __future__ import annotations

import contextlib
import os
import struct
from bisect import bisect_left
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NamedTuple

import prometheus_client.values
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest, multiprocess

from hms_cache_proxy.errors import ProxyError

MULTIPROCESS_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"  # read by prometheus_client
FLUSH_INTERVAL_S = 1.0  # a scrape may miss this much; a flush of 500 busy slots takes a few ms

RESERVED = {"counter": 1 << 20, "gauge_livesum": 1 << 16, "gauge_mostrecent": 1 << 16, "histogram": 4 << 20}
"""Bytes of each file of a process: more than all labels take (a histogram takes 6 kB per method and outcome)."""
_NO_VALUES = struct.pack("i", 8)  # prometheus_client's files begin with the number of bytes in use, including these

Outcome = Literal["hit", "miss", "relay", "write", "error"]
UpstreamFailure = Literal["connect", "closed", "timeout", "protocol"]
FENCE_STATES = ("infinite", "finite", "unknown")

# 20 us (a hit) to 60 s (a listing of everything); upper bounds in seconds.
_FINE_BOUNDS = (0.00002, 0.00005, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05)
BOUNDS: tuple[float, ...] = (*_FINE_BOUNDS, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 60.0)
_STEP_BOUNDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 30.0)


class Metric(NamedTuple):
    """One row of the table: `kind` is counter, gauge or histogram, `owner` the process that counts."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    labels: tuple[str, ...]
    owner: Literal["worker", "follower", "supervisor"]
    help: str


TABLE: tuple[Metric, ...] = (
    Metric(
        "hms_proxy_requests_total",
        "counter",
        ("method", "outcome", "reason"),
        "worker",
        "Calls by method, outcome (hit, miss, relay, write, error) and the reason of the outcome.",
    ),
    Metric(
        "hms_proxy_request_seconds",
        "histogram",
        ("method", "outcome"),
        "worker",
        "Time from a complete request to the last byte of its reply.",
    ),
    Metric("hms_proxy_connections", "gauge", (), "worker", "Client connections now."),
    Metric("hms_proxy_upstream_connections", "gauge", (), "worker", "Connections to metastores now."),
    Metric(
        "hms_proxy_upstream_circuit",
        "gauge",
        ("uri",),
        "worker",
        "Workers whose circuit for this metastore is open: it did not answer their probes, so calls go to others.",
    ),
    Metric("hms_proxy_accepted_total", "counter", (), "worker", "Client connections accepted."),
    Metric(
        "hms_proxy_refused_transports_total",
        "counter",
        ("transport",),
        "worker",
        "Connections closed because their first bytes belong to an unsupported transport.",
    ),
    Metric(
        "hms_proxy_limits_broken_total",
        "counter",
        ("limit",),
        "worker",
        "Connections closed because the client exceeded a limit, by the limit's key.",
    ),
    Metric(
        "hms_proxy_budget_bytes",
        "gauge",
        ("budget",),
        "worker",
        "Bytes of `limits.memory_bytes` and `limits.spool_bytes` that workers use now.",
    ),
    Metric("hms_proxy_budget_limit_bytes", "gauge", ("budget",), "worker", "Bytes that all workers together may use."),
    Metric(
        "hms_proxy_upstream_failures_total",
        "counter",
        ("kind",),
        "worker",
        "Failed connects (connect), dead connections (closed), time-outs (timeout), bad replies (protocol).",
    ),
    Metric(
        "hms_proxy_internal_errors_total",
        "counter",
        ("where",),
        "worker",
        "Errors in this program that it survived: a connection was closed, or a step was repeated.",
    ),
    Metric(
        "hms_proxy_access_log_lines_total",
        "counter",
        ("result",),
        "worker",
        "Lines of the access log: written; dropped because they came faster than they could be written (overflow); or"
        " lost because the file could not be written (failed).",
    ),
    Metric("hms_proxy_cache_objects", "gauge", ("kind",), "follower", "Objects in the cache."),
    Metric("hms_proxy_cache_bytes", "gauge", (), "follower", "Bytes of the cache file that are in use."),
    Metric("hms_proxy_cursor_event_id", "gauge", (), "follower", "The last event whose changes are in the cache."),
    Metric("hms_proxy_upstream_event_id", "gauge", (), "follower", "The metastore's newest event."),
    Metric(
        "hms_proxy_event_lag_seconds",
        "gauge",
        (),
        "follower",
        "Time from the time stamp (whole seconds) of the newest followed event to its commit in the cache.",
    ),
    Metric(
        "hms_proxy_events_total",
        "counter",
        ("type", "result"),
        "follower",
        "Events followed, by type and result (applied, ignored, unknown, poison).",
    ),
    Metric("hms_proxy_prewarm_seconds", "gauge", (), "follower", "How long the last prewarm took."),
    Metric("hms_proxy_evictions_total", "counter", ("kind",), "follower", "Objects evicted to make room."),
    Metric(
        "hms_proxy_resets_total",
        "counter",
        ("reason",),
        "follower",
        "How often all entries were invalidated: because of a gap, a purged log, another database.",
    ),
    Metric(
        "hms_proxy_follower_steps_total",
        "counter",
        ("result",),
        "follower",
        "Steps of the follower by result (changed, idle, failed).",
    ),
    Metric("hms_proxy_follower_step_seconds", "histogram", (), "follower", "How long one step takes."),
    Metric(
        "hms_proxy_fences",
        "gauge",
        ("state",),
        "follower",
        "Fences now: of writes in flight (infinite), of finished writes that wait for their reload (finite), of writes"
        " of unknown outcome (unknown).",
    ),
    Metric(
        "hms_proxy_oldest_fence_seconds",
        "gauge",
        (),
        "follower",
        "Age of the oldest fence; at most three times `upstream_options.request_timeout_s` plus a reload.",
    ),
    Metric("hms_proxy_restarts_total", "counter", ("child",), "supervisor", "Children restarted after they died."),
    Metric(
        "hms_proxy_ttl_lookups_total",
        "counter",
        ("kind", "result"),
        "worker",
        "TTL mode: lookups by kind of entry and result (hit, refresh_due, miss).",
    ),
    Metric(
        "hms_proxy_ttl_loads_total",
        "counter",
        ("kind", "result"),
        "worker",
        "TTL mode: loads for a waiting reader, by kind and result (loaded, failed).",
    ),
    Metric("hms_proxy_ttl_load_seconds_total", "counter", ("kind",), "worker", "TTL mode: total time of the loads."),
    Metric(
        "hms_proxy_ttl_refreshes_total",
        "counter",
        ("kind", "result"),
        "worker",
        "TTL mode: loads in the background, by kind and result (loaded, failed).",
    ),
    Metric("hms_proxy_ttl_bytes", "gauge", ("kind",), "worker", "TTL mode: bytes of the entries of each kind."),
    Metric(
        "hms_proxy_ttl_over_column_limit_total",
        "counter",
        (),
        "worker",
        "TTL mode: partitions not cached because they have more columns than `ttl.partition_column_limit`.",
    ),
    Metric(
        "hms_proxy_ttl_validations_total",
        "counter",
        ("result",),
        "worker",
        "TTL mode: cached partitions compared with the metastore's answer (same, different).",
    ),
    Metric(
        "hms_proxy_recorded_total",
        "counter",
        ("result",),
        "worker",
        "Results of recorded reads: kept, too_large (over 64 MiB), lost (the file is full, or cannot be written).",
    ),
    Metric("hms_proxy_children", "gauge", ("child",), "supervisor", "Running child processes."),
    Metric(
        "hms_proxy_info", "gauge", ("version",), "supervisor", "Always 1; the label is the version of this program."
    ),
)
prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]  # a time stamp for each counter
_BY_NAME = {metric.name: metric for metric in TABLE}


def start_process(directory: Path, role: str) -> None:
    """Make this process write its metrics to `directory` under the name `role`. Call this before any metric is created.

    Otherwise (in a test, in the supervisor) metrics are in the memory of the process. Raises ProxyError if the disk has
    no room for the files.
    """
    for kind, size in RESERVED.items():
        path = directory / f"{kind}_{role}.db"
        try:
            with path.open("ab") as file:
                os.posix_fallocate(file.fileno(), 0, size)
        except OSError as error:
            raise ProxyError(f"{path}: cannot reserve {size} bytes: {error.strerror}") from error
    os.environ[MULTIPROCESS_VARIABLE] = str(directory)
    prometheus_client.values.ValueClass = prometheus_client.values.MultiProcessValue(lambda: role)  # type: ignore[no-untyped-call]


def _counter(name: str, registry: CollectorRegistry) -> Counter:
    metric = _BY_NAME[name]
    return Counter(name.removesuffix("_total"), metric.help, metric.labels, registry=registry)


def _gauge(name: str, registry: CollectorRegistry, mode: Literal["livesum", "mostrecent"]) -> Gauge:
    metric = _BY_NAME[name]
    return Gauge(name, metric.help, metric.labels, registry=registry, multiprocess_mode=mode)


def _histogram(name: str, registry: CollectorRegistry, bounds: tuple[float, ...]) -> Histogram:
    metric = _BY_NAME[name]
    return Histogram(name, metric.help, metric.labels, registry=registry, buckets=bounds)


class CallCounts:
    """The running counts of one (method, outcome, reason); `observe` is the hot path.

    Where 0.2 us matter, a call below the first bound is counted in `quick` and `quick_ns`, which are plain integers.
    """

    __slots__ = ("buckets", "quick", "quick_ns", "seconds")

    def __init__(self) -> None:
        self.buckets = [0] * (len(BOUNDS) + 1)
        self.seconds = 0.0
        self.quick = 0
        self.quick_ns = 0

    def observe(self, seconds: float) -> None:
        """Count one call that took `seconds`."""
        self.buckets[bisect_left(BOUNDS, seconds)] += 1
        self.seconds += seconds

    def fold(self) -> None:
        """Add the quick calls to the buckets."""
        self.buckets[0] += self.quick
        self.seconds += self.quick_ns * 1e-9
        self.quick = self.quick_ns = 0


class WorkerMetrics:
    """What one worker counts. Its loop calls `flush` on a timer, and once at the end."""

    def __init__(self) -> None:
        registry = self.registry = CollectorRegistry()
        self._slots: dict[tuple[str, str, str], CallCounts] = {}
        self._flushed: dict[tuple[str, str, str], tuple[list[int], float]] = {}
        self._requests = _counter("hms_proxy_requests_total", registry)
        self._seconds = _histogram("hms_proxy_request_seconds", registry, BOUNDS)
        self.connections = _gauge("hms_proxy_connections", registry, "livesum")
        self.upstream_connections = _gauge("hms_proxy_upstream_connections", registry, "livesum")
        self._circuit = _gauge("hms_proxy_upstream_circuit", registry, "livesum")
        self.accepted = _counter("hms_proxy_accepted_total", registry)
        self._refused = _counter("hms_proxy_refused_transports_total", registry)
        self._limits = _counter("hms_proxy_limits_broken_total", registry)
        self._budget = _gauge("hms_proxy_budget_bytes", registry, "livesum")
        self._budget_limit = _gauge("hms_proxy_budget_limit_bytes", registry, "livesum")
        self._failures = _counter("hms_proxy_upstream_failures_total", registry)
        self._internal = _counter("hms_proxy_internal_errors_total", registry)
        self._logged = _counter("hms_proxy_access_log_lines_total", registry)
        self._recorded = _counter("hms_proxy_recorded_total", registry)
        self._ttl_lookups = _counter("hms_proxy_ttl_lookups_total", registry)
        self._ttl_loads = _counter("hms_proxy_ttl_loads_total", registry)
        self._ttl_seconds = _counter("hms_proxy_ttl_load_seconds_total", registry)
        self._ttl_refreshes = _counter("hms_proxy_ttl_refreshes_total", registry)
        self._ttl_validations = _counter("hms_proxy_ttl_validations_total", registry)
        self.ttl_over_limit = _counter("hms_proxy_ttl_over_column_limit_total", registry)
        self._objects = _gauge("hms_proxy_cache_objects", registry, "mostrecent")
        self._bytes = _gauge("hms_proxy_cache_bytes", registry, "mostrecent")
        self._evictions = _counter("hms_proxy_evictions_total", registry)
        self._ttl_bytes = _gauge("hms_proxy_ttl_bytes", registry, "mostrecent")
        self._looked_up: dict[tuple[str, str], int] = {}

    def slot(self, method: str, outcome: Outcome, reason: str = "") -> CallCounts:
        """The one slot of these labels. A hot path keeps it."""
        key = (method, outcome, reason)
        slot = self._slots.get(key)
        if slot is None:
            slot = self._slots[key] = CallCounts()
        return slot

    def refused_transport(self, transport: str) -> None:
        """A connection began with bytes of `transport`: sasl, tls, http, unknown."""
        self._refused.labels(transport).inc()

    def limit_broken(self, limit: str) -> None:
        """A client exceeded the limit with this key, such as max_message_bytes."""
        self._limits.labels(limit).inc()

    def budget(self, name: str, used: int, limit: int) -> None:
        """The bytes of a budget of this worker, by the key of its setting."""
        self._budget.labels(name).set(used)
        self._budget_limit.labels(name).set(limit)

    def upstream_failed(self, kind: UpstreamFailure) -> None:
        self._failures.labels(kind).inc()

    def circuit(self, uri: str, is_open: bool) -> None:
        """Set whether the circuit of a metastore, named by its URI in the configuration, is open."""
        self._circuit.labels(uri).set(is_open)

    def internal_error(self, where: str) -> None:
        self._internal.labels(where).inc()

    def access_logged(self, result: Literal["written", "overflow", "failed"], lines: int) -> None:
        """Lines of the access log were written, or not."""
        self._logged.labels(result).inc(lines)

    def recorded(self, result: Literal["kept", "too_large", "lost"], number: int = 1) -> None:
        """Results of reads were recorded, or not."""
        self._recorded.labels(result).inc(number)

    def ttl_looked_up(self, kind: str, result: Literal["hit", "refresh_due", "miss"]) -> None:
        """TTL mode: a lookup had this result."""
        self._looked_up[kind, result] = self._looked_up.get((kind, result), 0) + 1

    def ttl_loaded(self, kind: str, result: Literal["loaded", "failed"], seconds: float) -> None:
        """TTL mode: a load for a waiting reader has ended."""
        self._ttl_loads.labels(kind, result).inc()
        self._ttl_seconds.labels(kind).inc(seconds)

    def ttl_refreshed(self, kind: str, result: Literal["loaded", "failed"]) -> None:
        """TTL mode: a load in the background has ended."""
        self._ttl_refreshes.labels(kind, result).inc()

    def ttl_compared(self, *, same: bool) -> None:
        """TTL mode: a cached partition was compared with the metastore's answer."""
        self._ttl_validations.labels("same" if same else "different").inc()

    def ttl_sizes(self, kind: str, entries: int, size: int, evicted: int) -> None:
        """TTL mode: the entries of a kind and their bytes (`size`), and how many this worker has evicted since the last
        call."""
        self._objects.labels(kind).set(entries)
        self._ttl_bytes.labels(kind).set(size)
        if evicted:
            self._evictions.labels(kind).inc(evicted)

    def ttl_bytes(self, size: int) -> None:
        """TTL mode: the bytes of all entries."""
        self._bytes.set(size)

    def flush(self) -> bool:
        """Add what was counted since the last flush to the shared files. Returns whether a read was among it."""
        read = False
        for (kind, result), number in self._looked_up.items():
            self._ttl_lookups.labels(kind, result).inc(number)
        self._looked_up.clear()
        for key, slot in self._slots.items():
            slot.fold()
            before, seconds_before = self._flushed.get(key, ([0] * len(slot.buckets), 0.0))
            if slot.buckets == before:
                continue
            buckets, seconds = slot.buckets.copy(), slot.seconds
            self._flushed[key] = (buckets, seconds)
            new = [now - then for now, then in zip(buckets, before, strict=True)]
            self._requests.labels(*key).inc(sum(new))
            _add(self._seconds.labels(*key[:2]), new, seconds - seconds_before)
            read = read or key[1] in ("hit", "miss")
        return read


def _add(child: Histogram, counts: list[int], seconds: float) -> None:
    """Add many observations to a histogram at once; the library adds one at a time, at 15 times the cost.

    `_buckets` and `_sum` are private fields of the library; tests/ops/test_metrics.py fails if they change.
    """
    child._sum.inc(seconds)
    for bucket, count in zip(child._buckets, counts, strict=True):
        if count:
            bucket.inc(count)


class FollowerMetrics:
    """What the follower counts. A step sets only a few metrics, so they go straight to the files."""

    def __init__(self) -> None:
        registry = self.registry = CollectorRegistry()
        self.cache_objects = _gauge("hms_proxy_cache_objects", registry, "mostrecent")
        self.cache_bytes = _gauge("hms_proxy_cache_bytes", registry, "mostrecent")
        self.cursor_event_id = _gauge("hms_proxy_cursor_event_id", registry, "mostrecent")
        self.upstream_event_id = _gauge("hms_proxy_upstream_event_id", registry, "mostrecent")
        self.event_lag_seconds = _gauge("hms_proxy_event_lag_seconds", registry, "mostrecent")
        self.prewarm_seconds = _gauge("hms_proxy_prewarm_seconds", registry, "mostrecent")
        self.step_seconds = _histogram("hms_proxy_follower_step_seconds", registry, _STEP_BOUNDS)
        self._events = _counter("hms_proxy_events_total", registry)
        self._evictions = _counter("hms_proxy_evictions_total", registry)
        self._evictions.labels("tables")  # 0 from the start: otherwise a rate would miss the first increase
        self._resets = _counter("hms_proxy_resets_total", registry)
        self._steps = _counter("hms_proxy_follower_steps_total", registry)
        self._internal = _counter("hms_proxy_internal_errors_total", registry)
        self._fences = _gauge("hms_proxy_fences", registry, "mostrecent")
        self._oldest_fence_seconds = _gauge("hms_proxy_oldest_fence_seconds", registry, "mostrecent")

    def fences(self, numbers: Mapping[str, int], oldest_s: float) -> None:
        """The number of fences in each state, and the age of the oldest."""
        for state in FENCE_STATES:
            self._fences.labels(state).set(numbers.get(state, 0))
        self._oldest_fence_seconds.set(oldest_s)

    def objects(self, kind: str, number: int) -> None:
        """The number of cached objects of a kind; the kinds are those of `objects` in /status."""
        self.cache_objects.labels(kind).set(number)

    def event(self, type: str, result: str, number: int = 1) -> None:
        """`type` is a type that the event table knows, or "other"."""
        self._events.labels(type, result).inc(number)

    def evicted(self, kind: str, number: int = 1) -> None:
        self._evictions.labels(kind).inc(number)

    def reset(self, reason: str) -> None:
        self._resets.labels(reason).inc()

    def step(self, result: Literal["changed", "idle", "failed"], seconds: float) -> None:
        self._steps.labels(result).inc()
        self.step_seconds.observe(seconds)

    def internal_error(self, where: str) -> None:
        self._internal.labels(where).inc()


class SupervisorMetrics:
    """The supervisor's own metrics, and the sums over the files of all children."""

    def __init__(self, directory: Path, version: str) -> None:
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        for file in directory.glob("*.db"):  # of the previous run
            file.unlink()
        self.registry = CollectorRegistry()
        self._children = CollectorRegistry()
        multiprocess.MultiProcessCollector(self._children, str(directory))  # type: ignore[no-untyped-call]
        self._restarts = _counter("hms_proxy_restarts_total", self.registry)
        self.running = _gauge("hms_proxy_children", self.registry, "livesum")
        _gauge("hms_proxy_info", self.registry, "livesum").labels(version).set(1)

    def died(self, role: str) -> None:
        """A child has ended: its gauges are removed, its counters stay."""
        live = self._directory / f"gauge_livesum_{role}.db"
        with contextlib.suppress(FileNotFoundError), live.open("r+b") as file:
            file.write(_NO_VALUES)  # not removed: on a full disk it could not be created again
        self._restarts.labels(role.partition("-")[0]).inc()

    def render(self) -> bytes:
        """/metrics in the text format."""
        return generate_latest(self.registry) + generate_latest(self._children)
