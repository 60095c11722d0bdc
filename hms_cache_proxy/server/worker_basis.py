"""What all parts of a worker are built on: its metrics, the metastores, its budgets, its logs.

Job: make these from the settings. Must not know: caches, dispatchers, connections. Owner: the process.
"""

from __future__ import annotations

from typing import NamedTuple

import structlog

from hms_cache_proxy.budget import Budgets
from hms_cache_proxy.config import Config
from hms_cache_proxy.metrics import WorkerMetrics
from hms_cache_proxy.security.metastore_security import towards_metastores
from hms_cache_proxy.server.worker_logs import NO_LOGS, WorkerLogs, logs_of
from hms_cache_proxy.upstream.delegation import Delegation
from hms_cache_proxy.upstream.endpoints import Endpoints

log = structlog.get_logger()


class WorkerBasis(NamedTuple):
    """What all parts of a worker are built on."""

    metrics: WorkerMetrics
    endpoints: Endpoints
    budgets: Budgets
    logs: WorkerLogs = NO_LOGS


def basis_of(config: Config, index: int, metrics: WorkerMetrics) -> WorkerBasis:
    """Of the worker with this number."""
    return WorkerBasis(metrics, _endpoints_of(config), _budgets_of(config), logs_of(config, index, metrics))


def _budgets_of(config: Config) -> Budgets:
    """The budgets of the worker; logs settings that are larger than their budget."""
    limits = config.limits
    for setting, size, budget, total in (
        ("limits.max_message_bytes", limits.max_message_bytes, "limits.spool_bytes", limits.spool_bytes),
        ("replies.max_entry_bytes", config.replies.max_entry_bytes, "limits.memory_bytes", limits.memory_bytes),
    ):
        if size > total:
            log.warning("a setting is larger than its budget", setting=setting, size=size, budget=budget, limit=total)
    return Budgets(limits.memory_bytes, limits.spool_bytes)


def _endpoints_of(config: Config) -> Endpoints:
    """The metastores, and who logs in there."""
    in_turn = config.upstream_options.choice == "round_robin"
    towards = towards_metastores(config)
    endpoints = Endpoints(config.upstream, towards, in_turn=in_turn)
    if towards.logins is not None and config.security.upstream_identity == "delegate":
        endpoints.act_for_users(Delegation(towards, config.upstream_options.connect_timeout_s))
    return endpoints
