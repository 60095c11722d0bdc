"""The settings of what the proxy logs: the sections `[access_log]`, `[slow_log]`, `[audit_log]`, `[traces]` and
`[log]`.

Must not know: what the values are used for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hms_cache_proxy.config.fields import Section, setting
from hms_cache_proxy.config.ttl import Bytes


@dataclass(frozen=True)
class AccessLogSection(Section):
    directory: str = setting(
        "", description="Directory where each worker writes one line per call (access-N.jsonl); empty: no access log."
    )
    sample: float = setting(1.0, gt=0, le=1, description="Share of the calls that are logged.")
    max_bytes: Bytes = setting(256 << 20, ge=1 << 20, description="Size at which a worker begins a new file.")
    files: int = setting(4, ge=1, le=1000, description="Files kept for each worker, including the current one.")


@dataclass(frozen=True)
class SlowLogSection(Section):
    directory: str = setting(
        "", description="Directory where each worker writes a line for each slow call (slow-N.jsonl); empty: none."
    )
    threshold_s: float = setting(1.0, gt=0, description="Calls that take at least this long are slow.")
    max_bytes: Bytes = setting(64 << 20, ge=1 << 20, description="Size at which a worker begins a new file.")
    files: int = setting(4, ge=1, le=1000, description="Files kept for each worker, including the current one.")


@dataclass(frozen=True)
class AuditLogSection(Section):
    directory: str = setting(
        "", description="Directory where each worker writes who did what (audit-N.jsonl); empty: no audit log."
    )
    max_bytes: Bytes = setting(256 << 20, ge=1 << 20, description="Size at which a worker begins a new file.")
    files: int = setting(10, ge=1, le=10_000, description="Files kept for each worker, including the current one.")


@dataclass(frozen=True)
class TracesSection(Section):
    sample: float = setting(
        0.0,
        ge=0,
        le=1,
        description="Share of the calls other than hits that get a trace; 0 = none. They are sent to"
        " OTEL_EXPORTER_OTLP_ENDPOINT.",
    )
    sample_hits: float = setting(0.0, ge=0, le=1, description="Share of the hits that get a trace; 0 = none.")
    show_users: bool = setting(False, description="Whether traces name the users.")

    @property
    def wanted(self) -> bool:
        """Does any call get a trace?"""
        return self.sample > 0 or self.sample_hits > 0


@dataclass(frozen=True)
class LogSection(Section):
    level: Literal["debug", "info", "warning", "error"] = setting("info", description="Lowest level that is logged.")
    format: Literal["text", "json"] = setting("text", description="Lines of text, or one JSON object per line.")
