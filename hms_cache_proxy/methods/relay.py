"""The dispatcher of a proxy that has no cache: every call is relayed.

Job: for each relayed call: its label, whether it may be sent again, whether it is a session call. Used when there is no
store and nothing else to follow. Must not know: the cache, the gate. Owner: the worker's loop.
"""

from __future__ import annotations

from dataclasses import replace

from hms_cache_proxy.methods.decision import BaseDecider, ClientSession, Forward, Serve
from hms_cache_proxy.wire.message import Header
from hms_cache_proxy.wire.spec import METHODS

from . import effects

OTHER = "other"  # label of methods that no known Hive has: clients must not be able to make labels
SESSION_CALLS = frozenset({b"set_ugi", b"setMetaConf"})
# Named like reads, but they change something.
_NOT_READS = frozenset(
    {b"get_lock_materialization_rebuild", b"get_lock_materialization_rebuild_req", b"get_delegation_token"}
)


class RelayDispatcher(BaseDecider):
    """Relays everything; `reason` is why. Nothing is cached, so nothing is fenced."""

    def __init__(self, reason: str) -> None:
        self._reason = reason
        self._known: dict[bytes, Forward] = {}
        self._other = Forward(label=OTHER, outcome="relay", reason=reason)
        for name in METHODS:
            encoded = name.encode()
            self._known[encoded] = Forward(
                label=name,
                outcome="relay",
                reason=reason,
                retry=encoded.startswith(b"get") and encoded not in _NOT_READS,
            )

    def decide(
        self,
        session: ClientSession,
        header: Header,
        message: bytes,
        now_ns: int,
        *,
        complete: bool = True,
        patient: bool = False,
    ) -> Serve | Forward:
        """Forward."""
        if header.name in SESSION_CALLS:
            call = effects.session_call(session, header.name.decode(), header, message)
            return replace(call, reason=self._reason)
        return self._known.get(header.name, self._other)
