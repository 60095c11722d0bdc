"""Counts: cheaply in workers, directly in the other processes.

A prometheus counter and histogram cost 4 us per observation in multiprocess mode, so a worker counts in
plain Python numbers (`CallCounts.observe`, about 0.2 us), and on a timer `WorkerMetrics.flush` adds what is
new to prometheus_client's files. If a worker is killed, only what it counted since its last flush is lost.

Files are named by role (`worker-0`, `follower`), not by process id: a restarted child continues its
predecessor's file, so counters stay monotonic and files do not accumulate. One process at a time has a role.
The supervisor aggregates the files for /metrics, and adds its own few metrics (`SupervisorMetrics`), which it
keeps in memory.

`metric_table.TABLE` lists all metrics. Labels come from literal tables of this package,
never from a peer's bytes: otherwise a client could make the files grow without limit. The files themselves are in
metric_files.py.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Literal, TypeVar, get_args

import prometheus_client.values
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from hms_cache_proxy import metric_files
from hms_cache_proxy.metric_table import TABLE

MULTIPROCESS_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"  # read by prometheus_client
FLUSH_INTERVAL_S = 1.0  # a scrape may miss this much; a flush of 500 busy slots takes a few ms

Outcome = Literal["hit", "miss", "relay", "write", "error"]
HandshakeResult = Literal["done", "failed"]
UpstreamFailure = Literal["connect", "closed", "timeout", "protocol", "status", "refused"]
FENCE_STATES = ("infinite", "finite", "unknown")
Mode = Literal["cache", "ttl", "stale", "relay", "replay"]
MODES: tuple[Mode, ...] = get_args(Mode)
PEER_STATES = ("leased", "connected", "missing")
LIMITS = (
    *("max_connections", "max_connections_per_address", "max_handshakes", "handshake_timeout_s", "idle_timeout_s"),
    *("max_message_bytes", "max_string_bytes", "memory_bytes", "spool_bytes"),
    *("method_bytes", "nesting_depth", "elements", "sasl_message"),  # not settings
)
RELOADED = ("certificate", "upstream_ca", "keytab", "token_keys", "groups", "passwords", "jwks", "settings")
CHILDREN = ("worker", "follower", "peers", "metastore")

# 20 us (a hit) to 60 s (a listing of everything); upper bounds in seconds.
_FINE_BOUNDS = (0.00002, 0.00005, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05)
BOUNDS: tuple[float, ...] = (*_FINE_BOUNDS, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 60.0)
_STEP_BOUNDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 30.0)

prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]  # a time stamp for each counter
_BY_NAME = {metric.name: metric for metric in TABLE}


def start_process(directory: Path, role: str) -> None:
    """Make this process write its metrics to `directory` under the name `role`. Call this before any metric is created.

    Otherwise (in a test, in the supervisor) metrics are in the memory of the process. A damaged file is replaced.
    Raises ProxyError if the disk has no room for the files.
    """
    metric_files.reserve(directory, role)
    os.environ[MULTIPROCESS_VARIABLE] = str(directory)
    prometheus_client.values.ValueClass = prometheus_client.values.MultiProcessValue(lambda: role)  # type: ignore[no-untyped-call]


def _counter(name: str, registry: CollectorRegistry, begun: Iterable[str | tuple[str, ...]] = ()) -> Counter:
    """`begun`: labels of series that are there from the start, as 0. Prometheus does not see the first increase of a
    series that begins with it, so each series that an alert looks for is among them."""
    metric = _BY_NAME[name]
    counter = Counter(name.removesuffix("_total"), metric.help, metric.labels, registry=registry)
    for values in begun:
        counter.labels(*((values,) if isinstance(values, str) else values))
    return counter


def _gauge(name: str, registry: CollectorRegistry, mode: Literal["livesum", "mostrecent"]) -> Gauge:
    metric = _BY_NAME[name]
    return Gauge(name, metric.help, metric.labels, registry=registry, multiprocess_mode=mode)


def _histogram(name: str, registry: CollectorRegistry, bounds: tuple[float, ...]) -> Histogram:
    metric = _BY_NAME[name]
    return Histogram(name, metric.help, metric.labels, registry=registry, buckets=bounds)


Labels = TypeVar("Labels")


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
        self._at_upstream: dict[str, CallCounts] = {}
        self._flushed_upstream: dict[str, tuple[list[int], float]] = {}
        self._upstream_seconds = _histogram("hms_proxy_upstream_seconds", registry, BOUNDS)
        self._peer_waits = _histogram("hms_proxy_peer_wait_seconds", registry, _STEP_BOUNDS)
        self.connections = _gauge("hms_proxy_connections", registry, "livesum")
        self.upstream_connections = _gauge("hms_proxy_upstream_connections", registry, "livesum")
        self._circuit = _gauge("hms_proxy_upstream_circuit", registry, "livesum")
        self.accepted = _counter("hms_proxy_accepted_total", registry)
        self._refused = _counter("hms_proxy_refused_transports_total", registry)
        self._handshakes = _counter("hms_proxy_handshakes_total", registry)
        self._http_refused = _counter("hms_proxy_http_refused_total", registry)
        self._expiry = _gauge("hms_proxy_tls_expiry_timestamp_seconds", registry, "mostrecent")
        self._reloads = _counter("hms_proxy_reloads_total", registry, product(RELOADED, ("loaded", "failed")))
        self._limits = _counter("hms_proxy_limits_broken_total", registry, LIMITS)
        self._budget = _gauge("hms_proxy_budget_bytes", registry, "livesum")
        self._budget_limit = _gauge("hms_proxy_budget_limit_bytes", registry, "livesum")
        self._failures = _counter("hms_proxy_upstream_failures_total", registry)
        self._internal = _counter("hms_proxy_internal_errors_total", registry, ("connection", "task", "ttl"))
        self._logged = _counter("hms_proxy_access_log_lines_total", registry)
        self._audited = _counter("hms_proxy_audit_log_lines_total", registry)
        self._traced = _counter("hms_proxy_traced_calls_total", registry)
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
        self._checks = _counter("hms_proxy_authorization_checks_total", registry)
        self.verdicts = _gauge("hms_proxy_authorization_verdicts", registry, "livesum")
        self._looked_up: dict[tuple[str, str], int] = {}

    def slot(self, method: str, outcome: Outcome, reason: str = "") -> CallCounts:
        """The one slot of these labels. A hot path keeps it."""
        key = (method, outcome, reason)
        slot = self._slots.get(key)
        if slot is None:
            slot = self._slots[key] = CallCounts()
        return slot

    def at_upstream(self, method: str, seconds: float) -> None:
        """A relayed call spent so long at the metastore."""
        counts = self._at_upstream.get(method)
        if counts is None:
            counts = self._at_upstream[method] = CallCounts()
        counts.observe(seconds)

    def waited_for_peers(self, by: str, seconds: float) -> None:
        """Something waited for the other proxies; `by`: process, page."""
        self._peer_waits.labels(by).observe(seconds)

    def refused_transport(self, transport: str) -> None:
        """A connection began with bytes of `transport`: sasl, tls, http, unknown."""
        self._refused.labels(transport).inc()

    def handshake(self, transport: str, result: HandshakeResult) -> None:
        """A client's handshake has ended."""
        self._handshakes.labels(transport, result).inc()

    def http_refused(self, status: int) -> None:
        """An HTTP request was answered with this status instead of a message."""
        self._http_refused.labels(str(status)).inc()

    def certificate_expires(self, seconds: float) -> None:
        """When the certificate for clients expires, in seconds since 1970."""
        self._expiry.labels("clients").set(seconds)

    def reloaded(self, what: str, *, well: bool) -> None:
        """Files were loaded again, or could not be."""
        self._reloads.labels(what, "loaded" if well else "failed").inc()

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

    def audit_logged(self, result: Literal["written", "overflow", "failed"], lines: int) -> None:
        """Lines of the audit log were written, or not."""
        self._audited.labels(result).inc(lines)

    def traced(self, result: Literal["exported", "failed", "overflow"], calls: int) -> None:
        """Spans of calls were exported, or not."""
        self._traced.labels(result).inc(calls)

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

    def checked(self, result: str) -> None:
        """`authorization = "learned"`: the metastore's answer to a user was compared, or kept."""
        self._checks.labels(result).inc()

    def flush(self) -> bool:
        """Add what was counted since the last flush to the shared files. Returns whether a read was among it."""
        read = False
        for (kind, result), number in self._looked_up.items():
            self._ttl_lookups.labels(kind, result).inc(number)
        self._looked_up.clear()
        for key, slot in self._slots.items():
            slot.fold()
            for new, seconds in _since(self._flushed, key, slot):
                self._requests.labels(*key).inc(sum(new))
                _add(self._seconds.labels(*key[:2]), new, seconds)
                read = read or key[1] in ("hit", "miss")
        for method, counts in self._at_upstream.items():
            for new, seconds in _since(self._flushed_upstream, method, counts):
                _add(self._upstream_seconds.labels(method), new, seconds)
        return read


def _since(
    flushed: dict[Labels, tuple[list[int], float]], key: Labels, counts: CallCounts
) -> Iterator[tuple[list[int], float]]:
    """What was counted since the last flush, if anything; it counts as flushed then."""
    before, seconds_before = flushed.get(key, ([0] * len(counts.buckets), 0.0))
    if counts.buckets != before:
        flushed[key] = (counts.buckets.copy(), counts.seconds)
        yield [now - then for now, then in zip(counts.buckets, before, strict=True)], counts.seconds - seconds_before


def _add(child: Histogram, counts: list[int], seconds: float) -> None:
    """Add many observations to a histogram at once; the library adds one at a time, at 15 times the cost.

    `_buckets` and `_sum` are private fields of the library; tests/ops/test_metrics.py fails if they change.
    """
    child._sum.inc(seconds)
    for bucket, count in zip(child._buckets, counts, strict=True):
        if count:
            bucket.inc(count)


class FollowerMetrics:
    """What the follower counts. A step sets only a few metrics, so they go straight to the files. `resets`: the reasons
    of resets."""

    def __init__(self, resets: Iterable[str] = ()) -> None:
        registry = self.registry = CollectorRegistry()
        self.cache_objects = _gauge("hms_proxy_cache_objects", registry, "mostrecent")
        self.cache_bytes = _gauge("hms_proxy_cache_bytes", registry, "mostrecent")
        self.cursor_event_id = _gauge("hms_proxy_cursor_event_id", registry, "mostrecent")
        self.upstream_event_id = _gauge("hms_proxy_upstream_event_id", registry, "mostrecent")
        self.event_lag_seconds = _gauge("hms_proxy_event_lag_seconds", registry, "mostrecent")
        self.prewarm_seconds = _gauge("hms_proxy_prewarm_seconds", registry, "mostrecent")
        self.step_seconds = _histogram("hms_proxy_follower_step_seconds", registry, _STEP_BOUNDS)
        self._events = _counter("hms_proxy_events_total", registry)
        self._evictions = _counter("hms_proxy_evictions_total", registry, ("tables",))
        self._resets = _counter("hms_proxy_resets_total", registry, resets)
        self._steps = _counter("hms_proxy_follower_steps_total", registry, ("changed", "idle", "failed"))
        self._internal = _counter("hms_proxy_internal_errors_total", registry, ("follower",))
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


class PeersMetrics:
    """What the peers' process counts."""

    def __init__(self) -> None:
        registry = self.registry = CollectorRegistry()
        self._peers = _gauge("hms_proxy_peers", registry, "mostrecent")
        self._ack_seconds = _histogram("hms_proxy_peer_ack_seconds", registry, _STEP_BOUNDS)

    def peers(self, states: Sequence[str]) -> None:
        """The states of the other proxies."""
        for state in PEER_STATES:
            self._peers.labels(state).set(states.count(state))

    def acknowledged(self, seconds: float) -> None:
        self._ack_seconds.observe(seconds)


@dataclass(frozen=True, slots=True)
class ProcessUsage:
    """What a process uses. `private_bytes`: memory of this process alone; `shared_bytes`: files and memory that several
    processes map, such as the cache, of which each process counts what it has touched."""

    private_bytes: int
    shared_bytes: int
    cpu_s: float


class _CpuSeconds(Collector):
    """A counter that is read, not counted: the kernel counts."""

    def __init__(self) -> None:
        self.seconds: Mapping[str, float] = {}

    def collect(self) -> Iterator[CounterMetricFamily]:
        metric = _BY_NAME["hms_proxy_process_cpu_seconds_total"]
        family = CounterMetricFamily(metric.name.removesuffix("_total"), metric.help, labels=metric.labels)
        for process, seconds in self.seconds.items():
            family.add_metric((process,), seconds)
        yield family


class SupervisorMetrics:
    """The supervisor's own metrics, and the sums over the files of all children."""

    def __init__(self, directory: Path, version: str) -> None:
        self._directory = directory
        metric_files.begin_anew(directory)
        self.registry = CollectorRegistry()
        self._children = CollectorRegistry()
        self._counted = metric_files.ChildrenCollector(directory)
        self._children.register(self._counted)
        self._restarts = _counter("hms_proxy_restarts_total", self.registry, CHILDREN)
        self.running = _gauge("hms_proxy_children", self.registry, "livesum")
        self._ready = _gauge("hms_proxy_ready", self.registry, "livesum")
        self._mode = _gauge("hms_proxy_mode", self.registry, "livesum")
        self._resident = _gauge("hms_proxy_process_resident_bytes", self.registry, "livesum")
        self._damaged = _gauge("hms_proxy_damaged_metric_files", self.registry, "livesum")
        self._cpu = _CpuSeconds()
        self.registry.register(self._cpu)
        _gauge("hms_proxy_info", self.registry, "livesum").labels(version).set(1)

    def state(self, *, ready: bool, mode: Mode) -> None:
        """What /readyz and /status say."""
        self._ready.set(ready)
        for one in MODES:
            self._mode.labels(one).set(one == mode)

    def processes(self, uses: Mapping[str, ProcessUsage]) -> None:
        """What the running processes use, by name."""
        self._resident.clear()
        for name, use in uses.items():
            self._resident.labels(name, "private").set(use.private_bytes)
            self._resident.labels(name, "shared").set(use.shared_bytes)
        self._cpu.seconds = {name: use.cpu_s for name, use in uses.items()}

    def died(self, role: str) -> None:
        """A child has ended: its gauges are removed, its counters stay."""
        metric_files.empty_live_gauges(self._directory, role)
        self._restarts.labels(role.partition("-")[0]).inc()

    def render(self) -> bytes:
        """/metrics in the text format."""
        counted = generate_latest(self._children)
        self._damaged.set(self._counted.damaged)
        return generate_latest(self.registry) + counted
