"""ValidWriteIdList: which writes to a transactional table a reader sees, as a value and as Hive's text.

Job: parse and print `db.table:hwm:minOpen:open:aborted`, and change a list as transactions begin and end. Must not
know: stores, the cache, what a table is. Which of two lists is newer: consistency/write_ids.py.

Invariants:
- `invalid` ascends and holds each id once; `aborted` is part of it.
- What is read is what ValidReaderWriteIdList.readFromString (Hive 4.2.0) reads, less what no Hive prints: names that
  are not ASCII, signs, empty items, an id twice, more than five parts. All else raises WriteIdsError: no proof.
- Cost: linear in the length of the text.

Owner: any process; no state.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from hms_cache_proxy.errors import WriteIdsError
from hms_cache_proxy.store.txn_list import MAX_ID, NONE_OPEN, malformed

FILLED_AT_MOST: Final = 100_000
"""Ids that a change may add to a list at once; a larger gap means that the list is of another time."""
NO_NAME: Final = "null"
"""What Hive prints in place of a table."""
_NAME: Final = re.compile(rb"(?!(?i:null)\Z)[ -9;-~]+")
_text_matches: Final = re.compile(r"([ -9;-~]+):([0-9]{1,19}):([0-9]{1,19})(?::([0-9,]*))?(?::([0-9,]*))?:*").fullmatch


@dataclass(frozen=True, slots=True)
class ValidWriteIdList:
    """The writes that a reader does not see are those over `high_watermark` and the `invalid` ones.

    `table`: `database.table` as in the text, None for the text `null`. `min_open`: the smallest open write, NONE_OPEN
    if there is none; in what a server says it can be over `high_watermark`.
    """

    table: bytes | None
    high_watermark: int
    invalid: tuple[int, ...] = ()
    aborted: frozenset[int] = frozenset()
    min_open: int = NONE_OPEN

    @classmethod
    def of(
        cls,
        table: bytes,
        high_watermark: int,
        invalid: Iterable[int] = (),
        aborted: Iterable[int] = (),
        min_open: int | None = None,
    ) -> ValidWriteIdList:
        """The list that Hive makes of a server's TableValidWriteIds: `min_open` is not kept where nothing is invalid.

        Raises WriteIdsError for a name that could not be read again from the text.
        """
        ids = tuple(sorted(invalid))
        low = NONE_OPEN if min_open is None or not ids else min_open
        found = cls(table, high_watermark, ids, frozenset(aborted), low)
        if not found.aborted.issubset(ids) or len(set(ids)) != len(ids):
            raise WriteIdsError(f"{table!r}: an id twice, or aborted and yet valid")
        if not _NAME.fullmatch(table):
            raise WriteIdsError(f"a list of write ids cannot have the table name {table!r}")
        return found

    @classmethod
    def parse(cls, text: bytes) -> ValidWriteIdList:
        """Read a text; the empty one is the list of no table in which everything is valid. Raises WriteIdsError."""
        if not text:
            return cls(None, MAX_ID)
        name, high, low, invalid, aborted = read_list(text)
        table = None if name == NO_NAME else text[: len(name)]
        return cls(table, high, tuple(invalid), frozenset(aborted), low)

    def text(self) -> bytes:
        """The text that Hive prints."""
        aborted = self.aborted
        opened = [id_ for id_ in self.invalid if id_ not in aborted] if aborted else self.invalid
        return b"%b:%d:%d:%b:%b" % (
            b"null" if self.table is None else self.table,
            self.high_watermark,
            self.min_open,
            ",".join(map(str, opened)).encode(),
            ",".join(map(str, sorted(aborted))).encode(),
        )

    @property
    def open(self) -> tuple[int, ...]:
        """Writes up to the high watermark that are neither committed nor aborted."""
        return tuple(id_ for id_ in self.invalid if id_ not in self.aborted)

    def is_valid(self, write_id: int) -> bool:
        """Does the reader see this write?"""
        return write_id <= self.high_watermark and not self._has(write_id)

    def is_aborted(self, write_id: int) -> bool:
        """Is it known that this write never happened?"""
        return write_id in self.aborted

    def allocated(self, *write_ids: int) -> ValidWriteIdList:
        """These writes have begun. The same writes are valid as before."""
        return self._changed(max(write_ids), self.aborted) if write_ids else self

    def committed(self, write_id: int) -> ValidWriteIdList:
        """This write is valid now, and nothing else has changed; ids below it that were not known stay open."""
        grown = self._changed(write_id, self.aborted - {write_id})
        at = bisect_left(grown.invalid, write_id)
        if at == len(grown.invalid) or grown.invalid[at] != write_id:
            return grown
        left = grown.invalid[:at] + grown.invalid[at + 1 :]
        return self._with(grown.high_watermark, left, grown.aborted)

    def abort(self, write_id: int) -> ValidWriteIdList:
        """This write will never be valid. The same writes are valid as before, unless this one was."""
        grown = self._changed(write_id, self.aborted | {write_id})
        if grown._has(write_id):
            return grown
        return self._with(grown.high_watermark, tuple(sorted((*grown.invalid, write_id))), grown.aborted)

    def for_compaction(self) -> ValidWriteIdList:
        """What TxnUtils.createValidCompactWriteIdList makes of the same answer of a server: nothing from the first open
        write on, and whatever is left counts as aborted."""
        opened = self.open
        end = bisect_left(self.invalid, opened[0]) if opened else len(self.invalid)
        high = self.high_watermark if self.min_open == NONE_OPEN else self.min_open - 1
        left = tuple(id_ for id_ in self.invalid[:end] if id_ <= high)
        return ValidWriteIdList(self.table, high, left, frozenset(left), self.min_open if left else NONE_OPEN)

    def _has(self, write_id: int) -> bool:
        at = bisect_left(self.invalid, write_id)
        return at < len(self.invalid) and self.invalid[at] == write_id

    def _changed(self, write_id: int, aborted: frozenset[int]) -> ValidWriteIdList:
        """With a high watermark of at least `write_id`: what lies between was invalid and stays so."""
        old = self.high_watermark
        if not 0 < write_id <= MAX_ID or write_id - old > FILLED_AT_MOST:
            raise WriteIdsError(f"write id {write_id} after {old}: the list of {self.table!r} has to be read anew")
        between = range(old + 1, write_id + 1)
        known = self.invalid[-1] if self.invalid else 0
        invalid = self.invalid + tuple(between) if known <= old else tuple(sorted({*self.invalid, *between}))
        return self._with(max(old, write_id), invalid, aborted)

    def _with(self, high: int, invalid: tuple[int, ...], aborted: frozenset[int]) -> ValidWriteIdList:
        low = next((id_ for id_ in invalid if id_ not in aborted), NONE_OPEN)
        return ValidWriteIdList(self.table, high, invalid, aborted, low)


def full_name(database: bytes, table: bytes) -> bytes | None:
    """`database.table` as lists have it; None if a metastore would cut the name elsewhere when it reads it again.

    Hive 4.2.0 makes tables with points, colons and dollars in their names, and then answers get_valid_write_ids for
    `a.b.c` with the list of `a.b`.
    """
    name = b"%b.%b" % (database, table)
    return name if name.count(b".") == 1 and b"$" not in name and _NAME.fullmatch(name) else None


def read_list(text: bytes) -> tuple[str, int, int, list[int], list[int]]:
    """Table in lower case, high watermark, smallest open id, invalid ids in order, aborted ids.

    Raises WriteIdsError.
    """
    match = _text_matches(str(text, "latin-1"))
    if match is None:
        raise malformed(text, "not table:hwm:minOpen:open:aborted")
    name, high, low, opened, gone = match.groups()
    try:
        invalid = list(map(int, opened.split(","))) if opened else []
        aborted = list(map(int, gone.split(","))) if gone else []
    except ValueError as error:
        raise malformed(text, "an empty or endless id") from error
    high_watermark, min_open = int(high), int(low)
    if high_watermark > MAX_ID or min_open > MAX_ID:
        raise malformed(text, "an id over 2^63")
    invalid += aborted
    if invalid:
        invalid.sort()
        if len(set(invalid)) != len(invalid) or invalid[-1] > MAX_ID:
            raise malformed(text, "an id twice, or over 2^63")
    return name.lower(), high_watermark, min_open, invalid, aborted
