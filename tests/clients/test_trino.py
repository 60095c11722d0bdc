"""How `make trino` finds a difference, and what it counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from tests.clients import calls
from tests.clients.trino import BY_PROXY, KINDS, STRAIGHT, Kind, Outcome, Trial, catalogs, equal, is_ordered
from tests.clients.trino_server import Result
from tests.clients.trino_statements import READS, Overwriting, Refused, Statement

Answer = Callable[[str, Mapping[str, str]], Result]


def trial(answer: Answer, statements: Sequence[Statement]) -> Trial:
    """What becomes of these when `answer` gives the answers."""
    made = Trial("hive", answer, lambda: None, Path("/files"))
    made.run(statements)
    return made


def one_row(*values: object) -> Result:
    return Result(("a",), (values,))


def test_each_side_has_its_catalog_and_its_schema() -> None:
    asked = []

    def answer(sql: str, session: Mapping[str, str]) -> Result:
        asked.append((sql, dict(session)))
        return Result((), ())

    done = trial(answer, [Overwriting("insert into {s}.t values 1"), "select '{w}' from {c}.{n}.t"])
    overwrite = "insert_existing_partitions_behavior"
    assert asked == [
        ("insert into straight_hive.hive_straight.t values 1", {f"straight_hive.{overwrite}": "OVERWRITE"}),
        ("insert into by_proxy_hive.hive_by_proxy.t values 1", {f"by_proxy_hive.{overwrite}": "OVERWRITE"}),
        ("select '/files/by_proxy' from by_proxy_hive.hive_by_proxy.t", {}),
        ("select '/files/straight' from straight_hive.hive_straight.t", {}),
        ("select '/files/by_proxy' from straight_hive.hive_by_proxy.t", {}),
        ("select '/files/straight' from by_proxy_hive.hive_straight.t", {}),
    ]
    assert (done.executed, done.differences) == (6, [])


def test_names_and_ids_are_no_difference() -> None:
    def answer(sql: str, session: Mapping[str, str]) -> Result:
        location = f"{sql}-0123456789abcdef0123456789abcde{len(sql) % 10}"
        return Result(("a",), ((location, (sql, 1)),), f"NO: {sql}" if "refused" in sql else None)

    statements: list[Statement] = ["create {s}.t", Refused("select refused {c} {n} {w}", "NO"), "select {s}.t"]
    assert trial(answer, statements).differences == []


@pytest.mark.parametrize("catalog, schema", [(BY_PROXY, BY_PROXY), (BY_PROXY, STRAIGHT), (STRAIGHT, BY_PROXY)])
def test_an_answer_of_its_own_is_a_difference(catalog: str, schema: str) -> None:
    """Stale in the schema that was written by the proxy, or past it; or straight another one than by the proxy."""

    def answer(sql: str, session: Mapping[str, str]) -> Result:
        return one_row("old" if f"{catalog}_hive.hive_{schema}." in sql else "new")

    differences = trial(answer, ["select a from {s}.t"]).differences
    assert differences and all(one.startswith("select a from {s}.t\n") for one in differences)


def test_a_table_of_the_other_schema_is_a_difference() -> None:
    """Of the same schema in both catalogs, a name of the other one is wrong."""

    def answer(sql: str, session: Mapping[str, str]) -> Result:
        return one_row("hive_straight" if "by_proxy_hive" in sql else sql.partition(".")[2])

    assert trial(answer, ["select {s}"]).differences


def test_a_write_that_fails_on_one_side_is_a_difference() -> None:
    def answer(sql: str, session: Mapping[str, str]) -> Result:
        return Result((), (), "NOT_FOUND: t" if "by_proxy_hive" in sql else None)

    assert len(trial(answer, ["drop table {s}.t"]).differences) == 1


def test_an_error_on_both_sides_must_be_the_one_that_is_expected() -> None:
    def answer(sql: str, session: Mapping[str, str]) -> Result:
        return Result((), (), "NOT_FOUND: t" if "gone" in sql else None)

    for sql in ("drop table {s}.gone", "select a from {s}.gone"):
        assert trial(answer, [Refused(sql, "NOT_FOUND")]).differences == []
        assert len(trial(answer, [sql]).differences) == len(trial(answer, [Refused(sql, "OTHER")]).differences) == 1
    assert len(trial(answer, [Refused("drop table {s}.there", "NOT_FOUND")]).differences) == 1


def test_order_counts_where_it_was_asked_for() -> None:
    one, other = Result(("a",), ((1,), (2,))), Result(("a",), ((2,), (1,)))
    assert equal(one, other, ordered=False) and not equal(one, other, ordered=True)
    assert not equal(one, Result(("a",), ((1,), (2,), (2,))), ordered=False)
    assert not equal(one, Result(("b",), one.rows), ordered=True)
    assert is_ordered("select a from t order by a") and is_ordered("show tables from s")
    assert not is_ordered("select a from t") and not is_ordered("show grants on t")


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_each_kind_ends_without_its_schema(kind: Kind) -> None:
    texts = [one if isinstance(one, str) else one.sql for one in kind.statements]
    assert texts[0] == "create schema {s}" and any(text.startswith("drop schema {s}") for text in texts[-3:])
    assert all(text.startswith("show ") for text in texts[-2:] if not text.startswith("drop schema"))
    for text in texts:
        filled = trial(lambda sql, session: Result((), ()), [text]).side(STRAIGHT, STRAIGHT).filled(text)
        assert "{" not in filled, filled
    reads = [text for text in texts if text.startswith(READS)]
    assert len(texts) / 3 < len(reads) < len(texts)


def test_the_two_catalogs_of_a_kind_differ_in_the_metastore_only() -> None:
    made = catalogs(KINDS, "thrift://one:1", "thrift://two:2")
    assert len(made) == 2 * len(KINDS)
    for kind in KINDS:
        straight, by_proxy = made[f"straight_{kind.name}"], made[f"by_proxy_{kind.name}"]
        assert {key for key in straight if straight[key] != by_proxy[key]} == {"hive.metastore.uri"}
        assert straight.keys() == by_proxy.keys()


def test_what_is_told_of_a_run() -> None:
    requests = {
        ("get_table", "hit", ""): 6.0,
        ("get_table", "miss", "fence"): 2.0,
        ("create_table", "write", ""): 3.0,
        ("lock", "relay", "unknown"): 2.0,
        ("get_database", "hit", ""): 0.0,
    }
    assert calls.rows(requests) == [
        ["get_table", 6, 2, 0, 0, 0, "fence 2"],
        ["create_table", 0, 0, 0, 3, 0, ""],
        ["lock", 0, 0, 2, 0, 0, "unknown 2"],
    ]
    assert calls.since({("get_table", "hit", ""): 6.0, ("lock", "relay", "unknown"): 1.5}, requests) == {
        ("get_table", "miss", "fence"): 2.0,
        ("create_table", "write", ""): 3.0,
        ("lock", "relay", "unknown"): 0.5,
    }
    outcome = Outcome("iceberg", 5, 7, ["select 1\n  differs"], 12.34, requests)
    lines = outcome.text().splitlines()
    assert lines[0] == "select 1"
    assert lines[-1] == "iceberg: 5 statements, executed 7 times in 12 s: 1 differences"
    assert "6 of 10 calls other than writes were hits (60.0%)" in lines
    told = outcome.figures()
    assert (told["differences"], told["reads"], told["hits"], told["seconds"]) == (1, 10, 6, 12.3)
