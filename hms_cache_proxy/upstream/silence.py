"""Decides whether to give up a call because its metastore hangs and there is no other.

Job: make this one decision. A call may take long, and usually only the request timeout ends it. But if nothing has been
received from the metastore since the call was sent, neither on this worker's other connections nor by probes on
separate connections, then it is the metastore that hangs. Must not know calls.

A call is never given up if, after it was sent, a probe was answered or a byte was received on any connection. Nor is a
call to a metastore that refuses connections, which may be shutting down and still finish the call. Owner: one per
worker, on its loop; no state.
"""

from __future__ import annotations

from typing import Final

from hms_cache_proxy.upstream.endpoints import Endpoint

SILENT_NS: Final = 30_000_000_000  # longer than any pause of a metastore that is worth waiting for


def hangs(endpoint: Endpoint, since_ns: int, now_ns: int) -> bool:
    """Has nothing been received from it since `since_ns`, for long enough? `since_ns`: when the call's own connection
    last sent or received something."""
    return endpoint.hangs and endpoint.heard_ns <= since_ns and now_ns - since_ns >= SILENT_NS
