"""Whether the list of valid writes that a request brings sees the same writes as a cached one.

Job: find equivalent the lists for which TxnIdUtils.compare (Hive 4.2.0) gives 0. Must not know: the cache, methods,
sockets. Texts and values: store/write_ids.py.

Invariants:
- Two lists are equivalent if and only if the same writes are valid in both (where no invalid id is over its high
  watermark, as in every list that a metastore makes). Open and aborted writes are not told apart. Which of two lists is
  newer is not asked: that proves nothing, as each can have a write that the other lacks.
- What is no list proves nothing. Cost: linear in the length of the texts, and bounded.

Owner: any process; a worker remembers short lists that it has read.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from hms_cache_proxy.errors import WriteIdsError
from hms_cache_proxy.store.write_ids import NO_NAME, read_list

COMPARED_BYTES: Final = 32_768
"""A longer list of a request is only proof if it is the cached list byte for byte: to read and compare two of this
length (4,000 ids) takes about a millisecond, during which the worker answers no other call."""
SHORT_BYTES: Final = 512
REMEMBERED: Final = 1024
"""Lists of up to SHORT_BYTES that a worker does not read again: between two commits all readers bring the same ones.
Together at most 10 MB."""
_remembered: Final = lru_cache(maxsize=REMEMBERED)(read_list)


def equivalent(request: bytes, cached: bytes) -> bool:
    """Whether these texts name the same table and the same valid writes. False if one of them is not a list.

    `cached` is what `text()` gave, empty for none. An id over its list's high watermark makes a list prove nothing.
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
    """Are the same writes valid? What the longer list has more must be all that is over the other's high watermark."""
    if len(invalid) > len(other):
        high, invalid, other_high, other = other_high, other, high, invalid
    common = len(invalid)
    if invalid != other[:common]:
        return False
    if common == len(other):
        return high == other_high
    first, last = other[common], other[-1]
    return high == first - 1 and last == other_high and last - first == len(other) - common - 1
