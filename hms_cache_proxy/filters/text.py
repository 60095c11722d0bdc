"""Parses Hive's filter language: a text becomes a tree, or is refused with the message of Hive's parser.

Job: `parse(text)` is for filters of partitions and of tables; `read(words)` also returns where the filter ends.
Must not know: keys, types, rows.

What follows a complete filter is ignored, as in Hive. Hive's parser, which ANTLR generates, has two sorts of errors. If
more than one word is needed to choose a rule (after `(`, and for a name before its operator), an error before the
choice is "no viable alternative", with all words since the choice began. Elsewhere the parser looks one word further:
the next word is superfluous ("extraneous"), a word is missing ("missing"), or else it is "mismatched". Errors in
literals, and comparisons that cannot be inverted, are reported only if the text is otherwise a filter. Source:
PartitionFilter.g4 and PartFilterVisitor of 4.2.0, ANTLR's DefaultErrorStrategy; tested with 4.2.0. Owner: any thread;
no state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from .times import complaint
from .tree import Compare, Joined, Literal, Node, Op, joined
from .words import CONSTANTS, END, NAMES, OPERATORS, Word, shown, words

_PARSING = "Error parsing partition filter: "
_LONG = 1 << 63
_MOST_DIGITS = 20
"""Digits that are parsed; a number with so many exceeds 64 bits."""
_TRUTHS = frozenset(["TRUE", "FALSE"])
_FIRST = CONSTANTS | NAMES | {"("}
_AFTER = frozenset(["AND", "OR", END])
_AFTER_NAME = OPERATORS | {"NOT", "BETWEEN"}
_OPS: dict[str, Op] = {"EQ": "=", "<>": "!=", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">=", "LIKE": "like"}
_OPS["<=>"] = "="  # part of the language, but refused afterwards
_FLIPPED: dict[Op, Op] = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_INVERSE: dict[Op, Op] = {"=": "!=", "!=": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
Item = TypeVar("Item")


class Refused(Exception):
    """The text is not a filter. The message is that of Hive's MetaException."""


def parse(text: str) -> Node:
    """The tree of a filter. Raises Refused for any other text."""
    return read(words(text))[0]


def read(given: list[Word]) -> tuple[Node, int]:
    """The tree of the filter at the beginning of these words, and its number of words. Raises Refused if there is
    none."""
    parser = _Parser(given)
    node = parser.either()
    if parser.wrong:
        raise Refused(parser.wrong[0])
    return node, parser.at


class _Parser:
    def __init__(self, given: list[Word]) -> None:
        self._words = given
        self._kinds = [word.kind for word in given]
        self._kinds += [END]  # the parser looks one word ahead
        self.at = 0
        self._depth = 0  # of parentheses
        self._choice: int | None = None  # the word where an undecided choice began
        self._choice_depth = 0
        self._several = False  # whether there was an AND or OR in what `either` read last
        self._more: frozenset[str] = frozenset()  # words with which the previous part could have continued
        self.wrong: list[str] = []  # errors of a text that is otherwise a filter

    # -- words ---------------------------------------------------------------------------------------------------
    def _kind(self, ahead: int = 0) -> str:
        return self._kinds[self.at + ahead]

    def _take(self) -> Word:
        word = self._words[self.at]
        if word.kind != END:
            self.at += 1
        return word

    def _want(self, kinds: Iterable[str], then: Iterable[str] = ()) -> Word:
        """Takes the next word if it is one of `kinds`. `then`: the kinds that may follow it."""
        if self._kind() not in kinds:
            raise self._wrong(kinds, then, self._more)
        return self._take()

    def _either_of(self, kinds: Iterable[str], *, repeated: bool = False) -> None:
        """Before a choice: checks that the next word is one of these. `repeated`: in a list, after its first
        element."""
        if self._kind() not in kinds:
            raise self._wrong(kinds, repeated=repeated)
        self._more = frozenset()

    def _wrong(
        self,
        kinds: Iterable[str],
        then: Iterable[str] = (),
        more: frozenset[str] = frozenset(),
        *,
        repeated: bool = False,
    ) -> Refused:
        if self._choice is not None:
            passed = self._words[self._choice : self.at + 1]
            text = "".join(word.text for word in passed if word.kind != END or len(passed) == 1)
            return _refused(f"no viable alternative at input {_quoted(text)}")
        found = _quoted(self._words[self.at].text)
        if repeated or self._kind(1) in kinds:  # in a repeated loop, ANTLR looks no further
            return _refused(f"extraneous input {found} expecting {shown(kinds)}")
        if self._kind() in then:
            return _refused(f"missing {shown(kinds)} at {found}")
        return _refused(f"mismatched input {found} expecting {shown(more or kinds)}")

    def _choosing(self, made: bool) -> bool:
        """Begins a choice here, unless one is in progress; True if it began."""
        if self._choice is None and not made:
            self._choice, self._choice_depth = self.at, self._depth
            return True
        return False

    # -- rules ---------------------------------------------------------------------------------------------------
    def either(self) -> Node:
        """Terms joined by OR; the whole filter."""
        first, several = self._both()
        terms = [first]
        while self._kind() == "OR":
            several = True
            self._take()
            terms.append(self._both()[0])
        self._several = several
        return joined(terms, every=False)

    def _both(self) -> tuple[Node, bool]:
        terms = [self._term()]
        while self._kind() == "AND":
            self._take()
            terms.append(self._term())
        return joined(terms, every=True), len(terms) > 1

    def _term(self) -> Node:
        self._either_of(_FIRST)
        if self._kind() == "(":
            return self._in_parentheses()
        if self._kind() in NAMES:
            return self._of_name()
        value = self._constant(OPERATORS)
        sign = self._want(OPERATORS, NAMES).kind
        return self._comparison(self._name(), sign, value, flipped=True)

    def _comparison(self, key: str, sign: str, value: Literal, *, flipped: bool = False) -> Compare:
        op = _OPS[sign]
        if sign == "<=>":
            self.wrong.append(f"{_PARSING}Unsupported comparison operator: <=>")
        return Compare(key, _FLIPPED.get(op, op) if flipped else op, value, flipped)

    def _of_name(self) -> Node:
        chosen = self._choosing(made=False)
        key = self._name()
        if self._kind() not in _AFTER_NAME:
            raise self._wrong(_AFTER_NAME)
        if chosen:
            self._choice = None
        if self._kind() in OPERATORS:
            sign = self._want(OPERATORS, CONSTANTS).kind
            return self._comparison(key, sign, self._constant(_AFTER))
        negated = self._negated({"BETWEEN"})
        self._want({"BETWEEN"}, CONSTANTS)
        low = self._constant({"AND"})
        self._want({"AND"}, CONSTANTS)
        high = self._constant(_AFTER)
        if negated:
            return Joined((Compare(key, "<", low), Compare(key, ">", high)), every=False)
        return Joined((Compare(key, ">=", low), Compare(key, "<=", high)), every=True)

    def _in_parentheses(self) -> Node:
        chosen = self._choosing(made=self._kind(1) == "STRUCT")
        self._take()
        if self._kind() == "STRUCT":
            return self._of_several()
        if self._kind() in NAMES and self._kind(1) == ")":
            node = self._of_list()
            alone = True
        else:
            self._depth += 1
            node = self.either()
            self._depth -= 1
            alone = not self._several
            self._want({")"})
            if chosen and self._kind() == "IS" and not alone:
                self._choice = None
            alone = alone and self._kind() == "IS"
        if self._kind() == "IS":
            node = self._truth(node, chosen and not alone)
        if chosen:
            self._choice = None
        return node

    def _of_list(self) -> Node:
        """`k) IN (1, 2)`, after the parenthesis was taken."""
        key = self._name()
        self._take()
        negated = self._negated({"IN"})
        self._want({"IN"})
        self._want({"("})
        values = self._sequence(lambda: self._constant({",", ")"}))
        self._want({")"}, {"IS", *_AFTER})
        if self._kind() == "IS" and self._depth == self._choice_depth:
            self._choice = None  # the choice began with this parenthesis
        return _in(key, values, negated)

    def _of_several(self) -> Node:
        """`STRUCT(a, b)) IN (STRUCT(1, 2), STRUCT(3, 4))`; there must be two, as in Hive."""
        self._take()
        self._want({"("}, NAMES)
        keys = self._sequence(self._name_as_written, closed=True)
        self._want({")"}, {")"})
        self._want({")"}, {"NOT", "IN"})
        negated = self._negated({"IN"})
        self._want({"IN"}, {"("})
        self._want({"("}, {"CONST", "STRUCT"})
        rows = [self._struct({","})]
        self._want({","}, {"CONST", "STRUCT"})
        rows.append(self._struct({")"}))
        self._want({")"}, _AFTER)
        terms: list[Node] = []
        for row in rows:
            if len(row) != len(keys):
                shown_row = ", ".join(value.text for value in row)
                told = f"Struct key [{', '.join(keys)}] and value [{shown_row}] sizes do not match."
                self.wrong.append(_PARSING + told)
            pairs: list[Node] = [
                Compare(key, "!=" if negated else "=", value) for key, value in zip(keys, row, strict=False)
            ]
            terms.append(joined(pairs, every=not negated))
        return joined(terms, every=negated)

    def _struct(self, then: Iterable[str]) -> list[Literal]:
        self._either_of({"CONST", "STRUCT"})
        if self._kind() == "CONST":
            self._take()
        self._want({"STRUCT"}, {"("})
        self._want({"("}, CONSTANTS)
        values = self._sequence(lambda: self._constant({",", ")"}))
        self._want({")"}, then)
        return values

    def _sequence(self, one: Callable[[], Item], *, closed: bool = False) -> list[Item]:
        found = [one()]
        if closed:
            self._either_of({",", ")"})
        while self._kind() == ",":
            self._take()
            found.append(one())
            if closed:
                self._either_of({",", ")"}, repeated=True)
        if not closed:
            self._more = self._more or frozenset([",", ")"])
        return found

    def _truth(self, node: Node, chosen: bool) -> Node:
        self._take()
        if chosen:
            self._choice = None
        negated = self._negated(_TRUTHS)
        truth = self._want(_TRUTHS, _AFTER).kind == "TRUE"
        return self._inverted(node) if truth is negated else node

    def _inverted(self, node: Node) -> Node:
        if isinstance(node, Joined):
            return Joined(tuple(self._inverted(term) for term in node.terms), not node.every)
        if node.op == "like":
            self.wrong.append("java.lang.UnsupportedOperationException: LIKE operator inversion is not supported.")
            return node
        written = _FLIPPED.get(node.op, node.op) if node.flipped else node.op
        return Compare(node.key, _INVERSE[written], node.value)  # Hive 4.2 forgets on which side the literal was

    def _negated(self, then: Iterable[str]) -> bool:
        self._either_of({"NOT", *then})
        if self._kind() != "NOT":
            return False
        self._take()
        return True

    def _name(self) -> str:
        self._either_of(NAMES)
        word = self._take()
        return word.text if word.kind == "IDENTIFIER" else word.text[1:-1].replace("``", "`")

    def _name_as_written(self) -> str:
        self._either_of(NAMES)
        return self._take().text

    def _constant(self, then: Iterable[str]) -> Literal:
        self._either_of(CONSTANTS)
        kind = self._kind()
        if kind == "STRING":
            text = self._take().text
            while self._kind() == "STRING":
                text += self._take().text
            self._more = self._more or frozenset(["STRING", *then])
            return Literal(_unquoted(text), "string")
        if kind in ("DATE", "TIMESTAMP"):
            self._take()
            return self._of_time(kind, _unquoted(self._want({"STRING"}, then).text))
        if kind in ("DATE_VALUE", "TIMESTAMP_VALUE"):
            return self._of_time(kind.removesuffix("_VALUE"), self._take().text)
        sign = self._take().text if kind == "-" else ""
        digits = self._want({"INTEGER_VALUE"}, then).text
        number = int(sign + (digits.lstrip("0")[:_MOST_DIGITS] or "0"))
        if not -_LONG <= number < _LONG:
            self.wrong.append(f'java.lang.NumberFormatException: For input string: "{sign}{digits}"')
        return Literal(str(number), "integer")

    def _of_time(self, kind: str, text: str) -> Literal:
        told = complaint(kind, text)
        if told:
            self.wrong.append(f"{_PARSING}Text '{text}' could not be parsed{told}")
        return Literal(text, "date" if kind == "DATE" else "timestamp")


def _in(key: str, values: list[Literal], negated: bool) -> Node:
    return joined([Compare(key, "!=" if negated else "=", value) for value in values], every=negated)


def _refused(text: str) -> Refused:
    return Refused(f"{_PARSING}lexer error: {text}")


def _quoted(text: str) -> str:
    escaped = text.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    return f"'{escaped}'"


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text
