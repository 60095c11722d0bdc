"""Declares every metric, for metrics.py, for the documents and for their test.

Must not know: how anything is counted. Owner: any process; no state.
"""

from __future__ import annotations

from typing import Literal, NamedTuple


class Metric(NamedTuple):
    """One row of the table: `kind` is counter, gauge or histogram, `owner` the process that counts."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    labels: tuple[str, ...]
    owner: Literal["worker", "follower", "peers", "supervisor"]
    help: str


TABLE: tuple[Metric, ...] = (
    Metric(
        "hms_proxy_requests_total",
        "counter",
        ("method", "outcome", "reason"),
        "worker",
        "Calls by method, outcome (hit, miss, relay, write, error) and the reason of the outcome.",
    ),
    Metric(
        "hms_proxy_request_seconds",
        "histogram",
        ("method", "outcome"),
        "worker",
        "Time from a complete request to the last byte of its reply.",
    ),
    Metric(
        "hms_proxy_upstream_seconds",
        "histogram",
        ("method",),
        "worker",
        "The part of hms_proxy_request_seconds that a relayed call spent at the metastore: from its first byte sent to"
        " the last byte of the reply, without the wait for a connection.",
    ),
    Metric("hms_proxy_connections", "gauge", (), "worker", "Client connections now."),
    Metric("hms_proxy_upstream_connections", "gauge", (), "worker", "Connections to metastores now."),
    Metric(
        "hms_proxy_upstream_circuit",
        "gauge",
        ("uri",),
        "worker",
        "Workers whose circuit for this metastore is open: it did not answer their probes, so calls go to others.",
    ),
    Metric("hms_proxy_accepted_total", "counter", (), "worker", "Client connections accepted."),
    Metric(
        "hms_proxy_refused_transports_total",
        "counter",
        ("transport",),
        "worker",
        "Connections closed because their first bytes belong to a transport that is not supported, or not among"
        " `security.transports`.",
    ),
    Metric(
        "hms_proxy_authorization_checks_total",
        "counter",
        ("result",),
        "worker",
        "Answers of the metastore to a user, with `authorization = learned`: equal to the cache's; different; refused;"
        " kept for this user, because the cache has none; too_large to be compared or kept.",
    ),
    Metric(
        "hms_proxy_authorization_verdicts",
        "gauge",
        (),
        "worker",
        "Verdicts that stand now, in all workers: what the cache may answer to whom (`authorization = learned`).",
    ),
    Metric(
        "hms_proxy_handshakes_total",
        "counter",
        ("transport", "result"),
        "worker",
        "Handshakes with clients: done, or failed (`hms_proxy_limits_broken_total` has those that were ended).",
    ),
    Metric(
        "hms_proxy_http_refused_total",
        "counter",
        ("status",),
        "worker",
        "HTTP requests that were refused, by status: 401 without a user that is believed, 400 malformed, 404 and 405 a"
        " path or method that is not served, 408 too slow, 413 and 431 too large.",
    ),
    Metric(
        "hms_proxy_tls_expiry_timestamp_seconds",
        "gauge",
        ("certificate",),
        "worker",
        "When the certificate for clients (`tls.certificate`) expires, in seconds since 1970.",
    ),
    Metric(
        "hms_proxy_reloads_total",
        "counter",
        ("what", "result"),
        "worker",
        "Files of `certificate`, `upstream_ca`, `keytab`, `token_keys`, `groups`, `passwords` or `jwks` that were"
        " loaded again, because they had changed or at SIGHUP, and reads of `jwks` at a URL: loaded, or failed (the old"
        " ones stay). `settings`: those that were changed at SIGHUP, or could not be read then.",
    ),
    Metric(
        "hms_proxy_limits_broken_total",
        "counter",
        ("limit",),
        "worker",
        "Connections closed because the client exceeded a limit, by the limit's key.",
    ),
    Metric(
        "hms_proxy_budget_bytes",
        "gauge",
        ("budget",),
        "worker",
        "Bytes of `limits.memory_bytes` and `limits.spool_bytes` that workers use now.",
    ),
    Metric("hms_proxy_budget_limit_bytes", "gauge", ("budget",), "worker", "Bytes that all workers together may use."),
    Metric(
        "hms_proxy_upstream_failures_total",
        "counter",
        ("kind",),
        "worker",
        "Failed connects (connect), dead connections (closed), time-outs (timeout), bad replies (protocol); over HTTP,"
        " answers with a status that says that the call was not done (refused), or with another one (status).",
    ),
    Metric(
        "hms_proxy_internal_errors_total",
        "counter",
        ("where",),
        "worker",
        "Errors in this program that it survived: a connection was closed, a step repeated, or a task started again.",
    ),
    Metric(
        "hms_proxy_peers",
        "gauge",
        ("state",),
        "peers",
        "Other proxies by state: followed, and its lease is here (leased); followed without a lease (connected); not"
        " followed (missing).",
    ),
    Metric(
        "hms_proxy_peer_ack_seconds",
        "histogram",
        (),
        "peers",
        "How long one other proxy takes to acknowledge what it is told before a write leaves.",
    ),
    Metric(
        "hms_proxy_peer_wait_seconds",
        "histogram",
        ("by",),
        "worker",
        "How long a write, or the reply of a lock or with event ids, waited until the other proxies knew of it: until"
        " the peers' process answered (process), or, without an answer, until all leases had run out (page).",
    ),
    Metric(
        "hms_proxy_access_log_lines_total",
        "counter",
        ("result",),
        "worker",
        "Lines of the access log and the slow log: written; dropped because they came faster than they could be written"
        " (overflow); or lost because the file could not be written (failed).",
    ),
    Metric(
        "hms_proxy_audit_log_lines_total",
        "counter",
        ("result",),
        "worker",
        "Lines of the audit log: written, dropped (overflow) or lost (failed), as for the access log.",
    ),
    Metric(
        "hms_proxy_traced_calls_total",
        "counter",
        ("result",),
        "worker",
        "Calls chosen for a trace: exported; not taken by the collector (failed); or without a trace because more were"
        " chosen than can be exported (overflow).",
    ),
    Metric("hms_proxy_cache_objects", "gauge", ("kind",), "follower", "Objects in the cache."),
    Metric("hms_proxy_cache_bytes", "gauge", (), "follower", "Bytes of the cache file that are in use."),
    Metric("hms_proxy_cursor_event_id", "gauge", (), "follower", "The last event whose changes are in the cache."),
    Metric("hms_proxy_upstream_event_id", "gauge", (), "follower", "The metastore's newest event."),
    Metric(
        "hms_proxy_event_lag_seconds",
        "gauge",
        (),
        "follower",
        "Time from the time stamp (whole seconds) of the newest followed event to its commit in the cache.",
    ),
    Metric(
        "hms_proxy_events_total",
        "counter",
        ("type", "result"),
        "follower",
        "Events followed, by type and result (applied, ignored, unknown, poison).",
    ),
    Metric("hms_proxy_prewarm_seconds", "gauge", (), "follower", "How long the last prewarm took."),
    Metric("hms_proxy_evictions_total", "counter", ("kind",), "follower", "Objects evicted to make room."),
    Metric(
        "hms_proxy_resets_total",
        "counter",
        ("reason",),
        "follower",
        "How often all entries were invalidated: because of a gap, a purged log, another database.",
    ),
    Metric(
        "hms_proxy_follower_steps_total",
        "counter",
        ("result",),
        "follower",
        "Steps of the follower by result (changed, idle, failed).",
    ),
    Metric("hms_proxy_follower_step_seconds", "histogram", (), "follower", "How long one step takes."),
    Metric(
        "hms_proxy_fences",
        "gauge",
        ("state",),
        "follower",
        "Fences now: of writes in flight (infinite), of finished writes that wait for their reload (finite), of writes"
        " of unknown outcome (unknown).",
    ),
    Metric(
        "hms_proxy_oldest_fence_seconds",
        "gauge",
        (),
        "follower",
        "Age of the oldest fence; at most three times `upstream_options.request_timeout_s` plus a reload.",
    ),
    Metric("hms_proxy_restarts_total", "counter", ("child",), "supervisor", "Children restarted after they died."),
    Metric(
        "hms_proxy_ttl_lookups_total",
        "counter",
        ("kind", "result"),
        "worker",
        "TTL mode: lookups by kind of entry and result (hit, refresh_due, miss).",
    ),
    Metric(
        "hms_proxy_ttl_loads_total",
        "counter",
        ("kind", "result"),
        "worker",
        "TTL mode: loads for a waiting reader, by kind and result (loaded, failed).",
    ),
    Metric("hms_proxy_ttl_load_seconds_total", "counter", ("kind",), "worker", "TTL mode: total time of the loads."),
    Metric(
        "hms_proxy_ttl_refreshes_total",
        "counter",
        ("kind", "result"),
        "worker",
        "TTL mode: loads in the background, by kind and result (loaded, failed).",
    ),
    Metric("hms_proxy_ttl_bytes", "gauge", ("kind",), "worker", "TTL mode: bytes of the entries of each kind."),
    Metric(
        "hms_proxy_ttl_over_column_limit_total",
        "counter",
        (),
        "worker",
        "TTL mode: partitions not cached because they have more columns than `ttl.partition_column_limit`.",
    ),
    Metric(
        "hms_proxy_ttl_validations_total",
        "counter",
        ("result",),
        "worker",
        "TTL mode: cached partitions compared with the metastore's answer (same, different).",
    ),
    Metric(
        "hms_proxy_recorded_total",
        "counter",
        ("result",),
        "worker",
        "Results of recorded reads: kept, too_large (over 64 MiB), lost (the file is full, or cannot be written).",
    ),
    Metric("hms_proxy_children", "gauge", ("child",), "supervisor", "Running child processes."),
    Metric(
        "hms_proxy_damaged_metric_files",
        "gauge",
        (),
        "supervisor",
        "Files of metrics that cannot be read. What they count is missing here until their process is started again.",
    ),
    Metric("hms_proxy_ready", "gauge", (), "supervisor", "1 if /readyz answers 200, else 0."),
    Metric(
        "hms_proxy_mode",
        "gauge",
        ("mode",),
        "supervisor",
        "1 for the mode that /status shows (cache, ttl, stale, relay, replay), 0 for the others.",
    ),
    Metric(
        "hms_proxy_process_resident_bytes",
        "gauge",
        ("process", "kind"),
        "supervisor",
        "Memory of each process: its own (private), and what it has touched of files that several map, such as the"
        " cache (shared).",
    ),
    Metric(
        "hms_proxy_process_cpu_seconds_total",
        "counter",
        ("process",),
        "supervisor",
        "Processor time of each process since it started.",
    ),
    Metric(
        "hms_proxy_info", "gauge", ("version",), "supervisor", "Always 1; the label is the version of this program."
    ),
)
