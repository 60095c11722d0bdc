"""Counting: cheap slots, and what the supervisor makes of several processes' files."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from prometheus_client import Counter
from prometheus_client.parser import text_string_to_metric_families

from hms_cache_proxy.follower.step import ResetReason
from hms_cache_proxy.metric_files import RESERVED
from hms_cache_proxy.metric_table import TABLE
from hms_cache_proxy.metrics import (
    BOUNDS,
    LIMITS,
    CallCounts,
    FollowerMetrics,
    PeersMetrics,
    SupervisorMetrics,
    WorkerMetrics,
)
from hms_cache_proxy.status.usage import usage_of
from tests.ops.queries import ROOT

RULES = ROOT / "conf" / "prometheus-rules.yml"
PACKAGE = ROOT / "hms_cache_proxy"
CLIENTS = ("server", "wire", "upstream")
COUNTING = """
import pathlib, sys
from hms_cache_proxy import metrics

metrics.start_process(pathlib.Path(sys.argv[1]), sys.argv[2])
worker = metrics.WorkerMetrics()
slot = worker.slot("get_table", "hit")
for _ in range(1000):
    slot.observe(0.0001)
worker.flush()
slot.observe(3.0)
worker.slot("get_table", "miss", "fence").observe(100.0)
worker.flush()
worker.flush()
worker.connections.set(5)
worker.refused_transport("tls")
worker.limit_broken("max_message_bytes")
worker.upstream_failed("connect")
follower = metrics.FollowerMetrics()
follower.objects("tables", 3)
follower.cursor_event_id.set(7)
follower.event("ADD_PARTITION", "applied", 4)
follower.step("changed", 0.01)
"""


def count(directory: Path, role: str) -> None:
    """A process that counts the same each time, and ends without a word, as a killed one does."""
    subprocess.run([sys.executable, "-c", COUNTING, str(directory), role], check=True, timeout=60)


def samples(metrics: SupervisorMetrics) -> dict[tuple[str, tuple[str, ...]], float]:
    families = text_string_to_metric_families(metrics.render().decode())
    return {(s.name, tuple(v for _, v in sorted(s.labels.items()))): s.value for f in families for s in f.samples}


def test_processes_add_up_and_restarts_keep_counters(tmp_path: Path) -> None:
    (tmp_path / "counter_worker-7.db").write_bytes(b"of the last run")
    metrics = SupervisorMetrics(tmp_path, "1.2.3")
    count(tmp_path, "worker-0")
    count(tmp_path, "worker-1")
    seen = samples(metrics)
    hits = ("hms_proxy_requests_total", ("get_table", "hit", ""))
    assert seen[hits] == 2002
    assert seen["hms_proxy_requests_total", ("get_table", "miss", "fence")] == 2
    assert seen["hms_proxy_connections", ()] == 10
    metrics.died("worker-0")
    seen = samples(metrics)
    assert seen[hits] == 2002
    assert seen["hms_proxy_connections", ()] == 5
    assert seen["hms_proxy_restarts_total", ("worker",)] == 1
    files = len(list(tmp_path.iterdir()))
    count(tmp_path, "worker-0")
    seen = samples(metrics)
    assert seen[hits] == 3003
    assert seen["hms_proxy_connections", ()] == 10
    assert len(list(tmp_path.iterdir())) == files  # the same for both lives
    assert seen["hms_proxy_refused_transports_total", ("tls",)] == 3
    assert seen["hms_proxy_limits_broken_total", ("max_message_bytes",)] == 3
    assert seen["hms_proxy_upstream_failures_total", ("connect",)] == 3
    assert seen["hms_proxy_events_total", ("applied", "ADD_PARTITION")] == 12
    assert seen["hms_proxy_cursor_event_id", ()] == 7
    assert seen["hms_proxy_cache_objects", ("tables",)] == 3
    assert seen["hms_proxy_evictions_total", ("tables",)] == 0
    assert seen["hms_proxy_info", ("1.2.3",)] == 1


def test_files_have_their_room_on_the_disk(tmp_path: Path) -> None:
    # They are mapped: a page that a full disk has no room for would be a SIGBUS.
    for _ in range(2):
        count(tmp_path, "worker-0")
        files = {path.name: path.stat() for path in tmp_path.iterdir()}
        assert set(files) == {f"{kind}_worker-0.db" for kind in RESERVED}
        for kind, size in RESERVED.items():
            assert files[f"{kind}_worker-0.db"].st_size == size
            assert files[f"{kind}_worker-0.db"].st_blocks * 512 >= size


def test_histograms_are_what_the_library_would_have_counted(tmp_path: Path) -> None:
    metrics = SupervisorMetrics(tmp_path, "1")
    count(tmp_path, "worker-0")
    seen = samples(metrics)

    def bucket(bound: str, outcome: str) -> float:
        return seen["hms_proxy_request_seconds_bucket", (bound, "get_table", outcome)]

    assert bucket("5e-05", "hit") == 0
    assert bucket("0.0001", "hit") == 1000  # le: a bound belongs to its own bucket
    assert bucket("2.0", "hit") == 1000
    assert bucket("5.0", "hit") == bucket("+Inf", "hit") == 1001
    assert bucket("60.0", "miss") == 0 and bucket("+Inf", "miss") == 1
    assert seen["hms_proxy_request_seconds_count", ("get_table", "hit")] == 1001
    assert abs(seen["hms_proxy_request_seconds_sum", ("get_table", "hit")] - 3.1) < 1e-9


def test_time_at_the_metastore_is_counted_apart(tmp_path: Path) -> None:
    worker = WorkerMetrics()
    worker.at_upstream("get_table", 0.3)
    worker.flush()
    worker.at_upstream("get_table", 0.5)
    for _ in range(2):  # the second adds nothing
        worker.flush()
    labels = {"method": "get_table"}
    assert worker.registry.get_sample_value("hms_proxy_upstream_seconds_count", labels) == 2
    assert worker.registry.get_sample_value("hms_proxy_upstream_seconds_sum", labels) == 0.8


def test_mode_readiness_and_what_the_processes_use(tmp_path: Path) -> None:
    metrics, own = SupervisorMetrics(tmp_path, "1"), usage_of(os.getpid())
    assert own is not None and own.private_bytes > 1 << 20 and own.shared_bytes > 0 and own.cpu_s > 0
    assert usage_of(1 << 30) is None
    metrics.state(ready=True, mode="cache")
    metrics.processes({"worker-0": own, "follower": own})
    metrics.state(ready=False, mode="relay")
    metrics.processes({"worker-0": own})
    seen = samples(metrics)
    assert seen["hms_proxy_ready", ()] == 0
    modes = {labels[0]: value for (name, labels), value in seen.items() if name == "hms_proxy_mode"}
    assert modes == {"relay": 1, **dict.fromkeys(("cache", "ttl", "stale", "replay"), 0)}
    assert seen["hms_proxy_process_resident_bytes", ("private", "worker-0")] == own.private_bytes
    assert seen["hms_proxy_process_cpu_seconds_total", ("worker-0",)] == own.cpu_s
    assert ("hms_proxy_process_cpu_seconds_total", ("follower",)) not in seen  # it has ended


def test_every_metric_is_declared_and_every_declared_metric_exists(tmp_path: Path) -> None:
    worker, follower, peers = WorkerMetrics(), FollowerMetrics(), PeersMetrics()
    supervisor = SupervisorMetrics(tmp_path, "1")
    exposed = {
        family.name
        for registry in (worker.registry, follower.registry, peers.registry, supervisor.registry)
        for family in registry.collect()
    }
    assert exposed == {metric.name.removesuffix("_total") for metric in TABLE}


def test_what_alerts_look_for_is_there_from_the_start(tmp_path: Path) -> None:
    # Prometheus does not see the first increase of a series that begins with it.
    worker, follower, supervisor = WorkerMetrics(), FollowerMetrics(ResetReason), SupervisorMetrics(tmp_path, "1")
    begun = {
        (sample.name, tuple(sample.labels.values()))
        for registry in (worker.registry, follower.registry, supervisor.registry)
        for family in registry.collect()
        for sample in family.samples
        if sample.value == 0
    }
    asked = set(re.findall(r"increase\((hms_proxy_\w+)", RULES.read_text("utf-8")))
    assert len(asked) >= 7 and asked <= {name for name, _ in begun}
    assert {labels for name, labels in begun if name == "hms_proxy_resets_total"} == {(one,) for one in ResetReason}
    assert {("hms_proxy_internal_errors_total", (where,)) for where in ("connection", "follower", "ttl")} <= begun
    assert {("hms_proxy_restarts_total", (child,)) for child in ("worker", "follower", "peers", "metastore")} <= begun
    assert {
        ("hms_proxy_reloads_total", ("keytab", "failed")),
        ("hms_proxy_limits_broken_total", ("memory_bytes",)),
    } <= begun


def test_every_limit_of_a_client_is_known() -> None:
    named = {
        limit
        for package in CLIENTS
        for file in (PACKAGE / package).glob("*.py")
        for limit in re.findall(
            r"""(?:\blimit(?:_name)?=|limit_broken\(|_turn_away\()"(\w+)\"""", file.read_text("utf-8")
        )
    }
    assert named - {"reply"} == set(LIMITS)  # reply: that of a metastore, which ends no connection


def test_a_slot_is_cheap() -> None:
    slot, number = CallCounts(), 100_000
    best = min(_seconds(slot.observe, number) for _ in range(5))
    counter = Counter("calls", "", registry=None)
    assert best < 2 * min(_seconds(counter.inc, number) for _ in range(5))  # a third is usual, without a histogram
    assert sum(slot.buckets) + slot.quick == 5 * number
    assert len(slot.buckets) == len(BOUNDS) + 1


def _seconds(count: Callable[[float], None], number: int) -> float:
    """Of processor time."""
    began = time.process_time()
    for _ in range(number):
        count(0.0003)
    return time.process_time() - began
