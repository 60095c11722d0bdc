"""Reads what all workers have counted since the proxy started, from their metric files.

Job: make totals of calls by method, outcome and reason, and of times, for /status and for the history. It reads the
files of prometheus_client directly: to render and parse all of /metrics takes ten times as long. Must not know: what is
done with the totals. Owner: a thread of the supervisor, one at a time.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, TypeVar

from hms_cache_proxy.metric_files import stored_values
from hms_cache_proxy.metrics import BOUNDS
from hms_cache_proxy.status import words

MOST_REASONS = 12
MOST_COUNTED = 1e15  # more, or less than nothing, is damage
REMEMBERED_KEYS = 50_000  # twice what two workers with every method and outcome have


T = TypeVar("T")


class FileKey(NamedTuple):
    """One value in a file: the metric, its labels, and the place of its bucket."""

    metric: str
    method: str
    outcome: str
    reason: str
    bucket: int


def _of_floats() -> defaultdict[T, float]:
    return defaultdict(float)


@dataclass(slots=True)
class CallTotals:
    """Numbers since the start of the proxy. They only grow, unless a file is damaged."""

    calls: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    """By method, outcome and reason."""

    seconds: defaultdict[tuple[str, str], float] = field(default_factory=_of_floats)
    """Time of the calls, by method and outcome."""

    upstream_calls: Counter[str] = field(default_factory=Counter)
    """Calls that the metastore answered, by method."""

    upstream_seconds: defaultdict[str, float] = field(default_factory=_of_floats)
    hit_buckets: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    """How many hits took no longer than each of BOUNDS, and longer than the one before."""

    upstream_buckets: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    incidents: Counter[tuple[str, str]] = field(default_factory=Counter)
    """What went wrong how often, by metric and its label."""

    def by_outcome(self) -> Counter[str]:
        return _sums((outcome, count) for (_, outcome, _), count in self.calls.items())

    def by_reason(self) -> Counter[tuple[str, str]]:
        """Calls that were not hits, by outcome and reason."""
        return _sums(((outcome, reason), n) for (_, outcome, reason), n in self.calls.items() if outcome != "hit")

    def facts(self) -> dict[str, object]:
        """`calls` of /status."""
        by_outcome, reasons = self.by_outcome(), self.by_reason().most_common(MOST_REASONS)
        hits, misses = by_outcome["hit"], by_outcome["miss"]
        return {
            "total": by_outcome.total(),
            "hits": hits,
            "misses": misses,
            "relays": by_outcome["relay"],
            "writes": by_outcome["write"],
            "errors": by_outcome["error"],
            "hit_ratio": hits / (hits + misses) if hits + misses else None,
            "upstream_seconds": round(sum(self.upstream_seconds.values()), 3),
            "seconds_saved": round(self.seconds_saved(), 3),
            "reasons": [
                {"outcome": outcome, "reason": reason, "words": words.reason(reason), "calls": number}
                for (outcome, reason), number in reasons
            ],
        }

    def seconds_saved(self) -> float:
        """An estimate: for each hit, the metastore's mean time for calls of its method, less the time of the hit.
        Methods that the metastore was never asked for count as nothing."""
        hits = _sums((method, count) for (method, outcome, _), count in self.calls.items() if outcome == "hit")
        saved = 0.0
        for method, number in hits.items():
            if self.upstream_calls[method]:
                mean = self.upstream_seconds[method] / self.upstream_calls[method]
                saved += max(0.0, number * mean - self.seconds[method, "hit"])
        return saved


def _sums(pairs: Iterator[tuple[T, int]]) -> Counter[T]:
    sums: Counter[T] = Counter()
    for key, number in pairs:
        sums[key] += number
    return sums


def read_totals(directory: Path) -> CallTotals:
    """The totals in the metric files of the workers, which may be writing them: a value may be a second old."""
    totals = CallTotals()
    for pattern in ("counter_*.db", "histogram_worker-*.db"):
        for file in sorted(directory.glob(pattern)):
            for key, value in _values(file):
                _add(totals, key, value)
    return totals


def _values(file: Path) -> list[tuple[FileKey, float]]:
    """What this file has for the totals; nothing if it is damaged."""
    try:
        rows = [(_parsed(text), value) for text, value in stored_values(file) or ()]
    except (ValueError, LookupError, TypeError):  # a text that is no key of ours
        return []
    return [(key, value) for key, value in rows if key is not None and 0 < value < MOST_COUNTED]


def _add(totals: CallTotals, key: FileKey, value: float) -> None:
    metric, method, outcome, reason, bucket = key
    if metric in _INCIDENTS:
        totals.incidents[metric, reason] += int(value)
    elif metric == "hms_proxy_requests_total":
        totals.calls[method, outcome, reason] += int(value)
        if outcome == "error":
            totals.incidents[metric, reason] += int(value)
    elif metric == "hms_proxy_request_seconds_sum":
        totals.seconds[method, outcome] += value
    elif metric == "hms_proxy_request_seconds_bucket":
        if outcome == "hit":
            totals.hit_buckets[bucket] += int(value)
    elif metric == "hms_proxy_upstream_seconds_sum":
        totals.upstream_seconds[method] += value
    else:
        totals.upstream_calls[method] += int(value)
        totals.upstream_buckets[bucket] += int(value)


_INCIDENTS = {
    "hms_proxy_upstream_failures_total": "kind",
    "hms_proxy_internal_errors_total": "where",
    "hms_proxy_limits_broken_total": "limit",
    "hms_proxy_resets_total": "reason",
}
"""Counters of what went wrong, and their label, which a FileKey has as its reason."""

_METRICS = frozenset(
    {
        "hms_proxy_requests_total",
        "hms_proxy_request_seconds_sum",
        "hms_proxy_request_seconds_bucket",
        "hms_proxy_upstream_seconds_sum",
        "hms_proxy_upstream_seconds_bucket",
    }
)


@lru_cache(REMEMBERED_KEYS)
def _parsed(text: str) -> FileKey | None:
    """What a key of a file means; None if it is of another metric."""
    _, metric, labels, _ = json.loads(text)
    if metric in _INCIDENTS:
        return FileKey(metric, "", "", labels[_INCIDENTS[metric]], 0)
    if metric not in _METRICS:
        return None
    bound = labels.get("le")
    bucket = len(BOUNDS) if bound in (None, "+Inf") else BOUNDS.index(float(bound))
    return FileKey(metric, labels["method"], labels.get("outcome", ""), labels.get("reason", ""), bucket)


def quantile(buckets: list[int], share: float) -> float | None:
    """The time in seconds that this share of the calls did not exceed, interpolated within its bucket; None without
    calls. Beyond the last bound, the last bound."""
    wanted = share * sum(buckets)
    if not wanted:
        return None
    below = 0
    for number, count in enumerate(buckets[: len(BOUNDS)]):
        if count and below + count >= wanted:
            least = BOUNDS[number - 1] if number else 0.0
            return least + (BOUNDS[number] - least) * (wanted - below) / count
        below += count
    return BOUNDS[-1]
