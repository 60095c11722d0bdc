"""The supervisor with real children in front of a real metastore: deaths, hangs, drains, claims."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.proxy import Proxy
from tests.testbed.client import MetastoreClient
from tests.testbed.fault_proxy import Direction, FaultProxy
from tests.testbed.guard import start_ticks
from tests.testbed.metastore import Metastore
from tests.testbed.processes import SOON_S, wait_until

pytestmark = pytest.mark.real
NewProxy = Callable[..., Proxy]
NewFaultProxy = Callable[..., FaultProxy]
RELAY = {"STORE": "none"}
LONG = "hive." + "x" * 10_000
"""A name for get_config_value. The call is in flight once so many bytes are: the proxy's own questions are shorter."""


def eventually(condition: Callable[[], object], what: str) -> None:
    assert wait_until(condition), f"not {what} within {SOON_S} s"


def alive(pid: int) -> bool:
    """Does the process run? (A zombie does not.)"""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def age_s(pid: int) -> int:
    """For how long the process has run; 0 if it does not run."""
    ticks = start_ticks(pid)
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")) if ticks else 0


def databases(proxy: Proxy) -> list[str]:
    with MetastoreClient(*proxy.address, timeout_s=SOON_S) as client:
        names: list[str] = client.get_all_databases()
        return names


def calls(proxy: Proxy) -> float:
    return sum(n for (method, _, _), n in proxy.told_requests().items() if method == "get_all_databases")


def test_a_killed_worker_is_replaced_and_counters_go_on(new_proxy: NewProxy, hms42: Metastore) -> None:
    proxy = new_proxy(hms42, settings=RELAY, prewarmed=False)
    for _ in range(5):
        databases(proxy)
    eventually(lambda: calls(proxy) == 5, "counted")
    (worker,) = proxy.children()["worker"]
    os.kill(worker, signal.SIGKILL)
    eventually(lambda: proxy.children()["worker"] not in ([], [worker]), "a new worker")
    eventually(proxy.ready, "ready again")
    databases(proxy)
    eventually(lambda: calls(proxy) == 6, "counted on from 5")
    status = proxy.status()
    workers = {"wanted": 1, "running": 1, "restarts": 1, "accepting": 1}
    assert status["workers"].items() >= workers.items()
    metrics = proxy.get("/metrics")[1]
    assert 'hms_proxy_restarts_total{child="worker"} 1.0' in metrics
    eventually(lambda: "hms_proxy_connections 0.0" in proxy.get("/metrics")[1], "without connections")


def test_not_ready_while_no_worker_runs(new_proxy: NewProxy, hms42: Metastore) -> None:
    proxy = new_proxy(hms42, settings=RELAY, prewarmed=False)

    def no_worker() -> bool:
        for worker in proxy.children()["worker"]:  # on a busy machine one is back before anybody asks
            os.kill(worker, signal.SIGKILL)
        return proxy.get("/readyz")[0] == 503

    eventually(no_worker, "not ready")
    assert proxy.get("/healthz")[0] == 200
    eventually(proxy.ready, "ready again")


def test_a_killed_follower_is_replaced_and_the_relay_does_not_notice(new_proxy: NewProxy, hms42: Metastore) -> None:
    proxy = new_proxy(hms42)
    (follower,) = proxy.children()["follower"]
    cursor = proxy.status()["cursor_event_id"]
    os.kill(follower, signal.SIGKILL)
    assert "default" in databases(proxy)
    eventually(lambda: proxy.children()["follower"] not in ([], [follower]), "a new follower")
    eventually(lambda: proxy.status()["mode"] == "cache", "serving from its cache again")
    assert proxy.status()["cursor_event_id"] >= cursor
    assert proxy.status()["follower"]["restarts"] == 1


def test_a_hung_follower_is_killed(new_proxy: NewProxy, hms42: Metastore) -> None:
    """And one that works is not, however long it has run."""
    hung_after_s = 8
    settings = {"FOLLOWER_HUNG_AFTER_S": str(hung_after_s), "MAX_UNCONFIRMED_MS": "1000"}
    proxy = new_proxy(hms42, settings=settings)
    eventually(lambda: proxy.status()["mode"] == "cache", "serving from its cache")
    (follower,) = proxy.children()["follower"]
    eventually(lambda: not alive(follower) or age_s(follower) > hung_after_s + 2, "running for longer")
    assert proxy.children()["follower"] == [follower]
    os.kill(follower, signal.SIGSTOP)
    told: list[tuple[str, str]] = []

    def reason() -> str:
        status = proxy.status()
        told.append((status["mode"], status["mode_reason"]))
        return told[-1][1]

    eventually(lambda: reason() == "unconfirmed", "telling that nothing is served")
    assert told[-1][0] == "relay"
    eventually(lambda: proxy.children()["follower"] not in ([], [follower]), "a new follower")
    assert not alive(follower)
    assert "follower hangs" in proxy.log.read_text()
    eventually(lambda: proxy.status()["mode"] == "cache", "serving from its cache again")


def test_no_orphans_when_the_supervisor_is_killed(new_proxy: NewProxy, hms42: Metastore) -> None:
    proxy = new_proxy(hms42, settings={"WORKERS": "2"})
    children = [pid for pids in proxy.children().values() for pid in pids]
    assert len(children) == 3
    stopped = proxy.children()["worker"][0]
    os.kill(stopped, signal.SIGSTOP)  # even one that cannot run any code
    proxy.kill()
    eventually(lambda: not any(alive(pid) for pid in children), "gone")
    proxy.start()  # the data directory is free again, and the ports are
    assert "default" in databases(proxy)


def test_a_call_in_flight_ends_before_the_proxy_does(
    new_proxy: NewProxy, hms42: Metastore, fault_proxy: NewFaultProxy
) -> None:
    slow = fault_proxy(hms42.host, hms42.port)
    proxy = new_proxy(hms42, upstream=f"thrift://127.0.0.1:{slow.port}", settings=RELAY, prewarmed=False)
    with MetastoreClient(*proxy.address, timeout_s=SOON_S) as client:
        client.get_all_databases()
        slow.stall()
        taken = slow.bytes_taken[Direction.UP]
        answers: list[str] = []
        caller = threading.Thread(target=lambda: answers.append(client.get_config_value(LONG, "the default")))
        caller.start()
        eventually(lambda: slow.bytes_taken[Direction.UP] > taken + len(LONG), "in flight")
        assert proxy.process is not None
        proxy.process.send_signal(signal.SIGTERM)
        eventually(lambda: proxy.get("/readyz") == (503, "draining\n"), "draining")
        eventually(lambda: refused(proxy), "closed to new clients")
        slow.restore()
        caller.join(SOON_S)
    assert answers == ["the default"]
    assert proxy.process.wait(SOON_S) == 0


def refused(proxy: Proxy) -> bool:
    try:
        databases(proxy)
    except Exception:  # thrift's transport error has no base class of its own
        return True
    return False


def test_the_drain_has_a_deadline(new_proxy: NewProxy, hms42: Metastore, fault_proxy: NewFaultProxy) -> None:
    deaf = fault_proxy(hms42.host, hms42.port)
    settings = {**RELAY, "DRAIN_TIMEOUT_S": "1"}
    proxy = new_proxy(hms42, prewarmed=False, upstream=f"thrift://127.0.0.1:{deaf.port}", settings=settings)
    with hanging_call(proxy, deaf):
        began = time.monotonic()
        assert proxy.stop() == 0
        assert 0.9 < time.monotonic() - began < 25  # its default is 30


def test_a_second_signal_ends_it_at_once(new_proxy: NewProxy, hms42: Metastore, fault_proxy: NewFaultProxy) -> None:
    deaf = fault_proxy(hms42.host, hms42.port)
    settings = {**RELAY, "DRAIN_TIMEOUT_S": "300"}
    proxy = new_proxy(hms42, upstream=f"thrift://127.0.0.1:{deaf.port}", settings=settings, prewarmed=False)
    children = proxy.children()["worker"]
    with hanging_call(proxy, deaf):
        assert proxy.process is not None
        proxy.process.send_signal(signal.SIGINT)
        eventually(lambda: proxy.get("/readyz")[1] == "draining\n", "draining")
        proxy.process.send_signal(signal.SIGINT)
        assert proxy.process.wait(SOON_S) == 1, "long before the drain's end"
    eventually(lambda: not any(alive(pid) for pid in children), "gone")


class hanging_call:
    """A client that waits for an answer which the metastore does not give."""

    def __init__(self, proxy: Proxy, deaf: FaultProxy) -> None:
        self._client = MetastoreClient(*proxy.address, timeout_s=3 * SOON_S)
        self._client.get_all_databases()
        deaf.stall()
        self._deaf, self._taken = deaf, deaf.bytes_taken[Direction.UP]
        self._caller = threading.Thread(target=self._call)

    def _call(self) -> None:
        with pytest.raises(Exception):  # noqa: B017  # thrift's transport error or end of file
            self._client.get_config_value(LONG, "")

    def __enter__(self) -> None:
        self._caller.start()
        eventually(lambda: self._deaf.bytes_taken[Direction.UP] > self._taken + len(LONG), "in flight")

    def __exit__(self, *_error: object) -> None:
        self._caller.join(SOON_S)
        self._client.close()
        assert not self._caller.is_alive()


def serve(proxy: Proxy, **settings: str) -> subprocess.CompletedProcess[str]:
    """Another `serve` beside a running proxy; it is expected to end by itself."""
    environment = {
        **os.environ,
        "HMS_CACHE_PROXY_UPSTREAM": proxy.upstream,
        "HMS_CACHE_PROXY_DATA_DIR": str(proxy.directory / "other"),
        **{f"HMS_CACHE_PROXY_{key}": "127.0.0.1:0" for key in ("LISTEN", "HTTP", "ADMIN_LISTEN")},
        **{f"HMS_CACHE_PROXY_{key}": value for key, value in settings.items()},
    }
    command = [sys.executable, "-m", "hms_cache_proxy", "serve"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=2 * SOON_S)


def test_one_proxy_per_data_directory_and_port(new_proxy: NewProxy, hms42: Metastore) -> None:
    proxy = new_proxy(hms42, settings=RELAY, prewarmed=False)
    assert proxy.process is not None
    second = serve(proxy, DATA_DIR=str(proxy.directory / "data"))
    assert second.returncode == 1
    assert second.stderr.count("\n") == 1 and f"in use by process {proxy.process.pid}" in second.stderr
    for key, port in (("LISTEN", proxy.port), ("HTTP", proxy.http_port), ("ADMIN_LISTEN", proxy.admin_port)):
        second = serve(proxy, **{key: f"127.0.0.1:{port}"})
        last = second.stderr.splitlines()[-1]
        assert second.returncode == 2, second.stderr
        assert f"{key.lower().replace('_', '.')}: cannot listen on 127.0.0.1:{port}" in last, second.stderr
    assert "default" in databases(proxy)


def test_ready_when_prewarmed(new_proxy: NewProxy, hms42: Metastore) -> None:
    proxy = new_proxy(hms42, prewarmed=False, settings={"READY_WHEN": "prewarmed"})
    assert proxy.status()["prewarm"]["done"]


def test_a_metastore_that_is_away_does_not_keep_the_proxy_from_starting(
    new_proxy: NewProxy, hms42: Metastore, fault_proxy: NewFaultProxy
) -> None:
    away = fault_proxy(hms42.host, hms42.port)
    away.refuse()
    proxy = new_proxy(hms42, upstream=f"thrift://127.0.0.1:{away.port}", settings=RELAY, prewarmed=False)
    eventually(lambda: proxy.status()["upstream"]["reachable"] is False, "told")
    away.restore()
    assert "default" in databases(proxy)
    eventually(lambda: proxy.status()["upstream"]["reachable"] is True, "told")
    assert proxy.status()["upstream"]["version"] == "4.2.0"
