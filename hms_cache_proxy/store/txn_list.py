"""ValidTxnList: the transactions that a reader sees, as a value and in Hive's text form.

Job: parse and print `hwm:minOpen:open:aborted`, plain (Hive 3.1), or with runs of five or more ids as `first-last`
(Hive 4 prints this and reads both). Must not know: stores, write ids, sockets.

Invariants:
- `open` and `aborted` ascend, are disjoint, and have ids from 0 to MAX_ID.
- `parse` accepts what ValidReadTxnList.readFromString (4.2.0) reads, except forms that no Hive prints: signs, digits
  that are not ASCII, empty items, ids that are not in order or occur twice, more than four parts, more than IDS_AT_MOST
  ids.

Owner: any process; no state.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from hms_cache_proxy.errors import WriteIdsError

MAX_ID: Final = (1 << 63) - 1
NONE_OPEN: Final = MAX_ID
"""`min_open` if no transaction is open."""
IDS_AT_MOST: Final = 1_000_000
"""The most ids that a text may have: a short text could name a range of 2^63."""
_RUN: Final = 5  # ids; the ids of shorter runs are printed one by one
_SHOWN: Final = 60  # characters of a text that a message quotes
_text_matches: Final = re.compile(r"([0-9]{1,19}):([0-9]{1,19})(?::([-0-9,]*))?(?::([-0-9,]*))?:*").fullmatch


def malformed(text: bytes, why: str) -> WriteIdsError:
    """The error for a text that is not a list."""
    shown = text[:_SHOWN].decode("utf-8", "replace")
    return WriteIdsError(f"{shown!r}{'...' if len(text) > _SHOWN else ''} is no list of ids: {why}")


@dataclass(frozen=True, slots=True)
class ValidTxnList:
    """A reader does not see transactions above `high_watermark`, and those in `open` and `aborted`.

    `min_open`: the smallest open transaction, NONE_OPEN if there is none. The server may count one that is not in
    `open`.
    """

    high_watermark: int
    min_open: int
    open: tuple[int, ...]
    aborted: tuple[int, ...]

    @classmethod
    def parse(cls, text: bytes) -> ValidTxnList:
        """Parses a text. In the empty one, everything is valid. Raises WriteIdsError."""
        if not text:
            return cls(MAX_ID, NONE_OPEN, (), ())
        match = _text_matches(str(text, "latin-1"))
        if match is None:
            raise malformed(text, "not hwm:minOpen:open:aborted")
        high, low, opened, gone = match.groups()
        high_watermark, min_open = int(high), int(low)
        try:
            open_ids, aborted_ids = _expanded(opened), _expanded(gone)
        except ValueError as error:
            raise malformed(text, str(error)) from error
        if high_watermark > MAX_ID or min_open > MAX_ID or not set(open_ids).isdisjoint(aborted_ids):
            raise malformed(text, "a transaction both open and aborted, or an id over 2^63")
        return cls(high_watermark, min_open, open_ids, aborted_ids)

    def text(self, *, ranges: bool = True) -> bytes:
        """The text as Hive 4 prints it; without `ranges`, as Hive 3.1 prints it, which both read."""
        join = _runs if ranges else _plain
        return b"%d:%d:%b:%b" % (self.high_watermark, self.min_open, join(self.open), join(self.aborted))


def _expanded(text: str | None) -> tuple[int, ...]:
    """The ids in a part of the text. Raises ValueError."""
    ids: list[int] = []
    for item in text.split(",") if text else ():
        first, dash, last = item.partition("-")
        low = int(first)
        high = int(last) if dash else low
        if not 0 <= high - low < IDS_AT_MOST - len(ids) or (ids and low <= ids[-1]):
            raise ValueError(f"not in order, or over {IDS_AT_MOST} ids")
        ids += range(low, high + 1)
    if ids and ids[-1] > MAX_ID:
        raise ValueError("an id over 2^63")
    return tuple(ids)


def _plain(ids: Iterable[int]) -> bytes:
    return ",".join(map(str, ids)).encode()


def _runs(ids: tuple[int, ...]) -> bytes:
    return b",".join(
        b"%d-%d" % (first, last) if last - first >= _RUN - 1 else _plain(range(first, last + 1))
        for first, last in _spans(ids)
    )


def _spans(ids: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """(first, last) of each run of consecutive ids."""
    start = 0
    for end in range(1, len(ids) + 1):
        if end == len(ids) or ids[end] != ids[end - 1] + 1:
            yield ids[start], ids[end - 1]
            start = end
