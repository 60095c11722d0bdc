"""Finds out whether LMDB can use the pages of a file, without LMDB.

Job: follow both trees of the newest meta page, that of free pages and that of records, and check each page's header and
the places of its rows (lmdb 0.9, mdb.c: MDB_meta, MDB_db, MDB_page, MDB_node). LMDB reports most damage as an error,
but aborts its process (by an assertion) at some. The file is read, not mapped, so a file that is cut off does no harm.
Must not know what the records mean. Owner: the supervisor.

A page that another process reuses meanwhile may look damaged, so a file that is in use must be examined more than once.
"""

from __future__ import annotations

from pathlib import Path
from struct import Struct
from struct import error as TooShort
from typing import Final

LARGEST_PAGE: Final = 1 << 15  # MAX_PAGESIZE; LMDB takes the system's page size for a new file, at most this
HEADER: Final = Struct("=QHHHH")  # page number, padding, kind; end of its table of rows, begin of its rows
OVERFLOW_PAGES: Final = Struct("=QHHI")  # the same of a large value; how many pages it has
META: Final = Struct("=16xII16x48s48sQQ")  # magic, version; the two trees; last page, transaction
TREE: Final = Struct("=IHHQQQQQ")  # padding (in the tree of free pages: the page size), flags, depth; counts; root
NODE: Final = Struct("=HHHH")  # what it says depends on the kind of page; length of the key
NUMBER: Final = Struct("=Q")
MAGIC: Final = 0xBEEFC0DE
BRANCH, LEAF, OVERFLOW = 1, 2, 4
BIG: Final = 1  # flag of a row whose value is on pages of its own
EMPTY: Final = (1 << 64) - 1
DEEPEST: Final = 32  # CURSOR_STACK


class _Damaged(Exception):
    """What is wrong, and with which page."""


def damage(path: Path) -> str | None:
    """What is wrong with the pages of a file; None if nothing is."""
    try:
        whole = (path / "data.mdb").read_bytes()
    except OSError as error:
        return f"it cannot be read: {error.strerror}"
    try:
        _examine(whole)
    except (_Damaged, TooShort) as error:
        return str(error)
    return None


def page_bytes(whole: bytes) -> int:
    """The page size of a file, which its first meta page tells."""
    _, _, free, *_ = META.unpack_from(whole)
    found: int = TREE.unpack(free)[0]
    if not META.size <= found <= LARGEST_PAGE or found & (found - 1):
        raise _Damaged("a meta page is damaged")
    return found


def _examine(whole: bytes) -> None:
    size = page_bytes(whole)
    metas = [META.unpack_from(whole, at) for at in (0, size)]
    if any(meta[0] != MAGIC or TREE.unpack(meta[2])[0] != size for meta in metas):
        raise _Damaged("a meta page is damaged")
    *_, free, records, last_page, _ = max(metas, key=lambda meta: meta[-1])
    pages = _Pages(whole, size, last_page)
    for tree in (free, records):
        *_, depth, _, _, _, _, root = TREE.unpack(tree)
        if root != EMPTY:
            pages.follow(root, depth)


class _Pages:
    """The pages of both trees."""

    def __init__(self, whole: bytes, size: int, last: int) -> None:
        """`size`: of a page, in bytes; `last`: the number of the last page."""
        self._whole = whole
        self._size = size
        self._last = last
        self._seen: set[int] = set()

    def follow(self, number: int, depth: int) -> None:
        """A page at this distance from the leaves, which have 1, and what is below it."""
        whole, size, at = self._whole, self._size, number * self._size
        if number in self._seen:
            raise _Damaged(f"page {number} is in two places")
        self._seen.add(number)
        if number > self._last or not 1 <= depth <= DEEPEST:
            raise _Damaged(f"page {number} is beyond the last one, or too deep")
        found, _, kind, lower, upper = HEADER.unpack_from(whole, at)
        if found != number or kind != (LEAF if depth == 1 else BRANCH) or not HEADER.size <= lower <= upper <= size:
            raise _Damaged(f"the header of page {number} is damaged")
        for place in range(HEADER.size, lower, 2):
            node = int.from_bytes(whole[at + place : at + place + 2], "little")
            if not upper <= node <= size - NODE.size:
                raise _Damaged(f"a row of page {number} is outside of it")
            low, high, flags, key_bytes = NODE.unpack_from(whole, at + node)
            if kind == BRANCH:
                self.follow(low | high << 16 | flags << 32, depth - 1)
            elif flags & BIG:
                (large,) = NUMBER.unpack_from(whole, at + node + NODE.size + key_bytes)
                self._large(large)
            elif node + NODE.size + key_bytes + (low | high << 16) > size:
                raise _Damaged(f"a row of page {number} is too long")

    def _large(self, number: int) -> None:
        if number > self._last:
            raise _Damaged(f"page {number} is beyond the last one")
        found, _, kind, pages = OVERFLOW_PAGES.unpack_from(self._whole, number * self._size)
        if found != number or kind != OVERFLOW or number + pages - 1 > self._last:
            raise _Damaged(f"the header of page {number} is damaged")
