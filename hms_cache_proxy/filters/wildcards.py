"""Turns patterns with wildcards for any text into regular expressions that take linear time.

Job: join segments, which are expressions of fixed length, with any text between two of them. Must not know: which
characters are wildcards. Owner: any thread; no state.

Clients choose the pattern, and may have chosen the text: `.*a.*a.*a.*b` would take a time that grows with a power of
the length of a text of many `a`. A segment in the middle is matched at the first place where it occurs: if the rest
does not follow there, it does not follow at a later place either. So the segment is in an atomic group, for which no
second place is tried.
"""

from __future__ import annotations

import re
from collections.abc import Sequence


def any_text_between(segments: Sequence[str]) -> str:
    """The expression, for `fullmatch` and re.DOTALL. An empty segment at an end: any text is there, too."""
    if len(segments) == 1:
        return segments[0]
    first, *middle, last = segments
    found = "".join(f"(?>.*?{segment})" for segment in middle if segment)
    return f"{first}{found}.*{last}"


def literal(text: str, one: str = ".") -> str:
    """The expression for a text in which `one` is any one character."""
    return ".".join(map(re.escape, text.split(one)))


def one_after_another(*patterns: Sequence[str]) -> list[str]:
    """The segments of patterns that follow one another."""
    found = [""]
    for first, *more in patterns:
        found[-1] += first
        found += more
    return found
