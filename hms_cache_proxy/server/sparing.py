"""Rate limit for log lines that a peer can cause: one per second for each topic; the others are only counted.

Job: an outage of the metastore, or a client that breaks the protocol in a loop, must not fill the log or keep a
worker's loop busy with writing it. Must not know: what is logged. Owner: the worker's event loop.
"""

from __future__ import annotations

from time import monotonic_ns

import structlog

INTERVAL_NS = 1_000_000_000
TOPICS = 1000  # such as a client address; beyond so many, all are forgotten

log = structlog.get_logger()


class SparingLog:
    """Each part of a worker with separate topics has one."""

    __slots__ = ("_said",)

    def __init__(self) -> None:
        self._said: dict[tuple[str, str], list[int]] = {}  # when it was logged, and how often it was left out since

    def say(self, event: str, topic: str, **details: str) -> None:
        """Log a warning, with the number of warnings of its topic that were left out since the last one."""
        now_ns = monotonic_ns()
        if len(self._said) > TOPICS:
            self._said.clear()
        said = self._said.setdefault((event, topic), [0, 0])
        if said[0] and now_ns - said[0] < INTERVAL_NS:
            said[1] += 1
            return
        if said[1]:
            details["left_out"] = str(said[1])
        said[:] = [now_ns, 0]
        log.warning(event, **details)
