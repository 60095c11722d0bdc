"""Compares the ValidWriteIdList of a request with a cached one: do readers with them see the same writes?

Job: decide as TxnIdUtils.compare (Hive 4.2.0), which returns 0 for equivalent lists. Must not know: the cache, methods,
sockets. store/write_ids.py parses lists.

Invariants:
- Two lists are equivalent if and only if the same writes are valid in both (provided that no invalid id is above its
  list's high watermark, as in every list of a metastore). Open and aborted writes are treated alike. Which list is
  newer proves nothing, because each can have a write that the other lacks.
- A text that is not a list proves nothing. Cost: linear in the length of the texts, and limited.

Owner: any process. A worker remembers short lists that it has parsed.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from hms_cache_proxy.errors import WriteIdsError
from hms_cache_proxy.store.write_ids import NO_NAME, read_list

COMPARED_BYTES: Final = 32_768
"""A longer list must be equal to the cached list byte for byte. To parse and compare two lists of this length (4,000
ids) takes about a millisecond, during which the worker answers no other call."""
SHORT_BYTES: Final = 512
REMEMBERED: Final = 1024
"""Lists of up to SHORT_BYTES that a worker remembers: between two commits, all readers send the same lists. They take
at most 10 MB."""
_remembered: Final = lru_cache(maxsize=REMEMBERED)(read_list)


def equivalent(request: bytes, cached: bytes) -> bool:
    """Whether these texts are lists of the same table with the same valid writes. False if one of them is not a list.

    `cached`: a result of `text()`; empty if there is none. A request's list with an id above its high watermark proves
    nothing.
    """
    if request == cached:
        return cached != b""
    if len(request) > COMPARED_BYTES or len(cached) > COMPARED_BYTES:
        return False
    try:
        name, high, _, invalid, _ = _remembered(request) if len(request) <= SHORT_BYTES else read_list(request)
        mine, our_high, _, ours, _ = _remembered(cached) if len(cached) <= SHORT_BYTES else read_list(cached)
    except WriteIdsError:
        return False
    if name != mine or name == NO_NAME or (invalid and invalid[-1] > high):
        return False
    return _same(high, invalid, our_high, ours)


def _same(high: int, invalid: list[int], other_high: int, other: list[int]) -> bool:
    """Are the same writes valid? The additional ids of the longer list must be exactly those above the other's high
    watermark."""
    if len(invalid) > len(other):
        high, invalid, other_high, other = other_high, other, high, invalid
    common = len(invalid)
    if invalid != other[:common]:
        return False
    if common == len(other):
        return high == other_high
    first, last = other[common], other[-1]
    return high == first - 1 and last == other_high and last - first == len(other) - common - 1
