"""ValidWriteIdList: the writes to a transactional table that a reader sees, as a value and in Hive's text form.

Job: parse and print `db.table:hwm:minOpen:open:aborted`, and parse the lists of all tables that one transaction reads.
Must not know: stores, the cache, what a table is. consistency/write_ids.py compares lists.

Invariants:
- `invalid` ascends and has each id once; `aborted` is a subset of it.
- `parse` accepts what ValidReaderWriteIdList.readFromString (Hive 4.2.0) reads, except forms that no Hive prints: names
  that are not ASCII, signs, empty items, an id twice, more than five parts. Anything else raises WriteIdsError: it
  proves nothing.
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

NO_NAME: Final = "null"
"""What Hive prints instead of a table's name if there is none."""
_DIGITS: Final = 19  # of MAX_ID
_NAME: Final = re.compile(rb"(?!(?i:null)\Z)[ -9;-~]+")
_text_matches: Final = re.compile(r"([ -9;-~]+):([0-9]{1,19}):([0-9]{1,19})(?::([0-9,]*))?(?::([0-9,]*))?:*").fullmatch


@dataclass(frozen=True, slots=True)
class ValidWriteIdList:
    """A reader does not see writes above `high_watermark`, and those in `invalid`.

    `table`: `database.table` as in the text; None for the text `null`. `min_open`: the smallest open write, NONE_OPEN
    if there is none; in a server's answer it can be above `high_watermark`.
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
        """The list that Hive makes from a server's TableValidWriteIds. `min_open` is dropped if nothing is invalid.

        Raises WriteIdsError for a name that could not be parsed again.
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
        """Parses a text. The empty one is a list without a table, in which everything is valid. Raises
        WriteIdsError."""
        if not text:
            return cls(None, MAX_ID)
        name, high, low, invalid, aborted = read_list(text)
        table = None if name == NO_NAME else text[: len(name)]
        return cls(table, high, tuple(invalid), frozenset(aborted), low)

    def text(self) -> bytes:
        """The text as Hive prints it."""
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

    def _has(self, write_id: int) -> bool:
        at = bisect_left(self.invalid, write_id)
        return at < len(self.invalid) and self.invalid[at] == write_id


def any_invalid(text: bytes) -> bool:
    """Whether a list in the form of `ValidWriteIdList.text` has open or aborted writes."""
    return not text.endswith(b"::")


def lists_by_table(text: bytes) -> dict[bytes | None, ValidWriteIdList]:
    """The lists of a ValidTxnWriteIdList, `txn$list$list...`, by the exact names of their tables.

    HiveServer2 keeps such a text for the tables that a transaction reads, and a materialized view keeps the one that it
    was made from. As in Hive 4.2.0, the later of two lists of one table counts, and an empty list has no table. Raises
    WriteIdsError.
    """
    if not text:
        return {}
    number, *texts = text.rstrip(b"$").split(b"$")
    if not number.isdigit() or len(number) > _DIGITS or int(number) > MAX_ID:
        raise malformed(text, "it begins with no transaction")
    return {one.table: one for one in map(ValidWriteIdList.parse, texts)}


def full_name(database: bytes, table: bytes) -> bytes | None:
    """`database.table` as in lists; None if a metastore would split the name differently when it parses it.

    Hive 4.2.0 accepts tables with points, colons and dollar signs in their names, and then answers get_valid_write_ids
    for `a.b.c` with the list of `a.b`.
    """
    name = b"%b.%b" % (database, table)
    return name if name.count(b".") == 1 and b"$" not in name and _NAME.fullmatch(name) else None


def read_list(text: bytes) -> tuple[str, int, int, list[int], list[int]]:
    """The table in lower case, high watermark, smallest open id, invalid ids in order, aborted ids.

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
