"""Decides which filters are evaluated here, and which are relayed for every table.

Job: return the tree of a filter (filters/text.py), or None for a filter that is declined. Must not know: partitions,
the cache.
Owner: any process; no state.

Filters are declined that Hive refuses, and filters that releases or databases read differently, or may read
differently:

- filters longer than MAX_FILTER_BYTES or deeper than MAX_DEPTH; bytes that are not UTF-8
- text after the filter, which Hive ignores
- the words IN, STRUCT, CONST, IS, TRUE, FALSE, DATE, TIMESTAMP, and timestamps
- backslashes; quotes of either kind within strings; strings side by side, which Hive joins
- integers with leading zeros, with more than 19 digits, with a blank after their sign; -0
- dates directly followed by a word
- keys that do not begin with a letter, unless in back-quotes; back-quotes around other than letters, digits and `_`;
  the key `values`, a keyword of Hive before 4.2
- LIKE, whose meaning differs between releases and databases; on a key it raises LikeFilter

filter_match.py declines more, by the types of the keys.
"""

from __future__ import annotations

import re
from itertools import pairwise

from hms_cache_proxy.filters.text import Refused, read
from hms_cache_proxy.filters.tree import Node, comparisons
from hms_cache_proxy.filters.words import END, KEYWORDS, NAMES, Word, words

MAX_FILTER_BYTES = 8192
"""Longer filters go upstream: parsing takes about 15 us for each comparison, in one turn of the worker's loop."""
MAX_DEPTH = 50
"""Nested parentheses."""

_PLAIN = frozenset("( ) AND OR NOT BETWEEN LIKE EQ <> != < <= > >=".split())
_SPELLED = {
    "STRING": re.compile(r"""(["'])[^"']*\1"""),
    "INTEGER_VALUE": re.compile(r"0|[1-9][0-9]{0,18}"),
    "DATE_VALUE": re.compile(".*"),
    "IDENTIFIER": re.compile("(?!values$)[a-z].*", re.IGNORECASE),
    "QUOTEDIDENTIFIER": re.compile("`[A-Za-z0-9_]+`"),
    "-": re.compile("-"),
}
"""Words that are evaluated, if they are spelled like this."""


class LikeFilter(Exception):
    """The filter contains LIKE."""


def tree_of(text: bytes) -> Node | None:
    """The tree of a filter; None if it is declined. Raises LikeFilter."""
    if len(text) > MAX_FILTER_BYTES or text.count(b"(") > MAX_DEPTH or b"\\" in text:
        return None
    try:
        found = words(text.decode("utf-8"))
        if not _evaluated(found):
            return None
        node, count = read(found)
    except (UnicodeDecodeError, Refused):
        return None
    if found[count].kind != END:
        return None
    likes = [each for each in comparisons(node) if each.op == "like"]
    if not likes:
        return node
    if any(each.flipped or each.value.kind != "string" for each in likes):
        return None
    raise LikeFilter


def _evaluated(found: list[Word]) -> bool:
    for word, following in pairwise(found):
        if word.kind in _PLAIN:
            continue
        spelled = _SPELLED.get(word.kind)
        if spelled is None or spelled.fullmatch(word.text) is None:
            return False
        if word.kind == "STRING" and following.kind == "STRING":
            return False
        if word.kind == "-" and (
            following.kind != "INTEGER_VALUE" or following.text == "0" or following.at != word.end
        ):
            return False
        if word.kind == "DATE_VALUE" and following.at == word.end and following.kind in KEYWORDS | NAMES:
            return False
    return True
