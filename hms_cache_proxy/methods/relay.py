"""The dispatcher of a proxy that has no cache: every call is relayed.

Job: say of each call how it is relayed: its label, whether it may be sent again, whether it is a session call. Used
when there is no store and nothing else to follow. Must not know: the cache, the gate. Owner: the worker's loop.
"""

from __future__ import annotations

from dataclasses import replace

from hms_cache_proxy.methods.decision import BaseDecider, ClientSession, Forward
from hms_cache_proxy.wire.message import Header

from . import effects
from .table import METHODS, OTHER_LABEL, MethodKind

SESSION_CALLS = frozenset(name.encode() for name, method in METHODS.items() if method.kind is MethodKind.SESSION)


class RelayDispatcher(BaseDecider):
    """Relays everything; `reason` is why. Nothing is cached, so nothing is fenced."""

    def __init__(self, reason: str) -> None:
        self._reason = reason
        self._known = {
            name.encode(): Forward(name, "relay", reason, retry=method.retry) for name, method in METHODS.items()
        }
        self._other = Forward(OTHER_LABEL, "relay", reason)

    def decide(
        self,
        session: ClientSession,
        header: Header,
        message: bytes,
        now_ns: int,
        *,
        complete: bool = True,
        patient: bool = False,
    ) -> Forward:
        """How the call is relayed."""
        if header.name in SESSION_CALLS:
            call = effects.session_call(session, header.name.decode(), header, message)
            return replace(call, reason=self._reason)
        return self._known.get(header.name, self._other)
