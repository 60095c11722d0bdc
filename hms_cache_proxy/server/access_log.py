"""The access log of one worker: a line for each counted call, written in the background. The slow log is of the same
class.

Job: record a call (well under a microsecond). Must not know: what a line contains (access_lines.py), how lines are
written (line_log.py). Owner: the worker's event loop.
"""

from __future__ import annotations

from random import random

from hms_cache_proxy.cache.replies import HitLabel
from hms_cache_proxy.methods.decision import ClientSession
from hms_cache_proxy.metrics import WorkerMetrics
from hms_cache_proxy.server.access_lines import HEAD_BYTES, LineFormatter, LoggedCall, Waiting, head_of
from hms_cache_proxy.server.commands import Observe
from hms_cache_proxy.server.line_log import WAITING_ITEMS, LineLog, LogKind
from hms_cache_proxy.server.log_file import LogFile


class AccessLog(LineLog[Waiting]):
    """Calls in, lines out."""

    def __init__(
        self,
        file: LogFile,
        sample: float,
        metrics: WorkerMetrics,
        *,
        most: int = WAITING_ITEMS,
        slower_than_ns: int = 0,
    ) -> None:
        """`sample`: the share of calls that get a line, chosen at random; `most`: calls that may wait;
        `slower_than_ns`: this is the slow log, in which only calls that take at least so long get a line."""
        self.slower_than_ns = slower_than_ns
        self._sample = sample
        lines = LineFormatter(sample, upstream=slower_than_ns > 0)
        name = "slow log" if slower_than_ns else "access log"
        super().__init__(LogKind(name, most), file, lines, metrics.access_logged)

    def hit(
        self, arrived_ns: int, took_ns: int, reply: bytes, session: ClientSession, message: bytes, label: HitLabel
    ) -> None:
        """A call that the hot path answered."""
        if self._sample < 1.0 and random() >= self._sample:
            return
        if len(self._waiting) >= self._most:
            self._overflow += 1
            return
        head = message[:HEAD_BYTES]
        self._waiting.append(Waiting(arrived_ns, took_ns, len(reply), session.peer, session.identity, head, label))

    def observed(self, session: ClientSession, took_ns: int, observed: Observe) -> None:
        """Any other call, when it is over."""
        if self._sample < 1.0 and random() >= self._sample:
            return
        if len(self._waiting) >= self._most:
            self._overflow += 1
            return
        self._waiting.append(waiting(session, took_ns, observed))


def waiting(session: ClientSession, took_ns: int, observed: Observe) -> Waiting:
    """A call that the hot path has not answered, as its line or its span needs it."""
    request = observed.request
    head, complete = head_of(request)
    call = LoggedCall(
        observed.label,
        observed.outcome,
        observed.reason,
        body=request.header.body,
        complete=complete,
        upstream_ns=observed.upstream_ns,
        asked_ns=observed.asked_ns,
    )
    return Waiting(observed.began_ns, took_ns, observed.reply_bytes, session.peer, session.identity, head, call)
