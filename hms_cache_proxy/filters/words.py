"""The words of Hive's filter language, and sets of words as in the messages of Hive's parser.

Job: `words(text)` cuts a filter into words; `shown(kinds)` is the form of a set of kinds in a message. Must not know:
the grammar. Keywords may be in upper or lower case. Each character that is not part of a word of the language is one
UNRECOGNIZED. Source: PartitionFilter.g4 of 4.2.0, tested with its parser. Owner: any thread; no state.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

KINDS = (
    "( ) , AND OR NOT BETWEEN IN STRUCT CONST - DATE TIMESTAMP IS TRUE FALSE EQ <=> <> != < <= > >= LIKE"
    " STRING INTEGER_VALUE DATE_VALUE TIMESTAMP_VALUE IDENTIFIER QUOTEDIDENTIFIER UNRECOGNIZED"
).split()
"""The kinds of words, in their order in messages."""
END = "<EOF>"
KEYWORDS = frozenset("AND OR NOT BETWEEN IN STRUCT CONST DATE TIMESTAMP IS TRUE FALSE LIKE".split())
OPERATORS = frozenset(["EQ", "<=>", "<>", "!=", "<", "<=", ">", ">=", "LIKE"])
CONSTANTS = frozenset("- DATE TIMESTAMP STRING INTEGER_VALUE DATE_VALUE TIMESTAMP_VALUE".split())
NAMES = frozenset(["IDENTIFIER", "QUOTEDIDENTIFIER"])
_UNQUOTED = NAMES | {"EQ", "STRING", "INTEGER_VALUE", "DATE_VALUE", "TIMESTAMP_VALUE", "UNRECOGNIZED", END}
_RANK = {kind: rank for rank, kind in enumerate((END, *KINDS))}

_WORD = re.compile(
    r"""(?P<blank>[ \r\n\t]+)
    |(?P<STRING>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
    |(?P<TIMESTAMP_VALUE>[0-9]{4}-[0-9]{2}-[0-9]{2}\ [0-9]{2}:[0-9]{2}:[0-9]{2})
    |(?P<DATE_VALUE>[0-9]{4}-[0-9]{2}-[0-9]{2})
    |(?P<name>(?:[A-Za-z0-9_]|[ıſ])+)
    |(?P<QUOTEDIDENTIFIER>`(?:``|[^`])*`)
    |(?P<EQ>==?)
    |(?P<sign><=>|<=|<>|<|>=|>|!=|[(),-])
    |(?P<UNRECOGNIZED>.)""",
    re.VERBOSE | re.DOTALL,
)


class Word(NamedTuple):
    """A word: its kind, its text, and its offset in the filter."""

    kind: str
    text: str
    at: int

    @property
    def end(self) -> int:
        """The offset after the word."""
        return self.at + len(self.text)


def words(text: str) -> list[Word]:
    """The words of a filter, followed by END."""
    found = []
    for match in _WORD.finditer(text):
        group, written = match.lastgroup, match[0]
        if group == "name":
            found.append(Word(_kind(written), written, match.start()))
        elif group == "sign":
            found.append(Word(written, written, match.start()))
        elif group is not None and group != "blank":
            found.append(Word(group, written, match.start()))
    found.append(Word(END, END, len(text)))
    return found


def _kind(written: str) -> str:
    folded = written.upper()
    if folded in KEYWORDS:
        return folded
    return "INTEGER_VALUE" if written.isdecimal() else "IDENTIFIER"


def shown(kinds: Iterable[str]) -> str:
    """A set of kinds as in messages: `{'AND', STRING}`; a single kind without braces."""
    each = [kind if kind in _UNQUOTED else f"'{kind}'" for kind in sorted(kinds, key=_RANK.__getitem__)]
    return each[0] if len(each) == 1 else "{" + ", ".join(each) + "}"
