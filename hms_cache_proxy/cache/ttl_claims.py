"""Claims: which process loads an entry of TTL mode.

    claims     key                  pid and start time of the process; begin and deadline of the load; 1 for a refresh

Job: read and write the rows, and decide whether a claim is valid. It is not if its process has died, or its deadline
has passed. The claim of a refresh is not valid either for a load whose reader needs an answer: refreshes queue for few
connections, and may wait for a metastore that hangs. The functions work in a transaction of the cache that the caller
has begun (ttl.py).
Must not know: entries, the clock. Owner: every worker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from struct import Struct
from typing import Any, Final, NamedTuple

_CLAIM: Final = Struct(">IQQQ?")
FOREVER: Final = 1 << 63


class Claim(NamedTuple):
    """One claim. Times are in ns, CLOCK_MONOTONIC."""

    pid: int
    start: int
    began_ns: int
    deadline_ns: int
    refresh: bool


def claim_all(txn: Any, claims: Any, keys: Iterable[bytes], claim: Claim) -> None:
    """Claims these keys."""
    row = _CLAIM.pack(*claim)
    for key in keys:
        txn.put(key, row, db=claims)


def claim_of(txn: Any, claims: Any, key: bytes) -> Claim | None:
    """The claim on the key, whether it stands or not."""
    row = txn.get(key, db=claims)
    return None if row is None else Claim(*_CLAIM.unpack(row))


def stands(claim: Claim | None, by: Claim, started: Callable[[int], int | None], latest_ns: int) -> bool:
    """Does another load's claim stand against this one? Not if it began after `latest_ns`."""
    return (
        claim is not None
        and claim.began_ns <= latest_ns
        and claim.deadline_ns > by.began_ns
        and (by.refresh or not claim.refresh)
        and started(claim.pid) == claim.start
    )


def end_claims(txn: Any, claims: Any, keys: Iterable[bytes], claim: Claim) -> None:
    """Ends the claims on these keys, as far as no other load has taken them over."""
    row = _CLAIM.pack(*claim)
    for key in keys:
        if txn.get(key, db=claims) == row:
            txn.delete(key, db=claims)
