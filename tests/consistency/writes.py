"""What tests of fences write, and a follower's step."""

from __future__ import annotations

import os

from hms_cache_proxy.consistency.fences import FenceStore

A, B = b"thive\0db\0a", b"thive\0db\0b"
ME = os.getpid()


def follow(store: FenceStore) -> int:
    """One step of a follower; gives its done_ticket."""
    last, _ = store.pending_tickets()
    store.done(last)
    return last
