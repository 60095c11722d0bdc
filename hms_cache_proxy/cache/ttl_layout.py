"""The rows of TTL mode's environment, and the numbers in them that both readers and writers need.

    entries    key (16 bytes)       the load's seq and begin (ns, CLOCK_BOOTTIME), flags; the body
    places     key                  kind, order, bytes of the entry
    order      kind, u64 order      key: the first is evicted first
    invalid    target               seq of its last invalidation
    holds      hash of a target, u64 id    a write in progress: nothing that depends on the target may be published
                                    whose load began before this time (CLOCK_MONOTONIC; ttl_holds.py)
    claims     key                  the load that has it (ttl_claims.py)
    meta       b"n"                 seq, next order, next hold, floor of all targets
               b"k" kind            entries, bytes

Job: turn keys and values into bytes and back. Must not know: when a row is written, or is valid (ttl.py). All numbers
are big-endian.
Owner: none; no state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from struct import Struct
from typing import Any, Final, NamedTuple

from hms_cache_proxy.cache.targets import ALL, Target

ENTRY: Final = Struct(">QQB")
PLACE: Final = Struct(">BQI")
ORDER: Final = Struct(">BQ")
COUNTERS: Final = Struct(">QQQQ")
SIZES: Final = Struct(">QQ")
NUMBER: Final = Struct(">Q")
ABSENT: Final = 1
"""The flag of an entry that says that there is no such object."""
DATABASES: Final = (b"entries", b"places", b"order", b"invalid", b"holds", b"claims", b"meta")


class Sizes(NamedTuple):
    """The entries and bytes of a kind."""

    entries: int
    bytes: int


def read_counters(txn: Any, databases: Mapping[bytes, Any]) -> tuple[int, int, int, int]:
    """seq, next order, next hold, floor."""
    row = txn.get(b"n", db=databases[b"meta"])
    return (1, 1, 1, 0) if row is None else COUNTERS.unpack(row)


def read_sizes(txn: Any, databases: Mapping[bytes, Any], kind: int) -> Sizes:
    """The entries and bytes of a kind."""
    row = txn.get(b"k" + bytes((kind,)), db=databases[b"meta"])
    return Sizes(0, 0) if row is None else Sizes(*SIZES.unpack(row))


def last_invalidation(txn: Any, databases: Mapping[bytes, Any], depends: Iterable[Target], seq: int) -> int:
    """The number of the last invalidation of any of these; for `ALL`, `seq`."""
    last = 0
    for target in depends:
        if target == ALL:
            return seq
        row = txn.get(target_key(target), db=databases[b"invalid"])
        if row is not None:
            last = max(last, NUMBER.unpack(row)[0])
    return last


def target_key(target: Target) -> bytes:
    """The key of a target. LMDB's keys are short, so long names with the same beginning are invalidated together."""
    return target[:400]
