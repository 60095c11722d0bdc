"""The headers and the counters of hits.

Job: keep one label for each method and reason, made when it is first needed. Must not know: which reads are hits,
replies.
Owner: one per worker, on its loop.
"""

from __future__ import annotations

from hms_cache_proxy.cache.replies import HitLabel
from hms_cache_proxy.metrics import WorkerMetrics
from hms_cache_proxy.wire.message import MessageType, message_header

from .read_call import SEQID, ReadCall


class HitLabels:
    """The labels of a worker."""

    __slots__ = ("_known", "_metrics")

    def __init__(self, metrics: WorkerMetrics) -> None:
        self._metrics = metrics
        self._known: dict[tuple[bytes, str], HitLabel] = {}

    def of(self, call: ReadCall, reason: str) -> HitLabel:
        """The label of the hits of a read's method that have this reason."""
        name = call.request.header.name
        label = self._known.get((name, reason))
        if label is None:
            head, method = message_header(name, MessageType.REPLY, 0)[:-SEQID], call.plan.method.name
            label = self._known[name, reason] = HitLabel(
                head, self._metrics.slot(method, "hit", reason), method, reason
            )
        return label
