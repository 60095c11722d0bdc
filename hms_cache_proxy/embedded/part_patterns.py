"""Finds the partition names that begin with some values, by the patterns of the `_ps` calls.

Job: turn values into a predicate over names; an empty value matches any. Hive's pattern for fewer values than keys has
no `/` at its end, so `a` finds `ab` too. Must not know: rows. Source: MetaStoreUtils.makePartNameMatcher of 4.2,
compared with a running 4.2.0. Owner: any thread; no state.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from hms_cache_proxy.embedded import names
from hms_cache_proxy.embedded.failures import meta
from hms_cache_proxy.filters.values import like_segments
from hms_cache_proxy.filters.wildcards import any_text_between, literal, one_after_another
from hms_cache_proxy.wire.spec import Struct

Matches = Callable[[str], object]

_ANY = ["", ""]
"""Any text."""


def as_text(keys: Sequence[Struct], values: Sequence[str]) -> Matches:
    """Literal values, except that a dot matches any character: for the calls for names, which match a regular
    expression. MetaException for more values than keys."""
    return _pattern(keys, values, lambda text: [literal(text)])


def as_like(keys: Sequence[Struct], values: Sequence[str]) -> Matches:
    """Values as LIKE patterns, for the calls for partitions, which use SQL. Only empty values, in any number, match all
    partitions. MetaException for more values than keys otherwise."""
    if not any(values):
        return lambda name: True
    return _pattern(keys, values, like_segments)


def _pattern(keys: Sequence[Struct], values: Sequence[str], segments: Callable[[str], list[str]]) -> Matches:
    if len(values) > len(keys):
        raise meta(f"Incorrect number of partition values. numPartKeys={len(keys)}, part_val=[{', '.join(values)}]")
    parts: list[list[str]] = []
    for key, value in zip(keys, values, strict=False):
        parts += [["/"]] if parts else []
        parts += [segments(f"{names.escape(key.name)}="), segments(names.escape(value)) if value else _ANY]
    parts += [_ANY] if len(values) < len(keys) else []
    return re.compile(any_text_between(one_after_another(*parts)), re.DOTALL).fullmatch
