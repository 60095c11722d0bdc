"""Reports logins with SASL.

Job: write a line to the log and to the audit log for each login and for each refusal: who, from where, how, and why
not. The lines have no secrets. Both are counted. Must not know: how a login is done. Owner: the worker's loop.
"""

from __future__ import annotations

from collections.abc import Mapping

import structlog

from hms_cache_proxy.metrics import WorkerMetrics
from hms_cache_proxy.security.mechanism import Admitted, LoginRefused
from hms_cache_proxy.server.audit_log import AuditLog
from hms_cache_proxy.wire.sasl import Layers, named_layers

log = structlog.get_logger()


class LoginReports:
    """One per worker."""

    def __init__(self, metrics: WorkerMetrics, audit_log: AuditLog | None) -> None:
        self._metrics = metrics
        self._audit_log = audit_log

    def done(
        self, peer: str, transport: str, login: Admitted, layer: Layers, details: Mapping[str, str | int | None]
    ) -> None:
        """A client is let in. `details`: more about who it is."""
        self._metrics.handshake("sasl", "done")
        user = login.user or None
        log.info("login", mechanism=login.how, **details, user=user, protection=named_layers(layer), peer=peer)
        if self._audit_log is not None:
            self._audit_log.event("login", peer, transport, mechanism=login.how, user=user, **details)

    def refused(self, peer: str, transport: str, mechanism: str, error: Exception) -> None:
        """A client is not let in, or has gone."""
        self._metrics.handshake("sasl", "failed")
        why = error.detail if isinstance(error, LoginRefused) else str(error)
        log.warning("login refused", mechanism=mechanism or None, peer=peer, why=why)
        if self._audit_log is not None:
            self._audit_log.event("login_refused", peer, transport, mechanism=mechanism or None, why=why)
