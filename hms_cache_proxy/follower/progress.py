"""What the follower reports: metrics, the state page, `follower.json`, a progress bar or log lines.

Job: turn the outcomes of steps into numbers that others show. Must not know why a step did what it did.

`data-dir/follower.json` is replaced as a whole (a new file is renamed over it) when the mode changes, else once a
second. It has what does not fit into the counters of the state page: texts, findings, the last error.

Owner: the follower's process, its main thread.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import structlog

from hms_cache_proxy.cache.mode import ModeReason
from hms_cache_proxy.cache.state import MODE_RELAY_ONLY, MODE_SERVE, Slot, StatePage
from hms_cache_proxy.cache.writer import CacheWriter
from hms_cache_proxy.follower.bootstrap import Filled
from hms_cache_proxy.follower.checks import Verdict
from hms_cache_proxy.follower.events import HANDLERS
from hms_cache_proxy.follower.load_queue import LoadQueue
from hms_cache_proxy.follower.step import ResetReason
from hms_cache_proxy.follower.step_states import StepOutcome
from hms_cache_proxy.metrics import FollowerMetrics

WRITE_INTERVAL_S = 1.0
LOG_INTERVAL_S = 5.0

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Prewarm:
    """One prewarm: from an empty or unfinished cache until nothing is left to load."""

    began_s: float
    tables_done: int = 0
    partitions_done: int = 0
    told_s: float = 0.0


class ProgressReport:
    """Is told about every step, and writes what has changed."""

    def __init__(self, page: StatePage, metrics: FollowerMetrics, file: Path) -> None:
        self._page = page
        self._metrics = metrics
        self._file = file
        self._unwritten = False  # the last report was not written
        self._written_s = 0.0
        self._prewarm: _Prewarm | None = None
        self._bar = _Bar() if sys.stderr.isatty() else None
        self._mode = ModeReason.STARTING
        self._told: CacheWriter | None = None  # the writer whose objects were reported; a warm start may change nothing
        self._fences_since_s: dict[int, float] = {}
        self._facts: dict[str, Any] = {"findings": [], "unreachable": {}, "last_error": None, "last_reset": None}

    def mode(self, reason: ModeReason) -> None:
        """Whether the cache is served from now on."""
        self._page[Slot.MODE_REASON] = reason
        self._page[Slot.SERVE_MODE] = MODE_SERVE if reason is ModeReason.SERVING else MODE_RELAY_ONLY
        if reason is not self._mode:
            level = _log.info if reason is ModeReason.SERVING else _log.warning
            level("mode", reason=reason.label, text=reason.text)
            self._mode = reason
            self._written_s = 0.0

    def verdict(self, verdict: Verdict) -> None:
        """The verdict on the metastores. What is new in it is logged."""
        findings = [
            {"uri": one.uri, "level": one.level, "reason": one.reason.label, "text": one.text}
            for one in verdict.findings
        ]
        unreachable = dict(verdict.unreachable)
        for finding in findings:
            if finding not in self._facts["findings"]:
                _log.warning("metastore", **finding)
        for uri in unreachable.keys() - self._facts["unreachable"].keys():
            _log.warning("metastore cannot be asked", uri=uri, error=unreachable[uri])
        self._facts |= {"findings": findings, "unreachable": unreachable}

    def step(self, outcome: StepOutcome, writer: CacheWriter, work: LoadQueue | None, seconds: float) -> None:
        """A step was committed and published."""
        self._metrics.step("changed" if outcome.changed else "idle", seconds)
        self._count(outcome)
        if outcome.reset is not None:
            self._reset(outcome.reset.value, outcome.event_id)
        if outcome.changed or outcome.reset is not None or writer is not self._told:
            self._objects(writer)
            self._told = writer
        if work is not None:
            self._follow_prewarm(outcome, writer, work)
        self.heartbeat()

    def bootstrapped(self, filled: Filled) -> None:
        """The cache was filled from a snapshot."""
        self._facts["bootstrap"] = asdict(filled)
        self._metrics.prewarm_seconds.set(filled.seconds)
        _log.info("bootstrap done", **asdict(filled))

    def not_bootstrapped(self, uri: str, reason: str) -> None:
        """No snapshot could be used; everything is loaded from the store."""
        self._facts["bootstrap"] = {"uri": uri, "refused": reason}
        _log.warning("no bootstrap: everything is loaded from the store", uri=uri, reason=reason)

    def _count(self, outcome: StepOutcome) -> None:
        for (kind, result), number in (outcome.results or {}).items():
            self._metrics.event(kind if kind in HANDLERS else "other", result, number)
            if result in ("unknown", "poison"):
                _log.warning("event not understood", type=kind, result=result, number=number)
        if outcome.rows:
            self._metrics.event_lag_seconds.set(max(0.0, time.time() - outcome.newest_time_s))
        if outcome.evicted:
            self._metrics.evicted("tables", outcome.evicted)
            _log.warning("no room in the cache: tables left out", tables=outcome.evicted)
        for table in outcome.unlogged_tables:
            self._metrics.event("none", "applied", 1)
            _log.info("changed without an event", table=table)
        if outcome.unmarked:
            _log.warning("functions and catalogs cannot be looked at in every step: reads of them are relayed")
        for problem in outcome.unfit:
            _log.warning("partitions that cannot be held in the cache; they are relayed", table=problem)
        self._metrics.upstream_event_id.set(outcome.event_id)
        self._metrics.cursor_event_id.set(outcome.event_id)

    def cache_closed(self) -> None:
        """The writer is closed. Its objects are counted when it has been opened again."""
        self._told = None

    def _reset(self, reason: str, event_id: int) -> None:
        self._metrics.reset(reason)
        self._facts["last_reset"] = {"reason": reason, "event_id": event_id, "time": time.time()}
        self._prewarm = None
        log = _log.info if reason == ResetReason.FIRST_START else _log.warning
        log("loading everything", reason=reason, event_id=event_id)

    def _objects(self, writer: CacheWriter) -> None:
        counts, used = writer.counts() | writer.write_id_counts(), writer.cache_bytes
        for kind, number in counts.items():
            self._metrics.objects(kind, number)
        self._metrics.cache_bytes.set(used)
        self._page[Slot.DATABASES] = counts["databases"]
        self._page[Slot.TABLES] = counts["tables"]
        self._page[Slot.PARTITIONS] = counts["partitions"]
        self._page[Slot.TRANSACTIONAL_TABLES] = counts["transactional_tables"]
        self._page[Slot.TABLES_BEING_WRITTEN] = counts["tables_being_written"]
        self._page[Slot.CACHE_BYTES] = used

    # --- prewarm

    def _follow_prewarm(self, outcome: StepOutcome, writer: CacheWriter, work: LoadQueue) -> None:
        done = max(0, writer.meta.tables - len(work.loads))
        self._page[Slot.PREWARM_TABLES_TOTAL] = done + work.tables_left
        self._page[Slot.PREWARM_TABLES_DONE] = done
        if work.done and self._prewarm is None:
            self._page[Slot.PREWARM_DONE] = 1
            return
        if self._prewarm is None:
            if self._page[Slot.PREWARM_DONE] and outcome.reset is None:
                return  # a new or changed table is being loaded, not everything
            self._prewarm = _Prewarm(time.monotonic())
            self._page[Slot.PREWARM_DONE] = 0
        prewarm = self._prewarm
        prewarm.partitions_done += outcome.partitions
        prewarm.tables_done = done
        self._page[Slot.PREWARM_PARTITIONS_DONE] = prewarm.partitions_done
        self._show(prewarm, done + work.tables_left, done=work.done)
        if work.done:
            self._prewarm = None
            self._page[Slot.PREWARM_DONE] = 1
            self._metrics.prewarm_seconds.set(time.monotonic() - prewarm.began_s)

    def _show(self, prewarm: _Prewarm, total: int, *, done: bool) -> None:
        if self._bar is not None:
            self._bar.update(prewarm.tables_done, total, prewarm.partitions_done, done=done)
        now_s = time.monotonic()
        if done or (self._bar is None and now_s - prewarm.told_s > LOG_INTERVAL_S):
            prewarm.told_s = now_s
            _log.info(
                "prewarm done" if done else "prewarm",
                tables=prewarm.tables_done,
                of=total,
                partitions=prewarm.partitions_done,
                seconds=round(now_s - prewarm.began_s, 1),
            )

    # --- fences

    def fences(self, standing: dict[int, str], now_s: float) -> None:
        """Reports the fences (by id), and how long the oldest has existed."""
        since = self._fences_since_s
        self._fences_since_s = since = {fence: since.get(fence, now_s) for fence in standing}
        self._metrics.fences(Counter(standing.values()), now_s - min(since.values(), default=now_s))

    # --- signs of life

    def failed(self, where: str, error: BaseException, retry_s: float) -> None:
        """A step failed. Readers see that the confirmation does not move."""
        self._metrics.step("failed", 0.0)
        self._facts["last_error"] = {"where": where, "error": str(error), "time": time.time()}
        _log.error("step failed", where=where, error=str(error), retry_s=round(retry_s, 1))
        self.heartbeat()

    def recovered(self) -> None:
        _log.info("following again")

    def heartbeat(self) -> None:
        """A sign of life of the loop. Once a second the file is written, too."""
        self._page[Slot.HEARTBEAT_NS] = time.monotonic_ns()
        now_s = time.monotonic()
        if now_s - self._written_s >= WRITE_INTERVAL_S:
            self._written_s = now_s
            self._write()

    def _write(self) -> None:
        page = self._page
        state = {
            "mode": "serve" if self._mode is ModeReason.SERVING else "relay",
            "reason": self._mode.label,
            "text": self._mode.text,
            "cursor_event_id": page[Slot.CURSOR],
            "upstream_event_id": page[Slot.UPSTREAM_EVENT],
            "generation": page[Slot.GENERATION],
            "prewarm": {
                "done": page.prewarmed,
                "tables_done": page[Slot.PREWARM_TABLES_DONE],
                "tables_total": page[Slot.PREWARM_TABLES_TOTAL],
                "partitions_done": page[Slot.PREWARM_PARTITIONS_DONE],
            },
            "time": time.time(),
            **self._facts,
        }
        beside = self._file.with_name(self._file.name + ".new")
        try:
            descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with open(descriptor, "w", encoding="utf-8") as file:
                json.dump(state, file)
            os.replace(beside, self._file)
        except OSError as error:  # a full disk: /status shows the last report, and following goes on
            if not self._unwritten:
                _log.error("the report for /status cannot be written", file=str(self._file), error=error.strerror)
            self._unwritten = True
        else:
            self._unwritten = False

    def close(self) -> None:
        """Writes the last report."""
        if self._bar is not None:
            self._bar.close()
        self._write()


class _Bar:
    """The prewarm on a terminal."""

    def __init__(self) -> None:
        from rich.console import Console  # 4 MB: only if there is a terminal
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

        self._progress = Progress(
            TextColumn("prewarm"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("tables, {task.fields[partitions]} partitions"),
            TimeElapsedColumn(),
            console=Console(stderr=True),
        )
        self._task: TaskID | None = None

    def update(self, done_tables: int, total: int, partitions: int, *, done: bool) -> None:
        if self._task is None:
            self._progress.start()
            self._task = self._progress.add_task("prewarm", partitions=0)
        self._progress.update(self._task, completed=done_tables, total=total, partitions=partitions)
        if done:
            self.close()

    def close(self) -> None:
        if self._task is not None:
            self._progress.stop()
            self._progress.remove_task(self._task)
            self._task = None
