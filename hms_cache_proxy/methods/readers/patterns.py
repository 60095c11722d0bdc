"""The patterns of get_databases and get_tables, as Hive 4 turns them into SQL.

Job: turn a pattern into a predicate over stored names, and the prefix of these names; None if releases or databases
read the pattern differently. In a pattern `|` separates alternatives, `*` is any run of characters, `.` any one
character; everything else is literal, `_` and `%` too. The pattern as a whole is trimmed and changed to lower case.
Must not know: the cache. Owner: any process; no state.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from os.path import commonprefix

from hms_cache_proxy.consistency.names import read_name
from hms_cache_proxy.filters.wildcards import any_text_between, literal

MAX_PATTERN_BYTES = 1024
"""Longer patterns go upstream: a pattern is matched against every name, on the worker's loop."""
MOST_STARS = 16
"""The same for a pattern with more `*`, in all alternatives together: each takes a microsecond for each name."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """`matches` is true for stored names that match; all of these begin with `prefix`."""

    matches: Callable[[bytes], object]
    prefix: bytes = b""


def read_pattern(raw: bytes) -> Pattern | None:
    """What a pattern means; None if the metastore has to be asked."""
    pattern = read_name(raw)
    if pattern is None or b"\\" in pattern or len(pattern) > MAX_PATTERN_BYTES or pattern.count(b"*") > MOST_STARS:
        return None
    if not pattern:
        return Pattern(lambda name: False)
    alternatives = pattern.decode("ascii").split("|")
    if not all(alternatives):
        return None
    parts = (any_text_between([literal(text) for text in each.split("*")]) for each in alternatives)
    matches = re.compile("|".join(parts).encode("ascii"), re.DOTALL).fullmatch
    begin = commonprefix([re.split(r"[*.]", each, maxsplit=1)[0] for each in alternatives])
    return Pattern(matches, begin.encode("ascii"))
