"""Log lines that others can cause: of those that repeat, most are left out and only counted.

Job: an outage of the metastore, a client that breaks the protocol in a loop, or a peer that does not belong here and
dials again and again must not fill the log, or keep a process busy with writing it. Must not know: what is logged.
Owner: any process; one object for each part of it with separate topics.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic_ns
from typing import Final

import structlog

INTERVAL_S: Final = 1.0
TOPICS: Final = 1000
"""Topics that are remembered, such as the addresses of clients. Beyond so many, all are forgotten."""

log = structlog.get_logger()


@dataclass(slots=True)
class _Said:
    at_ns: int
    reason: object
    left_out: int = 0


class RateLimitedLog:
    """Logs a warning of each topic once in a while."""

    __slots__ = ("_clock_ns", "_interval_ns", "_said", "_same_ns")

    def __init__(
        self,
        *,
        interval_s: float = INTERVAL_S,
        same_reason_s: float | None = None,
        clock_ns: Callable[[], int] = monotonic_ns,
    ) -> None:
        """`interval_s`: between two warnings of a topic; `same_reason_s`: between two that have the same `reason` among
        their details, if that differs."""
        self._interval_ns = int(interval_s * 1e9)
        self._same_ns = self._interval_ns if same_reason_s is None else int(same_reason_s * 1e9)
        self._clock_ns = clock_ns
        self._said: dict[tuple[str, str], _Said] = {}

    def warn(self, event: str, topic: str, **details: object) -> None:
        """Log a warning, with the number of warnings of this event and topic that were left out since the last one; or
        leave it out."""
        now_ns, reason = self._clock_ns(), details.get("reason")
        said = self._said.get((event, topic))
        if said is not None:
            if now_ns - said.at_ns < (self._same_ns if said.reason == reason else self._interval_ns):
                said.left_out += 1
                return
            if said.left_out:
                details["left_out"] = said.left_out
        elif len(self._said) >= TOPICS:
            self._said.clear()
        self._said[event, topic] = _Said(now_ns, reason)
        log.warning(event, **details)
