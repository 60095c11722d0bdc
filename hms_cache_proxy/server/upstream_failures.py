"""Decides what a failure of the metastore means for a request.

Job: decide whether the request is sent again or given up, how it ends, and whether the client's connection ends with
it. exchange.py acts. Must not know: connections, commands, how a failure is noticed.

Invariants
- A request is sent again only if it is a read and no byte of a reply has arrived: once, or once to each other
  metastore.
- A call whose only metastore hangs is given up only if it changes nothing, or was not sent. A write that was sent waits
  for its end.
- A failure before the first byte of the reply becomes a TApplicationException, and the client's connection stays
  usable. A failure after it closes the client's connection. If a metastore closes its connection instead of answering
  (as Hive does for some requests), the client's connection is closed too: that is the metastore's answer.
- After a session call of unknown outcome the client's identity is unknown, so its connection is closed.
Owner: none; no state.
"""

from __future__ import annotations

from typing import Final

from hms_cache_proxy.metrics import UpstreamFailure
from hms_cache_proxy.server.upstream_states import RelayedCall, Replaying, Sent, Streaming, UpstreamState

INSTEAD_OF_A_REPLY: Final[tuple[UpstreamFailure, ...]] = ("closed", "status")
"""Failures by which a metastore that is there ends a call without a reply."""

_ENDINGS: Final[dict[UpstreamFailure, tuple[str, str]]] = {
    "closed": ("upstream_lost", "closed the connection; it is not known whether the call was done"),
    "timeout": ("upstream_timeout", "did not answer; it is not known whether the call was done"),
    "protocol": ("upstream_protocol", "broke the protocol; it is not known whether the call was done"),
    "status": ("upstream_status", "did not answer with a reply; it is not known whether the call was done"),
    "refused": ("upstream_refused", "refuses the call, which was not done"),
}


def ending_of(kind: UpstreamFailure, uri: str, detail: str) -> tuple[str, str]:
    """How a call ends that was sent to this metastore: the reason, and what the client is told."""
    reason, text = _ENDINGS[kind]
    return reason, f"{uri} {text}: {detail}"


def was_sent(call: RelayedCall, state: UpstreamState) -> bool:
    """May a metastore have begun to execute the call?"""
    return call.attempt > 1 or isinstance(state, Sent)


def may_ask_again(state: Sent, metastores: int) -> bool:
    """May the request be sent again? It changes nothing, no byte of a reply has arrived, a metastore is left."""
    forward = state.call.forward
    harmless = forward.retry or forward.offline is not None  # the effect of set_ugi ends with its connection
    return harmless and not state.reply.seen and state.call.attempt < max(2, metastores)


def may_give_up(state: Replaying | Sent) -> bool:
    """May the call end without the metastore's word? It changes nothing, or it was not sent."""
    return (state.call.forward.retry and not state.reply.seen) or isinstance(state, Replaying)


def closes_client(call: RelayedCall, state: UpstreamState, *, sent: bool, passed_on: bool) -> bool:
    """Must the client's connection be closed? `sent`: the call may have been done; `passed_on`: bytes of the reply have
    gone to the client."""
    return (isinstance(state, Streaming) and passed_on) or (call.forward.replay and sent)
