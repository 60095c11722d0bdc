"""May a call be given up as its metastore hangs, and there is no other?

Job: one decision. A call may take as long as it takes, and only the request time ends it. But where nobody has heard
anything of the metastore since the call was sent (not this worker's other connections, and probes have had no answer,
each on a connection of its own), the call is not what takes long. Must not know calls.

A probe alone never decides: one that is answered, or a byte on any connection, after the call was sent, and the call is
left alone for good. So is a call at a metastore that refuses connections: it may be about to end with that call under
way.
Owner: one per worker, on its loop; no state.
"""

from __future__ import annotations

from typing import Final

from hms_cache_proxy.upstream.endpoints import Endpoint

SILENT_NS: Final = 30_000_000_000  # longer than a pause of a metastore that is worth waiting for


def hangs(endpoint: Endpoint, since_ns: int, now_ns: int) -> bool:
    """Has it said nothing to anybody since then, and for long enough? `since_ns`: when something last moved on the
    call's own connection."""
    return endpoint.hangs and endpoint.heard_ns <= since_ns and now_ns - since_ns >= SILENT_NS
