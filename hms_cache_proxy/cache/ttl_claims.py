"""Claims: which process loads an entry of TTL mode.

    claims     key                  pid and start time of the process; deadline of the load; 1 for a refresh

Job: the rows, and whether one stands. The claim of a process that has died, or that has exceeded its deadline, does
not. Nor does that of a refresh, for a load whose reader needs an answer: refreshes queue for few connections, and may
wait for a metastore that hangs. The functions work in a transaction of the cache that the caller has begun (ttl.py).
Must not know: entries, the clock. Owner: every worker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from struct import Struct
from typing import Any, Final, NamedTuple

_CLAIM: Final = Struct(">IQQ?")


class Claim(NamedTuple):
    """One claim. Times are in ns, CLOCK_MONOTONIC."""

    pid: int
    start: int
    deadline_ns: int
    refresh: bool


def claim_all(txn: Any, claims: Any, keys: Iterable[bytes], claim: Claim) -> None:
    """Claims these keys."""
    row = _CLAIM.pack(*claim)
    for key in keys:
        txn.put(key, row, db=claims)


def is_claimed(
    txn: Any, claims: Any, key: bytes, now_ns: int, started: Callable[[int], int | None], *, by_refresh: bool
) -> bool:
    """Does the claim of another load on the key stand? `by_refresh`: the one who asks is a refresh."""
    row = txn.get(key, db=claims)
    if row is None:
        return False
    claim = Claim(*_CLAIM.unpack(row))
    return claim.deadline_ns > now_ns and started(claim.pid) == claim.start and (by_refresh or not claim.refresh)


def end_claims(txn: Any, claims: Any, keys: Iterable[bytes], claim: Claim) -> None:
    """Ends the claims on these keys, as far as no other load has taken them over."""
    row = _CLAIM.pack(*claim)
    for key in keys:
        if txn.get(key, db=claims) == row:
            txn.delete(key, db=claims)
