"""Which of two lists of valid writes is newer, and whether a request's list sees the same writes as a cached one.

Job: compare lists exactly as TxnIdUtils.compare (Hive 4.2.0) does. Must not know: the cache, methods, sockets. Texts
and values: store/write_ids.py.

Invariants:
- Two lists are equivalent, `compare` = 0, if and only if the same writes are valid in both (where no invalid id is over
  its high watermark, as in every list that a metastore makes). Open and aborted writes are not told apart.
- "Newer" is the order of the first difference. Two lists can each have a write that the other lacks, and still one is
  the newer: only equivalence is a proof.
- What is no list proves nothing. Cost: linear in the length of the texts, and bounded.

Owner: any process; a worker remembers short lists that it has read.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, TypeVar

from hms_cache_proxy.errors import WriteIdsError
from hms_cache_proxy.store.write_ids import NO_NAME, ValidWriteIdList, read_list

COMPARED_BYTES: Final = 32_768
"""A longer list of a request is only proof if it is the cached list byte for byte: to read and compare two of this
length (4,000 ids) takes about a millisecond, for which a worker answers nobody else."""
SHORT_BYTES: Final = 512
REMEMBERED: Final = 1024
"""Lists of up to SHORT_BYTES that a worker does not read again: between two commits all readers bring the same ones.
Together at most 10 MB."""
_Ids = TypeVar("_Ids", list[int], tuple[int, ...])
_remembered: Final = lru_cache(maxsize=REMEMBERED)(read_list)


def compare(a: ValidWriteIdList, b: ValidWriteIdList) -> int:
    """What TxnIdUtils.compare says: over 0 if `a` is newer, under 0 if `b` is, 0 if they are equivalent.

    Lists of different tables: the order of the names, as String.compareTo gives it. Raises WriteIdsError where one has
    no table.
    """
    if a.table is None or b.table is None:
        raise WriteIdsError("a list of write ids without a table is not to be compared")
    first, second = a.table.lower(), b.table.lower()
    if first != second:
        differ = next((x - y for x, y in zip(first, second, strict=False) if x != y), 0)
        return differ or len(first) - len(second)
    return _order(a.high_watermark, a.invalid, b.high_watermark, b.invalid)


def equivalent(request: bytes, cached: bytes) -> bool:
    """Do these texts name one table and the same valid writes? False where one of them is no list.

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
    return _order(high, invalid, our_high, ours) == 0


def _order(high: int, invalid: _Ids, other_high: int, other: _Ids) -> int:
    count, other_count = len(invalid), len(other)
    common = min(count, other_count)
    head, other_head = invalid[:common], other[:common]
    if head != other_head:
        return 1 if head > other_head else -1
    if count == other_count:
        return (high > other_high) - (high < other_high)
    if count < other_count:
        return _order_of_longer(high, other, common, other_high)
    return -_order_of_longer(other_high, invalid, common, high)


def _order_of_longer(high: int, longer: _Ids, common: int, longer_high: int) -> int:
    """The order of a list whose invalid ids are the first `common` ones of a longer list."""
    last_valid = longer[common] - 1  # of the longer list before its next invalid id
    if high != last_valid:
        return 1 if high > last_valid else -1
    all_invalid = longer[-1] == longer_high and longer[-1] - longer[common] == len(longer) - common - 1
    return 0 if all_invalid else -1
