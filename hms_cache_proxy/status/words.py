"""The keys of metrics and of /status, in words for people.

Job: one table for the status page and `hms-cache-proxy status`. docs/metrics.md has the long explanations. Must not
know: numbers. A key that is not here is shown with blanks instead of underscores.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hms_cache_proxy.plurals import counted

REASONS: Final[Mapping[str, str]] = {
    "": "no special reason",
    "address_busy": "its address has too many calls at the metastore",
    "absent": "does not exist, and cache_absent is off",
    "arguments": "arguments that the proxy does not answer for",
    "authorization": "the answer may depend on the user",
    "blocked": "a call about users or tokens that the proxy refuses",
    "bounded": "not confirmed within max_staleness_ms",
    "cache": "the cache cannot be read",
    "capabilities": "the answer depends on the client's capabilities",
    "collation": "the order depends on the database's collation",
    "events": "reads the notification log",
    "excluded": "left out by include or exclude",
    "expression_names": "an expression over the names of partitions",
    "expression_pushed": "an expression that the metastore pushes down",
    "fence": "being written, or not reloaded since",
    "filter_like": "a filter with LIKE",
    "filter_unsupported": "a filter that the proxy does not evaluate",
    "floor": "this client has seen something newer",
    "foreign_keys": "constraints that name other tables",
    "full": "no room in the cache",
    "location": "the metastore changes the location",
    "lock": "a lock",
    "login": "answered by the proxy, which knows the user",
    "materialized_view": "a materialized view",
    "name": "a missing or unusual name",
    "neutral": "never cached",
    "no_store": "store = none",
    "no_upstream": "no metastore can be reached",
    "no_write_id": "a transactional table, read without a write id list",
    "not_cached": "asked for the first time",
    "not_loaded": "not loaded yet",
    "not_recorded": "not in the recording",
    "order": "a list in the database's own order",
    "other_list": "recorded with another write id list",
    "outage": "answered during an outage of the metastore",
    "pattern": "a pattern whose meaning depends on the version",
    "peers": "another proxy is missing",
    "privileges": "privileges for each partition",
    "read_only": "writes are refused",
    "refused": "forbidden by [protection]",
    "release": "this version of the metastore answers differently",
    "remote": "behind a data connector",
    "serde": "columns that come from a serde",
    "session": "settings of a connection",
    "setmetaconf": "the connection changed metastore settings",
    "settings": "a setting of the metastore",
    "shared": "shared with an equal read",
    "spool_bytes": "no room for a long reply",
    "stale": "unconfirmed, during an outage",
    "starting": "the cache has not caught up since the start",
    "statistics": "statistics that the metastore aggregates",
    "strict": "a look at the database was not in time",
    "table_id": "a transactional table, without its id",
    "transaction": "a transaction",
    "transactional": "a transactional table of another catalog",
    "unconfirmed": "the follower has not confirmed the cache",
    "unfenced": "a write could not be recorded: the disk is full",
    "unknown_method": "a method that Hive does not have",
    "unlogged": "changes without an event",
    "unsettled": "changed while it was read",
    "user_busy": "its user has too many calls at the metastore",
    "upstream_busy": "all connections to the metastore stayed busy",
    "upstream_lost": "the metastore closed the connection",
    "upstream_protocol": "the metastore's reply breaks the protocol",
    "upstream_refused": "the metastore refused the HTTP request",
    "upstream_status": "the metastore answered with an HTTP status that is an error",
    "upstream_timeout": "the metastore did not answer in time",
    "verdict": "not compared for this user, or not equal",
    "variant": "fields that are unknown with store = thrift",
    "write_id": "a transactional table that has been written since",
}
"""Reasons of hms_proxy_requests_total."""

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
