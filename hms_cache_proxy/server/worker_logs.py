"""The logs, traces and counts of one worker's calls, as the settings ask for them.

Job: open them, and tell each of them of the calls that it is about. Must not know: what they write.
Owner: the worker's event loop.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any, Final

from hms_cache_proxy.config import Config, paths
from hms_cache_proxy.methods.decision import ClientSession
from hms_cache_proxy.methods.hot import Sampled, Told, new_samples
from hms_cache_proxy.metrics import WorkerMetrics
from hms_cache_proxy.server import traces
from hms_cache_proxy.server.access_log import AccessLog
from hms_cache_proxy.server.audit_log import AuditLog
from hms_cache_proxy.server.commands import Observe
from hms_cache_proxy.server.line_log import LineLog
from hms_cache_proxy.server.log_file import LogFile
from hms_cache_proxy.server.most_asked import MostAsked
from hms_cache_proxy.server.traces import Traces


@dataclass(frozen=True, slots=True)
class WorkerLogs:
    """None: the settings do not ask for it."""

    access: AccessLog | None = None
    slow: AccessLog | None = None
    audit: AuditLog | None = None
    traces: Traces | None = None
    tops: MostAsked | None = None

    @property
    def kept(self) -> list[LineLog[Any] | Traces]:
        """Those that are flushed."""
        return [one for one in (self.access, self.slow, self.audit, self.traces) if one is not None]

    @property
    def of_hits(self) -> tuple[Told, ...]:
        """What is to be told of each hit of the hot path; `observed` tells of all other calls."""
        traced = self.traces if self.traces is not None and self.traces.of_hits else None
        return tuple(one.hit for one in (self.access, self.audit, traced) if one is not None)

    @property
    def samples(self) -> deque[Sampled]:
        """Where the hot path puts samples of its answers."""
        return new_samples() if self.tops is None else self.tops.hits

    def observed(self, session: ClientSession, took_ns: int, call: Observe) -> None:
        """A call has ended."""
        if self.tops is not None:
            self.tops.observed(session, call)
        if self.access is not None:
            self.access.observed(session, took_ns, call)
        if self.audit is not None:
            self.audit.observed(session, call)
        if self.slow is not None and took_ns >= self.slow.slower_than_ns:
            self.slow.observed(session, took_ns, call)
        if self.traces is not None:
            self.traces.observed(session, took_ns, call)


NO_LOGS: Final = WorkerLogs()


def logs_of(config: Config, index: int, metrics: WorkerMetrics) -> WorkerLogs:
    """Of the worker with this number."""
    return WorkerLogs(
        _access_log(config, index, metrics),
        _slow_log(config, index, metrics),
        _audit_log(config, index, metrics),
        traces.opened(config, index, metrics),
        MostAsked(paths.tops(config, index), new_samples(), users=config.admin.show_users),
    )


def _access_log(config: Config, index: int, metrics: WorkerMetrics) -> AccessLog | None:
    settings = config.access_log
    if not settings.directory:
        return None
    file = LogFile(paths.access_log(config, index), max_bytes=settings.max_bytes, files=settings.files)
    return AccessLog(file, settings.sample, metrics)


def _slow_log(config: Config, index: int, metrics: WorkerMetrics) -> AccessLog | None:
    settings = config.slow_log
    if not settings.directory:
        return None
    file = LogFile(paths.slow_log(config, index), max_bytes=settings.max_bytes, files=settings.files)
    return AccessLog(file, 1.0, metrics, slower_than_ns=int(settings.threshold_s * 1e9))


def _audit_log(config: Config, index: int, metrics: WorkerMetrics) -> AuditLog | None:
    settings = config.audit_log
    if not settings.directory:
        return None
    file = LogFile(paths.audit_log(config, index), max_bytes=settings.max_bytes, files=settings.files)
    return AuditLog(file, metrics)
