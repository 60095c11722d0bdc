"""The audit log of one worker: who called what with which result, logins, and what was refused.

Job: record these, and have them written in the background (line_log.py). Must not know: what a line contains
(audit_lines.py).
Invariant: what waits for the next flush is bounded in number and bytes. Calls beyond that are counted, and a line in
the file says how many are missing.
Owner: the worker's event loop.
"""

from __future__ import annotations

from time import monotonic_ns
from typing import Final

from hms_cache_proxy.cache.replies import HitLabel
from hms_cache_proxy.methods.decision import ClientSession
from hms_cache_proxy.metrics import WorkerMetrics
from hms_cache_proxy.server.audit_lines import (
    REPLY_BYTES,
    REQUEST_BYTES,
    AuditedCall,
    AuditedEvent,
    AuditKind,
    AuditLines,
)
from hms_cache_proxy.server.commands import Observe
from hms_cache_proxy.server.line_log import WAITING_ITEMS, LineLog, LogKind
from hms_cache_proxy.server.log_file import LogFile

WAITING_BYTES: Final = 64 << 20  # of requests, and of what is said about other events
_KIND: Final = LogKind("audit log", per_look=4)

Audited = AuditedCall | AuditedEvent


class AuditLog(LineLog[Audited]):
    """Calls and other events in, lines out."""

    def __init__(self, file: LogFile, metrics: WorkerMetrics, *, most: int = WAITING_ITEMS) -> None:
        self._audit_lines = AuditLines()
        super().__init__(LogKind(_KIND.name, most, _KIND.per_look), file, self._audit_lines, metrics.audit_logged)
        self._bytes = 0

    def hit(
        self, arrived_ns: int, took_ns: int, reply: bytes, session: ClientSession, message: bytes, label: HitLabel
    ) -> None:
        """A call that the hot path answered."""
        self._record(arrived_ns, session, message, whole=True, ended=(reply, "hit", label.reason))

    def observed(self, session: ClientSession, observed: Observe) -> None:
        """Any other call, when it is over."""
        request = observed.request
        reply = observed.reply if request.answered else b""
        ended = reply, observed.outcome, observed.reason
        self._record(observed.began_ns, session, request.message, whole=request.spool is None, ended=ended)

    def _record(
        self, arrived_ns: int, session: ClientSession, message: bytes, *, whole: bool, ended: tuple[bytes, str, str]
    ) -> None:
        head = message[:REQUEST_BYTES]
        reply, outcome, reason = ended
        call = AuditedCall(
            arrived_ns,
            peer=session.peer,
            transport=session.transport,
            known_by=session.known_by,
            identity=session.identity,
            message=head,
            complete=whole and len(head) == len(message),
            reply=reply[:REPLY_BYTES],
            outcome=outcome,
            reason=reason,
        )
        self._add(call, len(head))

    def event(self, event: AuditKind, peer: str, transport: str, **details: str | int | None) -> None:
        """Something that is not a call."""
        size = sum(len(said) for said in details.values() if isinstance(said, str))  # some of it is from the client
        self._add(AuditedEvent(monotonic_ns(), event, {"client": peer, "transport": transport, **details}), size)

    def _add(self, item: Audited, size: int) -> None:
        if len(self._waiting) >= self._most or self._bytes + size > WAITING_BYTES:
            self._overflow += 1
            return
        self._bytes += size
        self._waiting.append(item)

    def _gap(self) -> str:
        return self._audit_lines.gap({str(why): lines for why, lines in self._missing.items()})

    async def flush(self) -> None:
        self._bytes = 0  # so there may be twice as many while lines are written
        await super().flush()


def transport_name(speaks: str, *, over_tls: bool) -> str:
    """As `security.transports` names it. `speaks`: plain, sasl or http."""
    if not over_tls:
        return speaks
    return "tls" if speaks == "plain" else f"tls+{speaks}"
