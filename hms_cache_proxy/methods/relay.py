"""The dispatcher of a proxy that has no cache: every call is relayed.

Job: say of each call how it is relayed: its label, whether it may be sent again, whether it is a session call. Used
when there is no store and nothing else to follow. Must not know: the cache, the gate. Owner: the worker's loop.
"""

from __future__ import annotations

from dataclasses import replace

from . import effects
from .decision import BaseDispatcher, ClientCall, Forward
from .table import METHODS, OTHER_LABEL, MethodKind

SESSION_CALLS = frozenset(name.encode() for name, method in METHODS.items() if method.kind is MethodKind.SESSION)


class RelayDispatcher(BaseDispatcher):
    """Relays everything; `reason` is why. Nothing is cached, so nothing is fenced."""

    def __init__(self, reason: str) -> None:
        self._reason = reason
        self._known = {
            name.encode(): Forward(name, "relay", reason, retry=method.retry) for name, method in METHODS.items()
        }
        self._other = Forward(OTHER_LABEL, "relay", reason)

    def decide(self, call: ClientCall) -> Forward:
        """How the call is relayed."""
        name = call.header.name
        if name in SESSION_CALLS:
            return replace(effects.session_call(call), reason=self._reason)
        return self._known.get(name, self._other)
