"""Traces of one worker: which calls become spans, and when.

Job: choose calls at random, keep what their spans need, and once a second have the spans made (spans.py), in slices of
the loop's time. Must not know: OpenTelemetry, which is an extra and is loaded only if traces are on.

Invariants: a trace never delays a call or makes it fail. Memory is bounded: if MOST_CALLS wait, or the SDK's queue is
full of spans, further calls get no span, and are counted. Spans are exported in the SDK's own thread; a collector that
does not answer costs spans, nothing else.
Owner: the worker's event loop.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from random import random
from time import monotonic_ns, time_ns
from typing import TYPE_CHECKING, Final

import structlog

from hms_cache_proxy.cache.replies import HitLabel
from hms_cache_proxy.config import Config
from hms_cache_proxy.config.logs import TracesSection
from hms_cache_proxy.errors import ConfigError
from hms_cache_proxy.methods.decision import ClientSession
from hms_cache_proxy.metrics import WorkerMetrics
from hms_cache_proxy.server.access_lines import HEAD_BYTES, Waiting
from hms_cache_proxy.server.access_log import waiting
from hms_cache_proxy.server.commands import Observe
from hms_cache_proxy.server.line_log import SLICE_NS

if TYPE_CHECKING:
    from hms_cache_proxy.server.spans import SpanMaker

MOST_CALLS: Final = 1000  # between two flushes, which are a second apart
CLOSE_S: Final = 1.0  # for the last spans: within the supervisor's DRAIN_GRACE_S
_KEY = "traces.sample"

log = structlog.get_logger()


class Traces:
    """Calls in, spans out."""

    def __init__(self, settings: TracesSection, spans: SpanMaker, metrics: WorkerMetrics) -> None:
        self.of_hits = settings.sample_hits > 0
        self._sample = settings.sample
        self._sample_hits = settings.sample_hits
        self._spans = spans
        self._metrics = metrics
        self._waiting: deque[tuple[Waiting, float]] = deque()
        self._left_out = 0
        self._on_their_way = 0  # spans

    def hit(
        self, arrived_ns: int, took_ns: int, reply: bytes, session: ClientSession, message: bytes, label: HitLabel
    ) -> None:
        """A call that the hot path answered."""
        if random() < self._sample_hits:
            head = message[:HEAD_BYTES]
            call = Waiting(arrived_ns, took_ns, len(reply), session.peer, session.identity, head, label)
            self._keep(call, self._sample_hits)

    def observed(self, session: ClientSession, took_ns: int, observed: Observe) -> None:
        """Any other call, when it is over."""
        share = self._sample_hits if observed.outcome == "hit" else self._sample
        if random() < share:
            self._keep(waiting(session, took_ns, observed), share)

    def _keep(self, call: Waiting, share: float) -> None:
        if len(self._waiting) < MOST_CALLS:
            self._waiting.append((call, share))
        else:
            self._left_out += 1

    async def flush(self) -> None:
        """Make spans of what waits, and count what became of earlier ones."""
        self._count()
        offset_ns = time_ns() - monotonic_ns()
        until_ns = monotonic_ns() + SLICE_NS
        while self._waiting:
            call, share = self._waiting.popleft()
            if self._on_their_way + 2 > self._spans.most:
                self._left_out += 1
            else:
                self._on_their_way += self._spans.make(call, share, offset_ns)
            if monotonic_ns() >= until_ns:
                await asyncio.sleep(0)
                until_ns = monotonic_ns() + SLICE_NS

    def _count(self) -> None:
        left_out, self._left_out = self._left_out, 0
        self._metrics.traced("overflow", left_out)
        while self._spans.fates:
            fate = self._spans.fates.popleft()
            self._metrics.traced(fate.result, fate.calls)
            self._on_their_way -= fate.spans

    async def close(self) -> None:
        """Export the last spans, for CLOSE_S at most."""
        await self.flush()
        await asyncio.to_thread(self._spans.close, CLOSE_S)
        self._count()
        if self._on_their_way:
            log.warning("the last traces could not be exported in time", spans=self._on_their_way)


def opened(config: Config, worker: int, metrics: WorkerMetrics) -> Traces | None:
    """The traces of a worker; None if there are none."""
    if not _on(config):
        return None
    from hms_cache_proxy.server.spans import SpanMaker  # needs packages that not everybody has

    return Traces(config.traces, SpanMaker(worker, show_users=config.traces.show_users), metrics)


def check(config: Config) -> None:
    """ConfigError if traces are on and a package is missing, or a variable of the SDK has a wrong value."""
    if not _on(config):
        return
    try:
        from hms_cache_proxy.server.spans import SpanMaker
    except ImportError as error:
        text = f"{_KEY}: traces need more packages: pip install 'hms-cache-proxy[otel]'"
        raise ConfigError(text) from error
    try:
        SpanMaker(0, show_users=False).close(CLOSE_S)
    except ValueError as error:
        raise ConfigError(f"{_KEY}: a variable OTEL_... has a wrong value: {error}") from error


def _on(config: Config) -> bool:
    return config.traces.wanted and os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() != "true"
