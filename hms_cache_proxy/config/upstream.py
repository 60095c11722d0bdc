"""The settings of connections to metastores: the section `[upstream_options]`.

Must not know: how a connection is opened (upstream/).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hms_cache_proxy.config.fields import Section, setting


@dataclass(frozen=True)
class UpstreamOptionsSection(Section):
    """`[upstream_options]`."""

    choice: Literal["in_order", "round_robin"] = setting(
        "in_order",
        description="Which metastore a new connection goes to: the first of `upstream` that works, or each that works"
        " in turn.",
    )
    connect_timeout_s: float = setting(
        5, gt=0, description="Time to connect to one metastore before the next is tried."
    )
    request_timeout_s: float = setting(
        600,
        gt=0,
        description="Longest wait for an answer; a write of unknown outcome stays fenced for as long.",
    )
    idle_timeout_s: float = setting(
        30,
        ge=0,
        description="A client's connection to a metastore is closed after this long without a call; 0 = never. The"
        " next call opens another, and repeats the session calls on it.",
    )
    max_connections: int = setting(
        0,
        ge=0,
        description="Maximum connections of one worker's clients to one metastore; further calls wait in order; 0 = no"
        " limit.",
    )
    queue_timeout_s: float = setting(
        10, gt=0, description="How long a call waits for one of `max_connections` before it fails."
    )

    @property
    def request_timeout_ns(self) -> int:
        """`request_timeout_s` for clocks in nanoseconds."""
        return int(self.request_timeout_s * 1e9)
