"""The sentences of the advice, of one of everything and of several."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hms_cache_proxy.pipeline import page
from hms_cache_proxy.pipeline.advise import wording
from hms_cache_proxy.pipeline.advise.advice import MIB, Advice, advise
from hms_cache_proxy.pipeline.advise.lines import LinesRead
from hms_cache_proxy.pipeline.advise.patterns import KnownTable
from hms_cache_proxy.pipeline.advise.questions import ClientTraffic, Listing
from hms_cache_proxy.pipeline.advise.report import report
from hms_cache_proxy.pipeline.advise.snippet import snippet
from tests.pipeline.test_advise_choice import answers, item

CLIENT = ClientTraffic("10.0.0.9", "poller", 1, 1, 1, 1, 1, "get_table", "hive.a.hot", 1)
LISTING = Listing("hive.a.hot", "get_partitions", 1, 5 * MIB, 5 * MIB, 1, "10.0.0.9", None)


def advice_of(*, calls: float, users: int, tables: int, several: float, lines: int) -> Advice:
    """So many of everything; of the tables all but one were read."""
    names = [f"t{number}" for number in range(tables)]
    given = answers(*(item(f"hive.a.{name}", 10, 10, MIB) for name in names))
    overview = replace(given.overview, calls=calls, users=users, hosts=users, about_several=several)
    client = replace(CLIENT, calls=calls, upstream=calls, repeated_a_minute=calls)
    given = replace(given, overview=overview, clients=[client], listings=[replace(LISTING, calls=calls)])
    catalogue = frozenset({KnownTable("a", name) for name in [*names, "cold"]})
    return advise(["log"], LinesRead(lines, ()), given, catalogue, 0.9)


def test_one_of_everything() -> None:
    advice = advice_of(calls=1, users=1, tables=1, several=1, lines=1)
    first, chosen, patterns, never, *rest = wording.sentences(advice)
    assert first.startswith("1 call by 1 user from 1 host about 1 table, ")
    assert chosen.startswith("1 of 1 table gives a hit ratio of") and "It needs cache.max_bytes" in chosen
    assert patterns == "1 exclude pattern leaves out the rest (advice.toml)."
    assert never == (
        "1 of 2 tables was never read: a.cold. 1 call that names several tables is not counted: the log does not say"
        " which tables."
    )
    assert any(": 1 time, up to 5.0 MiB each," in sentence for sentence in rest)
    assert wording.hammer(advice.answers.clients[0]) == (
        "poller at 10.0.0.9 calls get_table about hive.a.hot 1 time in one minute (1 of its 1 call was not answered"
        " from the cache)."
    )
    assert snippet(advice).startswith("# Advice from 1 call, ")
    assert "<p>1 line; none was ignored.</p>" in report(advice, "", [])


def test_several_of_everything() -> None:
    advice = advice_of(calls=2000, users=2, tables=2, several=3, lines=12)
    first, chosen, patterns, never, *rest = wording.sentences(advice)
    assert first.startswith("2,000 calls by 2 users from 2 hosts about 2 tables, ")
    assert chosen.startswith("2 of 2 tables give a hit ratio of") and "They need cache.max_bytes" in chosen
    assert patterns == "1 exclude pattern leaves out the rest (advice.toml)."
    assert never.startswith("1 of 3 tables was never read: a.cold. 3 calls that name several tables are not counted")
    assert "(2,000 of its 2,000 calls were not answered from the cache)" in rest[0]
    assert ": 2,000 times, up to 5.0 MiB each," in rest[1]
    assert "<p>12 lines; " in report(advice, "", [])


@pytest.mark.parametrize(
    ("include", "exclude", "text"),
    [
        (1, 0, "1 include pattern leaves"),
        (0, 1, "1 exclude pattern leaves"),
        (3, 0, "3 include patterns leave"),
        (1, 1, "1 include pattern and 1 exclude pattern leave"),
        (2, 1, "2 include patterns and 1 exclude pattern leave"),
    ],
)
def test_patterns(include: int, exclude: int, text: str) -> None:
    assert wording.left_out(include, exclude) == f"{text} out the rest (advice.toml)."


@pytest.mark.parametrize(
    ("empty", "invalid", "text"),
    [
        (2, 4, "2 empty and 4 invalid lines were ignored"),
        (1, 1, "1 empty and 1 invalid line were ignored"),
        (0, 1, "1 invalid line was ignored"),
        (5, 0, "5 empty lines were ignored"),
        (0, 0, "none was ignored"),
    ],
)
def test_lines_that_are_ignored(empty: int, invalid: int, text: str) -> None:
    assert wording.ignored(empty, invalid) == text


@pytest.mark.parametrize(
    ("tables", "text"),
    [
        ([], "There are no tables."),
        (["hot"], "The only table was read."),
        (["hot", "warm"], "All 2 tables were read."),
    ],
)
def test_tables_that_were_all_read(tables: list[str], text: str) -> None:
    given = answers(*(item(f"hive.a.{name}", 10, 10, MIB) for name in tables))
    catalogue = frozenset(KnownTable("a", name) for name in tables)
    assert wording.never(advise(["log"], LinesRead(1, ()), given, catalogue, 0.9)) == text


def test_a_table_says_what_it_leaves_out() -> None:
    rows = [(f"t{number:02}", number) for number in range(page.ROWS + 1)]
    shown = "".join(page.table(("table", "# calls"), rows))
    assert "<td>t49</td>" in shown and "t50" not in shown and "The first 50 of 51 are shown." in shown
    assert "are shown" not in "".join(page.table(("table", "# calls"), rows[:-1]))
