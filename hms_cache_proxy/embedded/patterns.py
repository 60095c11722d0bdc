"""The patterns of get_databases and get_tables.

Job: turn a pattern into a predicate over stored names: `|` separates alternatives, `*` is any run of characters, `.`
any one character; everything else is literal. Source: MetaStoreUtils, MetaStoreDirectSql of 4.2 (which makes LIKE
patterns).
Owner: any thread; no state.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from hms_cache_proxy.filters.wildcards import any_text_between, literal


def matcher(pattern: str | None) -> Callable[[str], object]:
    """A predicate over stored names; None matches every name."""
    if pattern is None:
        return lambda name: True
    alternatives = pattern.strip().lower().split("|")
    parts = (any_text_between([literal(text) for text in each.split("*")]) for each in alternatives)
    return re.compile("|".join(parts), re.DOTALL).fullmatch
