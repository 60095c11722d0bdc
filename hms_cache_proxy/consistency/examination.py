"""Are the pages of an LMDB file such that LMDB can use them? Found out without LMDB.

Job: follow both trees of the newest meta page, of free pages and of records, and look at each page's header and where
its rows are (lmdb 0.9, mdb.c: MDB_meta, MDB_db, MDB_page, MDB_node). Most damage is an error of LMDB, but of some it
aborts its process, by an assertion. The file is read, not mapped, so a file that is cut off does no harm.
Must not know what the records mean. Owner: the supervisor.

A page that somebody reuses meanwhile may look damaged: whoever examines a file that is in use examines it again.
"""

from __future__ import annotations

from pathlib import Path
from struct import Struct
from struct import error as TooShort
from typing import Final

PAGE_BYTES: Final = 4096
HEADER: Final = Struct("=QHHHH")  # page number, padding, kind; end of its table of rows, begin of its rows
OVERFLOW_PAGES: Final = Struct("=QHHI")  # the same of a large value; how many pages it has
META: Final = Struct("=16xII16x48s48sQQ")  # magic, version; the two trees; last page, transaction
TREE: Final = Struct("=IHHQQQQQ")  # padding, flags, depth; numbers of pages and rows; root
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


def _examine(whole: bytes) -> None:
    metas = [META.unpack_from(whole, at) for at in (0, PAGE_BYTES)]
    if any(meta[0] != MAGIC for meta in metas):
        raise _Damaged("a meta page is damaged")
    *_, free, records, last_page, _ = max(metas, key=lambda meta: meta[-1])
    seen: set[int] = set()
    for tree in (free, records):
        *_, depth, _, _, _, _, root = TREE.unpack(tree)
        if root != EMPTY:
            _page(whole, root, depth, last_page, seen)


def _page(whole: bytes, number: int, depth: int, last_page: int, seen: set[int]) -> None:
    """A page at this distance from the leaves, which have 1, and what is below it. `seen`: the pages before it."""
    at = number * PAGE_BYTES
    if number in seen:
        raise _Damaged(f"page {number} is in two places")
    seen.add(number)
    if number > last_page or not 1 <= depth <= DEEPEST:
        raise _Damaged(f"page {number} is beyond the last one, or too deep")
    found, _, kind, lower, upper = HEADER.unpack_from(whole, at)
    if found != number or kind != (LEAF if depth == 1 else BRANCH) or not HEADER.size <= lower <= upper <= PAGE_BYTES:
        raise _Damaged(f"the header of page {number} is damaged")
    for place in range(HEADER.size, lower, 2):
        node = int.from_bytes(whole[at + place : at + place + 2], "little")
        if not upper <= node <= PAGE_BYTES - NODE.size:
            raise _Damaged(f"a row of page {number} is outside of it")
        low, high, flags, key_bytes = NODE.unpack_from(whole, at + node)
        if kind == BRANCH:
            _page(whole, low | high << 16 | flags << 32, depth - 1, last_page, seen)
        elif flags & BIG:
            (large,) = NUMBER.unpack_from(whole, at + node + NODE.size + key_bytes)
            _large(whole, large, last_page)
        elif node + NODE.size + key_bytes + (low | high << 16) > PAGE_BYTES:
            raise _Damaged(f"a row of page {number} is too long")


def _large(whole: bytes, number: int, last_page: int) -> None:
    if number > last_page:
        raise _Damaged(f"page {number} is beyond the last one")
    found, _, kind, pages = OVERFLOW_PAGES.unpack_from(whole, number * PAGE_BYTES)
    if found != number or kind != OVERFLOW or number + pages - 1 > last_page:
        raise _Damaged(f"the header of page {number} is damaged")
