"""The keys of metrics and of /status, in words for people.

Job: say what the status page and `hms-cache-proxy status` show in place of a key; docs/metrics.md has the long
explanations. Must not know: numbers. A key that is not here is shown with blanks instead of underscores.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hms_cache_proxy.plurals import counted
from hms_cache_proxy.status.other_reasons import OTHERS
from hms_cache_proxy.status.reasons import MISSES

REASONS: Final[Mapping[str, str]] = {"": "no special reason"} | {
    str(one.label): one.words for one in (*MISSES, *OTHERS)
}
"""Reasons of hms_proxy_requests_total (reasons.py, other_reasons.py)."""

OBJECTS: Final[Mapping[str, tuple[str, str]]] = {
    "databases": ("database", "databases"),
    "tables": ("table", "tables"),
    "partitions": ("partition", "partitions"),
    "transactional_tables": ("transactional table", "transactional tables"),
    "tables_being_written": ("table being written", "tables being written"),
}
"""`objects` of /status: one of them, and several."""

INCIDENTS: Final[Mapping[tuple[str, str], str]] = {
    ("hms_proxy_upstream_failures_total", "connect"): "a connection to the metastore failed",
    ("hms_proxy_upstream_failures_total", "closed"): "the metastore closed a connection",
    ("hms_proxy_upstream_failures_total", "timeout"): "the metastore did not answer in time",
    ("hms_proxy_upstream_failures_total", "protocol"): "the metastore sent a reply that breaks the protocol",
    ("hms_proxy_upstream_failures_total", "refused"): "the metastore refused an HTTP request",
    ("hms_proxy_upstream_failures_total", "status"): "the metastore answered with an HTTP status that is an error",
    ("hms_proxy_resets_total", "first_start"): "everything is loaded: this is the first start",
    ("hms_proxy_resets_total", "event_id_went_back"): "everything is loaded again: the event id went back",
    ("hms_proxy_resets_total", "other_history"): "everything is loaded again: the database has another history",
    ("hms_proxy_resets_total", "log_purged"): "everything is loaded again: the log was purged before it was read",
    ("hms_proxy_resets_total", "gap_in_log"): "everything is loaded again: the log has a gap",
    ("hms_proxy_resets_total", "everything_changed"): "everything is loaded again: an event concerns everything",
    ("hms_proxy_resets_total", "backlog"): "everything is loaded again: that is faster than to follow the log",
    ("hms_proxy_resets_total", "not_followed"): "everything is loaded again: the log was not followed for a while",
}
"""What happened, by metric and label."""


def reason(key: str) -> str:
    return REASONS.get(key, key.replace("_", " "))


def objects(numbers: Mapping[str, int]) -> str:
    """`1 database, 20 tables`, without what there is none of except tables."""
    said = []
    for key, number in numbers.items():
        one, several = OBJECTS.get(key, (key, key))
        if number or key in ("databases", "tables"):
            said.append(counted(number, one, several))
    return ", ".join(said)


def incident(metric: str, label: str) -> str:
    known = INCIDENTS.get((metric, label))
    if known is not None:
        return known
    kind = metric.removeprefix("hms_proxy_").removesuffix("_total").replace("_", " ")
    if metric == "hms_proxy_requests_total":
        return f"a call failed: {reason(label)}"
    return {
        "hms_proxy_internal_errors_total": f"an error in the proxy itself ({label}): see its log",
        "hms_proxy_limits_broken_total": f"a client was closed: it exceeded {label}",
        "hms_proxy_restarts_total": f"a process was restarted: {label}",
    }.get(metric, f"{kind}: {label}")
