"""What the HTTP server says about the proxy. `ProxyView` reads the state page and asks about the children; a flush
writes a ticket.

Owner: the supervisor's loop; `metrics` and `flush` run in a thread. `status` must not wait for a child, the metastore
or the database, because it is needed most when these do not answer.
"""

from __future__ import annotations

import enum
import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import structlog

from hms_cache_proxy import __version__
from hms_cache_proxy.cache.mode import BY_TIME, ModeReason
from hms_cache_proxy.cache.state import MODE_SERVE, Slot, StatePage, boottime_ns
from hms_cache_proxy.cache.ttl import TtlCache
from hms_cache_proxy.config import Config, paths
from hms_cache_proxy.errors import ConfigError
from hms_cache_proxy.metrics import Mode, SupervisorMetrics
from hms_cache_proxy.recording.file import RecordingFile
from hms_cache_proxy.recording.format import FileHeader, RecordingState
from hms_cache_proxy.server.worker_states import WorkerStates, heard_since_ns
from hms_cache_proxy.status.banner import banner
from hms_cache_proxy.status.calls import CallTotals, read_totals
from hms_cache_proxy.status.flush import Flusher
from hms_cache_proxy.status.history import History
from hms_cache_proxy.status.most_asked import added_up
from hms_cache_proxy.status.probe import UpstreamProbe
from hms_cache_proxy.status.usage import usage_of

log = structlog.get_logger()

READY_SILENT_NS = 5 * 10**9  # a worker that has shown no sign of life for longer may hang
BY_TIME_TEXT = "TTL mode: no notification log is followed, so answers are cached for a limited time"


class Stage(enum.Enum):
    RUNNING = "running"
    DRAINING = "draining"


class ChildProcess(Protocol):
    """What /status shows of a child of the supervisor."""

    role: str
    name: str
    restarts: int

    @property
    def pid(self) -> int | None:
        """The id of the running process; None while there is none."""


@dataclass(frozen=True, slots=True)
class SharedFiles:
    """Files that the processes of a proxy share."""

    page: StatePage
    ttl: TtlCache | None
    recording: RecordingFile | None


class ProxyView:
    """Implements http.View."""

    def __init__(
        self,
        config: Config,
        files: SharedFiles,
        *,
        children: Sequence[ChildProcess],
        metrics: SupervisorMetrics,
        probe: UpstreamProbe,
        flusher: Flusher,
    ) -> None:
        self._config = config
        self._page = files.page
        self._children = children
        self._metrics = metrics
        self._probe = probe
        self._flusher = flusher
        self._ttl = files.ttl
        self._recording = files.recording
        self._started_s = time.monotonic()
        self.history = History(self._totals, self._unconfirmed_s)
        self.stage = Stage.RUNNING
        self._crew = WorkerStates(files.page, sum(child.role == "worker" for child in children))

    def not_ready(self) -> str | None:
        if self.stage is Stage.DRAINING:
            return "draining"
        if not self._accepting:
            return "no worker accepts connections yet"
        if self._config.ready_when == "prewarmed" and not self._page.prewarmed:
            return "the prewarm is not done"
        if self._config.peers and not self._page[Slot.PEERS_SETTLED]:
            return "not all peers have answered"
        return None

    @property
    def _accepting(self) -> int:
        """How many workers accept connections and have shown a sign of life recently."""
        since_ns = heard_since_ns(READY_SILENT_NS)
        return sum(beat > since_ns for beat in self._crew.beats())

    def status(self) -> dict[str, object]:
        page = self._page
        not_ready = self.not_ready()
        facts: dict[str, object] = {
            "version": __version__,
            "uptime_s": round(time.monotonic() - self._started_s, 1),
            "ready": not_ready is None,
            "not_ready": not_ready,
            "mode": self._mode(),
            "mode_reason": self._mode_reason().label,
            "mode_text": BY_TIME_TEXT if self._mode() == "ttl" else self._mode_reason().text,
            "listen": str(self._config.listen),
            "consistency": self._config.consistency,
            "cursor_event_id": page[Slot.CURSOR],
            "upstream_event_id": page[Slot.UPSTREAM_EVENT],
            "confirmed_ms_ago": self._confirmed_ms_ago(),
            "prewarm": {
                "done": page.prewarmed,
                "tables_done": page[Slot.PREWARM_TABLES_DONE],
                "tables_total": page[Slot.PREWARM_TABLES_TOTAL],
                "partitions_done": page[Slot.PREWARM_PARTITIONS_DONE],
            },
            "objects": {
                "databases": page[Slot.DATABASES],
                "tables": page[Slot.TABLES],
                "partitions": page[Slot.PARTITIONS],
                "transactional_tables": page[Slot.TRANSACTIONAL_TABLES],
                "tables_being_written": page[Slot.TABLES_BEING_WRITTEN],
            },
            "fences": {
                "usable": page[Slot.FENCES_DAMAGED] != page[Slot.FENCES_FILE] or self._config.source == "none",
                "replaced": page[Slot.FENCES_REPLACED],
            },
            "peers": self._peers(),
            "cache_bytes": page[Slot.CACHE_BYTES],
            "cache_max_bytes": self._config.cache.max_bytes,
            "calls": {"per_second": self.history.calls_per_s, **self.history.totals.facts()},
            "ttl": None if self._ttl is None else _sizes(self._ttl),
            "recording": self._recording_facts(),
            "upstream": self._probe.facts(),
            "workers": self._workers(),
            "follower": self._running("follower"),
        }
        return {**facts, "banner": banner(facts)._asdict()}

    def told_history(self) -> dict[str, object]:
        """The JSON object of /history."""
        files = [paths.tops(self._config, worker) for worker in range(self._config.workers)]
        return {**self.history.as_dict(), "tops": added_up(files)}

    def _totals(self) -> CallTotals:
        """What was counted so far. It reads files, so it is called in a thread."""
        totals = read_totals(paths.metrics(self._config))
        for child in self._children:
            if child.restarts:
                totals.incidents["hms_proxy_restarts_total", child.name] = child.restarts
        calls = totals.by_outcome()
        self._page[Slot.HITS] = int(calls["hit"])
        self._page[Slot.CACHEABLE_READS] = int(calls["hit"] + calls["miss"])
        return totals

    def _unconfirmed_s(self) -> float | None:
        age_ms = self._confirmed_ms_ago()
        return None if age_ms is None else age_ms / 1000

    def metrics(self) -> bytes:
        for role in {"worker", "follower"} | {child.role for child in self._children}:
            self._metrics.running.labels(role).set(self._running(role)["running"])
        self._metrics.state(ready=self.not_ready() is None, mode=self._mode())
        running_ids = {child.name: child.pid for child in self._children if child.pid is not None}
        uses = {name: usage_of(pid) for name, pid in {"supervisor": os.getpid(), **running_ids}.items()}
        self._metrics.processes({name: use for name, use in uses.items() if use is not None})
        return self._metrics.render()

    def flush(self, catalog: str, database: str | None, table: str | None, partition: str | None) -> dict[str, object]:
        return self._flusher.flush(catalog, database, table, partition)

    def _workers(self) -> dict[str, object]:
        return {
            **self._running("worker"),
            "accepting": self._accepting,
            "connections": self._crew.connections(),
        }

    def _running(self, role: str) -> dict[str, int]:
        children = [child for child in self._children if child.role == role]
        return {
            "wanted": len(children),
            "running": sum(child.pid is not None for child in children),
            "restarts": sum(child.restarts for child in children),
        }

    def _peers(self) -> list[object] | None:
        """The other proxies, as the peers' process last told; None without `peers`."""
        if not self._config.peers:
            return None
        return peers_told(paths.peers_report(self._config))

    def _recording_facts(self) -> dict[str, object] | None:
        if self._recording is None:
            return None
        try:
            header = self._recording.header()
        except ConfigError as error:  # another program has written to it
            header = FileHeader(0, 1)
            log.warning("the recording cannot be read", error=str(error))
        left_s = max(0.0, header.until_ms / 1000 - time.time()) if header.until_ms else None
        active = header.state is RecordingState.OPEN and left_s != 0
        return {
            "file": self._recording.path,
            "active": active,
            "results": header.records,
            "bytes": header.end,
            "left_s": None if left_s is None else round(left_s, 1),
        }

    def _mode(self) -> Mode:
        if self._config.replay:
            return "replay"
        if self._page[Slot.SERVE_MODE] == MODE_SERVE and not self._unconfirmed():
            return "cache"
        if self._config.ttl.enabled and self._mode_reason() in BY_TIME:
            return "ttl"
        age_ms = self._confirmed_ms_ago()
        stale = self._mode_reason() is ModeReason.UNCONFIRMED and (age_ms or 0) <= self._config.serve_stale * 1000
        return "stale" if stale and self._probe.outage else "relay"

    def _mode_reason(self) -> ModeReason:
        if self._config.replay:
            return ModeReason.REPLAY
        if self._config.source == "none":
            return ModeReason.NO_STORE  # no follower runs, so the state page does not say so
        reason = ModeReason(self._page[Slot.MODE_REASON])
        return ModeReason.UNCONFIRMED if reason is ModeReason.SERVING and self._unconfirmed() else reason

    def _unconfirmed(self) -> bool:
        """Whether reads are relayed because the follower is stuck (gate.Reason.UNCONFIRMED)."""
        age_ms = self._confirmed_ms_ago()
        return age_ms is not None and age_ms > self._config.max_unconfirmed_ms

    def _confirmed_ms_ago(self) -> int | None:
        """The age of the confirmation, sleep of the machine included; None: nothing is confirmed."""
        age_ns = boottime_ns() - self._page[Slot.BEGAN_BOOT_NS]
        return age_ns // 1_000_000 if self._page[Slot.BEGAN_NS] else None


def peers_told(report: Path) -> list[object]:
    """What the peers' process has written; nothing until it has begun, or if a crash of the machine left half of it."""
    try:
        found = json.loads(report.read_text())
    except (FileNotFoundError, ValueError):
        return []
    assert isinstance(found, list)
    return found


def _sizes(cache: TtlCache) -> dict[str, dict[str, int]]:
    """The entries of TTL mode and their bytes, by kind."""
    return {kind.label: {"entries": size.entries, "bytes": size.bytes} for kind, size in cache.sizes().items()}
