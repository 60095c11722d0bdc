"""The proxy under test as ordinary processes: `hms-cache-proxy serve` with a data directory of its own.

Job: start it (with a planted bug where tests/history wants one), wait until it is ready or prewarmed, read its status
and metrics, stop or kill it. Used by every test that needs the whole product.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from hms_cache_proxy.cache.state import FIRST_BEAT, MAX_WORKERS, Slot, StatePage
from hms_cache_proxy.metrics import FLUSH_INTERVAL_S
from tests.testbed import ledger
from tests.testbed.processes import free_port

PLANTED = Path(__file__).parent / "history" / "planted"
PR_SET_PDEATHSIG = 1
READY_S = 240.0
STOP_S = 180.0


def _die_with_parent() -> None:
    """In the child: SIGKILL when the test run ends, however it ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _text(file: Path) -> str:
    """Of a process, "" if it has just ended."""
    try:
        return file.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def has_counted(data: Path, until_ns: int) -> bool:
    """Is all that was answered until then in the metrics of the proxy with this data directory? Its workers count apart
    and add up once in FLUSH_INTERVAL_S; one whose loop has shown a sign of life later than that has done it."""
    added_ns = until_ns + int((FLUSH_INTERVAL_S + 0.05) * 1e9)
    with StatePage(data / "state") as page:
        beats = page.words[FIRST_BEAT : FIRST_BEAT + MAX_WORKERS].tolist()
    return all(beat_ns > added_ns for beat_ns in beats if beat_ns)


@dataclass
class Proxy:
    """One proxy. `settings` are configuration keys as environment variables have them, e.g. {"WORKERS": "2"}."""

    directory: Path
    upstream: str
    store_url: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    command: Sequence[str] = (sys.executable, "-c", "from hms_cache_proxy.cli import main; main()", "serve")
    planted: str | None = None  # name of a bug of tests/history/planted, in every process of this proxy
    port: int = field(default_factory=free_port)
    http_port: int = field(default_factory=free_port)
    admin_port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> tuple[str, int]:
        return "127.0.0.1", self.port

    @property
    def uri(self) -> str:
        return f"thrift://127.0.0.1:{self.port}"

    @property
    def log(self) -> Path:
        return self.directory / "proxy.log"

    def start(self, *, prewarmed: bool = False) -> Proxy:
        self.directory.mkdir(parents=True, exist_ok=True)
        environment = {
            **os.environ,
            "HMS_CACHE_PROXY_LISTEN": f"127.0.0.1:{self.port}",
            "HMS_CACHE_PROXY_HTTP": f"127.0.0.1:{self.http_port}",
            "HMS_CACHE_PROXY_ADMIN_LISTEN": f"127.0.0.1:{self.admin_port}",
            "HMS_CACHE_PROXY_UPSTREAM": self.upstream,
            "HMS_CACHE_PROXY_DATA_DIR": str(self.directory / "data"),
            "HMS_CACHE_PROXY_WORKERS": "1",
            **({"HMS_CACHE_PROXY_STORE_URL": self.store_url} if self.store_url else {}),
            **{f"HMS_CACHE_PROXY_{key}": value for key, value in self.settings.items()},
            **({"PLANTED_BUG": self.planted, "PYTHONPATH": str(PLANTED)} if self.planted else {}),
        }
        with ledger.starting(ledger.PROXY), self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=_die_with_parent,
            )
            self.wait(lambda: self.ready(), "ready")
        if prewarmed:
            self.wait_prewarmed()
        return self

    def wait(self, condition: Any, what: str, timeout_s: float = READY_S) -> None:
        deadline = time.monotonic() + timeout_s
        while not condition():
            if self.process is None or self.process.poll() is not None:
                raise AssertionError(f"the proxy ended while waiting to be {what}:\n{self.log_tail()}")
            if time.monotonic() > deadline:
                raise AssertionError(f"not {what} after {timeout_s} s; {self.peek()}:\n{self.log_tail()}")
            time.sleep(0.02)

    def ready(self) -> bool:
        try:
            return self.get("/readyz")[0] == 200
        except (urllib.error.URLError, OSError):
            return False

    def peek(self) -> str:
        try:
            return json.dumps(self.status())
        except (urllib.error.URLError, OSError) as error:
            return str(error)

    def wait_prewarmed(self, timeout_s: float = 120.0) -> None:
        self.wait(lambda: self.status()["prewarm"]["done"], "prewarmed", timeout_s)

    def wait_event(self, event_id: int, timeout_s: float = READY_S) -> None:
        """Until the cursor has reached this notification event id."""
        self.wait(lambda: self.status()["cursor_event_id"] >= event_id, f"at event {event_id}", timeout_s)

    def get(self, path: str) -> tuple[int, str]:
        url = f"http://127.0.0.1:{self.http_port}{path}"
        try:
            with urllib.request.urlopen(url, timeout=READY_S) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def status(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.get("/status")[1])
        return document

    def samples(self, name: str) -> list[tuple[dict[str, str], float]]:
        """The labels and values of one metric."""
        families = text_string_to_metric_families(self.get("/metrics")[1])
        return [(s.labels, s.value) for family in families for s in family.samples if s.name == name]

    def metric(self, name: str, **labels: str) -> float:
        """The sum of a metric over the samples that have these labels."""
        return sum(value for found, value in self.samples(name) if labels.items() <= found.items())

    def word(self, slot: int) -> int:
        """Of its state page."""
        with StatePage(self.directory / "data" / "state") as page:
            return int(page[slot])

    def may_hit(self) -> bool:
        """By its leases of peers."""
        return self.word(Slot.LEASE_UNTIL_NS) > time.clock_gettime_ns(time.CLOCK_BOOTTIME)

    def requests(self) -> dict[tuple[str, str, str], float]:
        """hms_proxy_requests_total by (method, outcome, reason), with all that was answered before this call."""
        return self.requests_of([self])[0]

    def hits(self) -> int:
        """Requests that it has answered from its cache, before this call."""
        return int(sum(count for (_, outcome, _), count in self.requests().items() if outcome == "hit"))

    @staticmethod
    def requests_of(proxies: Sequence[Proxy]) -> list[dict[tuple[str, str, str], float]]:
        """requests() of each, in the time of one."""
        since_ns = time.monotonic_ns()
        for proxy in proxies:
            proxy.wait_counted(since_ns)
        return [proxy.told_requests() for proxy in proxies]

    def wait_counted(self, since_ns: int | None = None) -> None:
        """Until all that was answered before this call, or `since_ns`, is in the metrics."""
        until_ns = since_ns or time.monotonic_ns()
        self.wait(lambda: has_counted(self.directory / "data", until_ns), "counted")

    def told_requests(self) -> dict[tuple[str, str, str], float]:
        """The same at once, for who waits for something to be counted: the newest calls may be missing."""
        rows = self.samples("hms_proxy_requests_total")
        return {(labels["method"], labels["outcome"], labels["reason"]): value for labels, value in rows}

    def flush(self, query: str) -> dict[str, Any]:
        """POST /admin/flush with this query."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.admin_port}/admin/flush?{query}", method="POST")
        with urllib.request.urlopen(request, timeout=READY_S) as answer:
            document: dict[str, Any] = json.loads(answer.read())
        return document

    def children(self) -> dict[str, list[int]]:
        """Process ids by role (follower, worker, peers), from the process table. It is asked often: no `ps` is
        started."""
        assert self.process is not None
        found: dict[str, list[int]] = {"follower": [], "worker": [], "peers": []}
        for thread in Path(f"/proc/{self.process.pid}/task").glob("*/children"):
            for pid in _text(thread).split():
                command = _text(Path("/proc") / pid / "cmdline").replace("\0", " ")  # a zombie has none
                for role in found:
                    if f"child {role}" in command:
                        found[role].append(int(pid))
        return {role: sorted(pids) for role, pids in found.items()}

    def log_tail(self, lines: int = 40) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def stop(self) -> int:
        """SIGTERM and the exit code; kill -9 of the whole session if it does not end in time."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"the proxy did not end in {STOP_S} s:\n{self.log_tail()}") from None

    def kill(self) -> None:
        """kill -9 of the supervisor; its children end by themselves."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(STOP_S)

    def close(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.stop()
