"""Finds the names of partitions by some of their values (get_partitions_ps and similar methods).

Job: find, in slices, the names that match values of which some are empty or left out. Must not know: results, requests.

What the metastore does: it writes a partition name with `.*` for each empty value and after a list that is too short
(so the last value becomes a prefix), and has its database match names against this pattern. In some releases `.` means
any character, in others `_`. So a value with such characters is tried literally and as a pattern: if both find the same
names, that is the answer; else the metastore is asked. Owner: the worker's loop.
"""

from __future__ import annotations

import re

from hms_cache_proxy.cache.entries import TableEntry
from hms_cache_proxy.cache.snapshot import CacheSnapshot
from hms_cache_proxy.cache.walk import NameWalk
from hms_cache_proxy.consistency.gate import Reason
from hms_cache_proxy.filters.wildcards import any_text_between, one_after_another

from .base import Decline
from .filter_walk import Names
from .part_names import escape, make_name

_ANY = ["", ""]
"""Any text, as segments."""
_MAY_MATCH_MORE = re.compile(rb"[._%]")
MAX_PERCENTS = 4
"""Wildcards for any run of characters in one value; nobody asks for more."""
CHUNK = 1000
"""Names that are matched in one turn of the loop (about a millisecond)."""


def matching(
    snapshot: CacheSnapshot, walk: NameWalk, entry: TableEntry, values: list[bytes], limit: int | None
) -> Names:
    """The names that match, in order, at most `limit`. There are at most as many values as keys. Declines patterns that
    releases read differently. `walk`: over the table's names, in the snapshot's state."""
    if limit == 0:
        return []
    if len(values) == len(entry.partition_keys) and all(values):
        if not any(_MAY_MATCH_MORE.search(escape(value)) for value in values):
            name = make_name(entry.partition_keys, values)
            return [name] if snapshot.partition(entry, name) is not None else []
    exact, loose = _patterns(entry, values)
    prefix = _fixed(entry, values)
    return (yield from _scan(walk, prefix, exact, loose, limit))


def _fixed(entry: TableEntry, values: list[bytes]) -> bytes:
    """The beginning of every matching name, in all readings of the values."""
    fixed = b""
    for (key, _), value in zip(entry.partition_keys, values, strict=False):
        fixed += (b"/" if fixed else b"") + escape(key.lower()) + b"="
        written = escape(value)
        special = _MAY_MATCH_MORE.search(written)
        if special is not None or not value:
            return fixed + (written[: special.start()] if special else b"")
        fixed += written
    return fixed


def _patterns(entry: TableEntry, values: list[bytes]) -> tuple[re.Pattern[bytes], re.Pattern[bytes] | None]:
    """A pattern for the literal reading of the values, and one for all readings; None if they are the same."""
    exact: list[list[str]] = []
    loose: list[list[str]] = []
    for (key, _), value in zip(entry.partition_keys, values, strict=False):
        head = [("/" if exact else "") + _literal(escape(key.lower())) + "="]
        written = escape(value)
        exact += [head, [_literal(written)] if value else _ANY]
        loose += [head, _loosened(written) if value else _ANY]
    tail = [_ANY] if len(values) < len(entry.partition_keys) else []
    first, second = _compiled(exact + tail), _compiled(loose + tail)
    return first, second if first.pattern != second.pattern else None


def _compiled(parts: list[list[str]]) -> re.Pattern[bytes]:
    return re.compile(any_text_between(one_after_another(*parts)).encode("latin-1"), re.DOTALL)


def _literal(written: bytes) -> str:
    """An expression for these bytes, each of which is a character."""
    return re.escape(written.decode("latin-1"))


def _loosened(written: bytes) -> list[str]:
    """The segments of the pattern in which everything that may be a wildcard is one."""
    if written.count(b"%") > MAX_PERCENTS:
        raise Decline(Reason.PATTERN)
    return [".".join(map(_literal, re.split(rb"[._]", text))) for text in written.split(b"%")]


def _scan(
    walk: NameWalk, prefix: bytes, exact: re.Pattern[bytes], loose: re.Pattern[bytes] | None, limit: int | None
) -> Names:
    found: list[bytes] = []
    after: bytes | None = _before(prefix)
    while True:
        names = walk.listing(after, CHUNK)
        for name in names:
            if not name.startswith(prefix):
                if name > prefix:
                    return found[:limit]
                continue
            if exact.fullmatch(name):
                found.append(name)
                if limit is not None and len(found) == limit and loose is None:
                    return found
            elif loose is not None and loose.fullmatch(name):
                raise Decline(Reason.PATTERN)
        if len(names) < CHUNK:
            return found[:limit]
        after = names[-1]
        yield


def _before(prefix: bytes) -> bytes | None:
    """A name after which all names with this prefix come."""
    return prefix[:-1] + bytes((prefix[-1] - 1,)) + b"\xff" if prefix and prefix[-1] else None
