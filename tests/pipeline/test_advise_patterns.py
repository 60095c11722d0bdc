"""Suggested patterns admit what they should, as the proxy reads them, and look as a person would write them."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hms_cache_proxy.config import load
from hms_cache_proxy.pipeline.advise.patterns import MOST, KnownTable, Patterns, patterns

PART = st.text(st.sampled_from("ab_[*].?!é x"), min_size=1, max_size=6).filter(lambda text: text.strip() == text)
DATABASE = PART.filter(lambda text: "." not in text)
NAMES = st.builds(KnownTable, st.sampled_from(["sales", "s", "tmp", "x y", "[s]"]) | DATABASE, PART)


def admitted(made: Patterns, known: Iterable[KnownTable]) -> set[KnownTable]:
    """By the settings themselves."""
    selection = load(cli={"include": made.include, "exclude": made.exclude}).selection
    return {name for name in known if selection.admits(name.database.encode(), name.table.encode())}


def names(text: str) -> set[KnownTable]:
    return {KnownTable(*one.split(".")) for one in text.split()}


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # a busy machine is no bug
@given(st.sets(NAMES, max_size=25), st.sets(NAMES, max_size=25), st.booleans())
def test_exactly_the_wanted_tables(wanted: set[KnownTable], others: set[KnownTable], all_known: bool) -> None:
    made = patterns(wanted, others, all_known=all_known)
    assert made.admitted == wanted
    if wanted or others:
        assert admitted(made, wanted | others) == wanted


def test_a_whole_database_is_one_pattern() -> None:
    made = patterns(names("sales.a sales.b crm.x"), names("tmp.a tmp.b crm.y"), all_known=False)
    assert (made.include, made.exclude) == (("crm.x", "sales.*"), ())


def test_tables_that_begin_alike_are_one_pattern() -> None:
    others = names("sales.tmp_1 sales.tmp_2 sales.tmp_3 sales.tmp_a_4 sales.old")
    made = patterns(names("sales.orders sales.items sales.tmpl"), others, all_known=True)
    assert (made.include, made.exclude) == ((), ("sales.old", "sales.tmp_*"))


def test_a_beginning_that_a_wanted_table_has_too_is_no_pattern() -> None:
    others = names("sales.tmp_1 sales.tmp_2 sales.tmp_3 sales.tmp_x_4 sales.tmp_x_5 sales.tmp_x_6")
    made = patterns(names("sales.tmp_keep"), others, all_known=True)
    assert made.include == ("sales.tmp_keep",)
    made = patterns(others, names("sales.tmp_keep"), all_known=False)
    assert (made.include, made.exclude) == (("sales.*",), ("sales.tmp_keep",))
    made = patterns(others, names("sales.tmp_a sales.tmp_b sales.tmp_c sales.tmp_d sales.tmp_e"), all_known=False)
    assert made.include == ("sales.tmp_1", "sales.tmp_2", "sales.tmp_3", "sales.tmp_x_*")


def test_a_few_tables_of_many_are_named() -> None:
    others = {KnownTable("sales", f"{letter}table") for letter in "bcdefghijklmnop"}
    made = patterns(names("sales.atable"), others, all_known=False)
    assert (made.include, made.exclude) == (("sales.atable",), ())


def test_all_but_a_few_of_a_database_are_left_out() -> None:
    wanted = {KnownTable("sales", f"{letter}table") for letter in "bcdefghijklmnop"}
    made = patterns(wanted, names("sales.atable"), all_known=False)
    assert (made.include, made.exclude) == (("sales.*",), ("sales.atable",))


def test_nothing_to_be_said_where_everything_is_wanted() -> None:
    known = names("a.b c.d")
    assert patterns(known, set(), all_known=True) == Patterns((), (), frozenset(known))
    assert patterns(known, set(), all_known=False).include == ("a.*", "c.*")  # there may be more
    assert patterns(set(), set(), all_known=False) == Patterns((), (), frozenset())
    assert patterns(set(), known, all_known=True).exclude == ("*.*",)


def test_never_more_than_anybody_reads() -> None:
    wanted = {KnownTable("big", f"t{number}x") for number in range(2 * MOST)} | names("small.a small.b")
    others = {KnownTable("big", f"u{number}y") for number in range(2 * MOST)} | names("small.c")
    for all_known in (True, False):
        made = patterns(wanted, others, all_known=all_known)
        assert len(made.include) + len(made.exclude) <= MOST
        assert admitted(made, wanted | others) == made.admitted == wanted | {o for o in others if o.database == "big"}
