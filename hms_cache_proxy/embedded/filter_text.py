"""The filter language of Hive: text to a tree, and what is no filter refused in the words of Hive's parser.

Job: `parse(text)`, of filters of partitions and of tables alike. Must not know: keys, types, rows.

What follows a whole filter is ignored, as Hive does. Its parser, made by ANTLR, complains in three ways. Where a choice
between rules needs more than a word to be made (all that begins with `(`, and a name before its operator), an error
before the choice is made is "no viable alternative" with all words from where it began. Elsewhere it looks one word
further: the word that comes is too much ("extraneous"), one that should be there is not ("missing"), else
"mismatched". Source: PartitionFilter.g4 and PartFilterVisitor of 4.2.0, ANTLR's DefaultErrorStrategy; asked of a
running 4.2.0. What is wrong with a literal, or cannot be inverted, is said only of a text that is a filter otherwise.
Owner: any thread; no state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from hms_cache_proxy.embedded.failures import meta
from hms_cache_proxy.embedded.filter_times import complaint
from hms_cache_proxy.embedded.filter_words import CONSTANTS, END, NAMES, OPERATORS, Word, shown, words

Op = Literal["=", "<>", "!=", "<", "<=", ">", ">=", "like", "<=>"]
_LONG = 1 << 63
_TRUTHS = frozenset(["TRUE", "FALSE"])
_FIRST = CONSTANTS | NAMES | {"("}
_AFTER = frozenset(["AND", "OR", END])
_OPS: dict[str, Op] = {"EQ": "=", "<>": "<>", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">=", "LIKE": "like"}
_OPS["<=>"] = "<=>"  # a word of the language that means nothing
_INVERSE: dict[Op, Op] = {"=": "!=", "<>": "=", "!=": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<", "<=>": "<=>"}
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Compare:
    """A key and a literal, a text or a number; `flipped`: the literal is written first."""

    key: str
    op: Op
    value: str | int
    flipped: bool = False


@dataclass(frozen=True, slots=True)
class Joined:
    """All of these, or one of them."""

    terms: tuple[Node, ...]
    every: bool


Node = Compare | Joined


def parse(text: str) -> Node:
    """The tree of a filter. MetaException for what is none."""
    parser = _Parser(words(text))
    node = parser.either()
    if parser.wrong:
        raise parser.wrong[0]
    return node


def _joined(terms: list[Node], *, every: bool) -> Node:
    return terms[0] if len(terms) == 1 else Joined(tuple(terms), every)


class _Parser:
    def __init__(self, given: list[Word]) -> None:
        self._words = given
        self._at = 0
        self._choice: int | None = None  # the word where the choice began that is not made yet
        self._more: frozenset[str] = frozenset()  # what might have gone on before the word that comes
        self.wrong: list[Exception] = []  # with a text that is a filter

    # -- words ---------------------------------------------------------------------------------------------------
    def _kind(self, ahead: int = 0) -> str:
        return self._words[min(self._at + ahead, len(self._words) - 1)].kind

    def _take(self) -> Word:
        word = self._words[self._at]
        self._at = min(self._at + 1, len(self._words) - 1)
        return word

    def _want(self, kinds: Iterable[str], then: Iterable[str] = ()) -> Word:
        """The word that comes, if it is one of these; `then`: what may follow it."""
        if self._kind() not in kinds:
            raise self._wrong(kinds, then, self._more)
        return self._take()

    def _either_of(self, kinds: Iterable[str]) -> None:
        """Before a choice: that one of these comes."""
        if self._kind() not in kinds:
            raise self._wrong(kinds)
        self._more = frozenset()

    def _wrong(self, kinds: Iterable[str], then: Iterable[str] = (), more: frozenset[str] = frozenset()) -> Exception:
        if self._choice is not None:
            passed = self._words[self._choice : self._at + 1]
            text = "".join(word.text for word in passed if word.kind != END or len(passed) == 1)
            return _refused(f"no viable alternative at input {_quoted(text)}")
        found = _quoted(self._words[self._at].text)
        if self._kind(1) in kinds:
            return _refused(f"extraneous input {found} expecting {shown(kinds)}")
        if self._kind() in then:
            return _refused(f"missing {shown(kinds)} at {found}")
        return _refused(f"mismatched input {found} expecting {shown(more or kinds)}")

    def _choosing(self, made: bool) -> bool:
        """Begin a choice here unless one is under way; True if this one is to be made."""
        if self._choice is None and not made:
            self._choice = self._at
            return True
        return False

    # -- rules ---------------------------------------------------------------------------------------------------
    def either(self) -> Node:
        terms = [self._both()]
        while self._kind() == "OR":
            self._take()
            terms.append(self._both())
        return _joined(terms, every=False)

    def _both(self) -> Node:
        terms = [self._term()]
        while self._kind() == "AND":
            self._take()
            terms.append(self._term())
        return _joined(terms, every=True)

    def _term(self) -> Node:
        self._either_of(_FIRST)
        if self._kind() == "(":
            return self._in_parentheses()
        if self._kind() in NAMES:
            return self._of_name()
        value = self._constant(OPERATORS)
        op = self._operator(NAMES)
        return self._comparison(Compare(self._name(), op, value, flipped=True))

    def _comparison(self, node: Compare) -> Node:
        if node.op == "<=>":
            self.wrong.append(meta("Error parsing partition filter: Unsupported comparison operator: <=>"))
        return node

    def _of_name(self) -> Node:
        chosen = self._choosing(made=False)
        key = self._name()
        if self._kind() not in OPERATORS | {"NOT", "BETWEEN"}:
            raise self._wrong(OPERATORS | {"NOT", "BETWEEN"})
        if chosen:
            self._choice = None
        if self._kind() in OPERATORS:
            op = self._operator(CONSTANTS)
            return self._comparison(Compare(key, op, self._constant(_AFTER)))
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
            node = self.either()
            alone = not self._several_terms(node)
            self._want({")"})
            if chosen and self._kind() == "IS" and not alone:
                self._choice = None
            alone = alone and self._kind() == "IS"
        if self._kind() == "IS":
            node = self._truth(node, chosen and not alone)
        if chosen:
            self._choice = None
        return node

    def _several_terms(self, node: Node) -> bool:
        """Whether AND or OR stood between these parentheses, outside of others and of BETWEEN."""
        depth = 0
        between = 0
        for word in reversed(self._words[: self._at]):
            depth += (word.kind == ")") - (word.kind == "(")
            if depth < 0:
                break
            if depth == 0:
                between += (word.kind in ("AND", "OR")) - (word.kind == "BETWEEN")
        return between > 0

    def _of_list(self) -> Node:
        """`k) IN (1, 2)`, the parenthesis before it taken."""
        key = self._name()
        self._take()
        negated = self._negated({"IN"})
        self._want({"IN"})
        self._want({"("})
        values = self._sequence(lambda: self._constant({",", ")"}))
        self._want({")"}, {"IS", *_AFTER})
        if self._kind() == "IS":
            self._choice = None if self._choice is not None and self._outermost() else self._choice
        return _in(key, values, negated)

    def _outermost(self) -> bool:
        """Whether the choice under way began with the parenthesis that was closed last."""
        depth = 0
        for at in range(self._at - 1, -1, -1):
            depth += (self._words[at].kind == ")") - (self._words[at].kind == "(")
            if depth == -1 or (depth == 0 and at == self._choice):
                return at == self._choice
        return False

    def _of_several(self) -> Node:
        """`STRUCT(a, b)) IN (STRUCT(1, 2), STRUCT(3, 4))`, two of them as Hive has it."""
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
                told = f"Struct key [{', '.join(keys)}] and value [{', '.join(map(str, row))}] sizes do not match."
                self.wrong.append(meta(f"Error parsing partition filter: {told}"))
            pairs: list[Node] = [
                Compare(key, "!=" if negated else "=", value) for key, value in zip(keys, row, strict=False)
            ]
            terms.append(_joined(pairs, every=not negated))
        return _joined(terms, every=negated)

    def _struct(self, then: Iterable[str]) -> list[str | int]:
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
                self._either_of({",", ")"})
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
            told = "java.lang.UnsupportedOperationException: LIKE operator inversion is not supported."
            self.wrong.append(meta(told))
            return node
        return replace(node, op=_INVERSE[node.op], flipped=False)  # 4.2 forgets which side the literal was on

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

    def _operator(self, then: Iterable[str]) -> Op:
        return _OPS[self._want(OPERATORS, then).kind]

    def _constant(self, then: Iterable[str]) -> str | int:
        self._either_of(CONSTANTS)
        kind = self._kind()
        if kind == "STRING":
            text = ""
            while self._kind() == "STRING":
                text += self._take().text
            self._more = self._more or frozenset(["STRING", *then])
            return _unquoted(text)
        if kind in ("DATE", "TIMESTAMP"):
            self._take()
            return self._of_time(kind, _unquoted(self._want({"STRING"}, then).text))
        if kind in ("DATE_VALUE", "TIMESTAMP_VALUE"):
            return self._of_time(kind.removesuffix("_VALUE"), self._take().text)
        sign = self._take().text if kind == "-" else ""
        digits = sign + self._want({"INTEGER_VALUE"}, then).text
        number = int(digits)
        if not -_LONG <= number < _LONG:
            self.wrong.append(meta(f'java.lang.NumberFormatException: For input string: "{digits}"'))
        return number

    def _of_time(self, kind: str, text: str) -> str:
        told = complaint(kind, text)
        if told:
            self.wrong.append(meta(f"Error parsing partition filter: Text '{text}' could not be parsed{told}"))
        return text


def _in(key: str, values: list[str | int], negated: bool) -> Node:
    return _joined([Compare(key, "!=" if negated else "=", value) for value in values], every=negated)


def _refused(text: str) -> Exception:
    return meta(f"Error parsing partition filter: lexer error: {text}")


def _quoted(text: str) -> str:
    escaped = text.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    return f"'{escaped}'"


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text
