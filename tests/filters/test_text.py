"""Trees of filters, and what Hive 4.2.0 says of texts that are none: `tests/embedded/test_reads.py` asks it itself."""

from __future__ import annotations

from typing import Any, Final

import pytest

from hms_cache_proxy.filters.text import Refused, parse, read
from hms_cache_proxy.filters.tree import Compare, Joined, Literal, Node, compiled, joined, keys_of
from hms_cache_proxy.filters.words import END, words


def text(value: str) -> Literal:
    return Literal(value, "string")


def number(value: int) -> Literal:
    return Literal(str(value), "integer")


A, B = Compare("a", "=", number(1)), Compare("b", "<", text("x"))
TREES: list[tuple[str, Node]] = [
    ("a = 1", A),
    ("(a==1)", A),
    ("`a` = 001", A),
    ("a<>1", Compare("a", "!=", number(1))),
    ("'x' > b", Compare("b", "<", text("x"), flipped=True)),
    ("- 5 <= A", Compare("A", ">=", number(-5), flipped=True)),
    ("a = 1 or b < 'x' AND a = 1", joined([A, joined([B, A], every=True)], every=False)),
    ("(a = 1 or b < \"x\") and a = 1", joined([joined([A, B], every=False), A], every=True)),
    ("a between 1 and 2", joined([Compare("a", ">=", number(1)), Compare("a", "<=", number(2))], every=True)),
    ("a not between 1 and 2", joined([Compare("a", "<", number(1)), Compare("a", ">", number(2))], every=False)),
    ("(a) in (1)", A),
    ("(a) not in (1, 2)", joined([Compare("a", "!=", number(1)), Compare("a", "!=", number(2))], every=True)),
    ("(a = 1) is not true", Compare("a", "!=", number(1))),
    ("(b < 'x' or a = 1) is false", joined([Compare("b", ">=", text("x")), Compare("a", "!=", number(1))], every=True)),
    ("('x' > b) is false", Compare("b", "<=", text("x"))),  # the side of the literal is forgotten
    ("a = 'x' 'y'", Compare("a", "=", text("x''y"))),
    ("a = date '2024-02-29'", Compare("a", "=", Literal("2024-02-29", "date"))),
    ("a = 2024-01-01 10:00:00", Compare("a", "=", Literal("2024-01-01 10:00:00", "timestamp"))),
    ("a like 'x%'", Compare("a", "like", text("x%"))),
    ("a = 1 what follows is ignored", A),
]  # fmt: skip


@pytest.mark.parametrize(("written", "tree"), TREES, ids=[written for written, _ in TREES])
def test_the_tree(written: str, tree: Node) -> None:
    assert parse(written) == tree


REFUSED = [
    ("a =", "lexer error: mismatched input '<EOF>' expecting {'-', 'DATE', 'TIMESTAMP', STRING, INTEGER_VALUE,"
     " DATE_VALUE, TIMESTAMP_VALUE}"),
    ("a", "lexer error: no viable alternative at input 'a'"),
    ("a = = 1", "lexer error: extraneous input '=' expecting {'-', 'DATE', 'TIMESTAMP', STRING, INTEGER_VALUE,"
     " DATE_VALUE, TIMESTAMP_VALUE}"),
    ("(a = 1", "lexer error: no viable alternative at input '(a=1'"),
    ("a between 1 2", "lexer error: missing 'AND' at '2'"),
    ("a <=> 1", "Unsupported comparison operator: <=>"),
    ("a = 2024-02-30", "Text '2024-02-30' could not be parsed: Invalid date 'FEBRUARY 30'"),
]  # fmt: skip


@pytest.mark.parametrize(("written", "told"), REFUSED, ids=[written for written, _ in REFUSED])
def test_what_is_refused(written: str, told: str) -> None:
    with pytest.raises(Refused) as refusal:
        parse(written)
    assert str(refusal.value) == f"Error parsing partition filter: {told}"


@pytest.mark.parametrize("digits", ["9223372036854775808", "0" * 9 + "9" * 5000])
def test_a_number_of_more_than_64_bits(digits: str) -> None:
    with pytest.raises(Refused, match=f'java.lang.NumberFormatException: For input string: "{digits}"'):
        parse(f"a = {digits}")
    assert parse(f"a = -{'0' * 5000}7") == Compare("a", "=", number(-7))


def test_where_a_filter_ends() -> None:
    found = words("a = 1 b")
    assert found[read(found)[1]].text == "b"
    found = words("(a = 1)")
    assert found[read(found)[1]].kind == END


def test_keys_and_meaning() -> None:
    tree = parse("A = 1 and (`b` = 2 or a = 3)")
    assert keys_of(tree) == {b"a", b"b"}
    holds: Any = compiled(tree, lambda node: lambda row: row[node.folded] == int(node.value.text))  # type: ignore[misc]
    rows = [(a, b) for a in (1, 3) for b in (2, 9)]
    assert [row for row in rows if holds({b"a": row[0], b"b": row[1]})] == [(1, 2)]
    assert isinstance(tree, Joined)


NO_WAY: Final = "no viable alternative at input "
ANSWERS: Final = {
    # A choice that a parenthesis began is not made by IS behind a list in it.
    "((s) in ('1') is x ": NO_WAY + "'((s)in('1')isx'",
    "((s) in ('1') is not x ": NO_WAY + "'((s)in('1')isnotx'",
    "(t = '1' and (s) in ('1') is x ": NO_WAY + "'(t='1'and(s)in('1')isx'",
    "(s) in ('1') is x": "mismatched input 'x' expecting {'NOT', 'TRUE', 'FALSE'}",
    "((s) in ('1') is true ": NO_WAY + "'((s)in('1')istrue'",
    "((s) in ('1') is true x ": NO_WAY + "'((s)in('1')istruex'",
    "((s) in ('1') is true) is x": NO_WAY + "'((s)in('1')istrue)isx'",
    "(t = '1' and (s) in ('1') is true) is x": "mismatched input 'x' expecting {'NOT', 'TRUE', 'FALSE'}",
    "((s) in ('1') is true and t = '1') is x": "mismatched input 'x' expecting {'NOT', 'TRUE', 'FALSE'}",
    "(((s) in ('1') is x": NO_WAY + "'(((s)in('1')isx'",
    "(t = '1' and (s) in ('1') is true and (t) in ('a' ": NO_WAY + "'(t='1'and(s)in('1')istrueand(t)in('a''",
    "(t = '1' or (s) in ('1') is true and t = x ": NO_WAY + "'(t='1'or(s)in('1')istrueandt=x'",
    # In a list of columns that has gone round once, ANTLR looks no further than the word that is too much.
    "(struct(s, s < in (struct('a','b')))": "extraneous input '<' expecting {')', ','}",
    "(struct(s, s, s x in (struct('a','b','c')))": "extraneous input 'x' expecting {')', ','}",
    "(struct(s x in (struct('a')))": "mismatched input 'x' expecting {')', ','}",
    "(struct(s, x in (struct('a','b')))": "extraneous input 'in' expecting {')', ','}",
    "(struct(s, x x) in (struct('a','b')))": "extraneous input 'x' expecting {')', ','}",
}
"""What a running Hive 4.2.0 said of these texts."""


@pytest.mark.parametrize("given", ANSWERS)
def test_the_words_of_hive(given: str) -> None:
    with pytest.raises(Refused) as refused:
        parse(given)
    assert str(refused.value) == f"Error parsing partition filter: lexer error: {ANSWERS[given]}"
