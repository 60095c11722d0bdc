"""Filters of partitions, right ones and broken ones, and tables to ask with them.

Job: `make_tables(client, database)`, `requests(database, seed)`: an endless stream. Half of the filters are sentences
of Hive's language over keys of several types, the others such sentences with words taken out, put in or changed, or
words alone. Must not know: who is asked.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from tests.testbed.client import MetastoreClient
from tests.testbed.objects import add_partitions, create_database, create_table, table

DEFAULT = "__HIVE_DEFAULT_PARTITION__"
TABLES: dict[str, tuple[list[tuple[str, str]], list[list[str]]]] = {
    "s": (
        [("s", "string")],
        [[value] for value in ("a", "b", "a b", "a%b", "a_b", "axb", "A", "quo'te", "back\\slash", "1", "ü", DEFAULT)],
    ),
    "n": ([("n", "int")], [["1"], ["2"], ["10"], ["-1"], ["007"], [DEFAULT]]),
    "d": ([("d", "date")], [["2024-01-01"], ["2024-01-02"], ["2023-12-31"], [DEFAULT]]),
    "m": (
        [("s", "string"), ("n", "bigint"), ("d", "date")],
        [
            ["a", "1", "2024-01-01"],
            ["a_b", "2", "2024-01-02"],
            ["axb", "2", "2024-01-02"],
            ["a%b", "10", DEFAULT],
            [DEFAULT, DEFAULT, DEFAULT],
            ["b", DEFAULT, "2023-12-31"],
        ],
    ),
    "v": ([("v", "varchar(20)"), ("c", "char(3)")], [["a", "x"], ["b", "y"], ["a_b", "abc"], [DEFAULT, "x"]]),
    "t": (
        [("t", "timestamp"), ("s", "string")],
        [["2024-01-01 00:00:00", "a"], ["2024-01-02 10:11:12", "b"], [DEFAULT, "c"]],
    ),
    "o": ([("b", "boolean"), ("x", "decimal(10,2)")], [["true", "1.00"], ["false", "2.50"]]),
}
_TEXTS = ["'a'", '"b"', "'a_b'", "'a%b'", "'1'", "1", f"'{DEFAULT}'", "'quo''te'", '"quo\'te"', "''", "'a' 'b'"]
LITERALS = {
    "n": ["1", "2", "007", "-1", "- 1", "'1'", "10", f"'{DEFAULT}'", "99999999999999999999", "9223372036854775807"],
    "d": ["'2024-01-01'", "2024-01-01", "DATE '2024-01-02'", "'2024-1-1'", "'x'", "20240101", f"'{DEFAULT}'"]
    + ["2024-13-45", "2024-02-30", "date '2023-02-29'", "date '2024-1-01'", "'2024-01-01 00:00:00'"],
    "t": ["'2024-01-01 00:00:00'", "2024-01-02 10:11:12", "TIMESTAMP '2024-01-01 00:00:00'", "'2024-01-01'", "'x'"],
    "b": ["'true'", "true", "1"],
}
PATTERNS = ["'a%'", "'%b'", "'a_b'", "'a\\_b'", "'2024%'"]
WORDS = (
    "( ) , and or not between in struct const - date timestamp is true false = == <=> <> != < <= > >= like 'a' \"b\" 1"
    " 007 2024-01-01 s n d `s` zz # ' \\ ü"
).split()


def make_tables(client: MetastoreClient, database: str) -> None:
    """The database and TABLES in it."""
    create_database(client, database)
    for name, (keys, values) in TABLES.items():
        add_partitions(client, create_table(client, table(database, name, partition_keys=keys)), values)


def requests(database: str, seed: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Calls for partitions by filter."""
    rng = random.Random(seed)
    while True:
        name = rng.choice(list(TABLES))
        roll = rng.random()
        if roll < 0.5:
            text = sentence(rng, name)
        else:
            text = broken(rng, name) if roll < 0.9 else " ".join(rng.choice(WORDS) for _ in range(rng.randint(0, 6)))
        yield "get_partitions_by_filter", {"db_name": database, "tbl_name": name, "filter": text, "max_parts": -1}


def sentence(rng: random.Random, name: str, depth: int = 0) -> str:
    """A filter of the language, which need not mean anything for these keys."""
    if depth < 3 and rng.random() < 0.4:
        inner, roll = sentence(rng, name, depth + 1), rng.random()
        if roll < 0.3:
            return f"({inner}) is {rng.choice(['', 'not '])}{rng.choice(['true', 'false'])}"
        if roll < 0.5:
            return f"({inner})"
        return f"{inner} {rng.choice(['and', 'or', 'AND'])} {sentence(rng, name, depth + 1)}"
    keys = [key for key, _ in TABLES[name][0]]
    key = rng.choice(keys) if rng.random() < 0.95 else "nokey"
    written, roll = rng.choice([*[key] * 8, f"`{key}`", key.upper()]), rng.random()

    def literal() -> str:
        return rng.choice(LITERALS.get(key, _TEXTS))

    if roll < 0.45:
        return f"{written} {rng.choice(['=', '==', '!=', '<>', '<', '<=', '>', '>=', '<=>'])} {literal()}"
    if roll < 0.55:
        return f"{literal()} {rng.choice(['=', '!=', '<', '>=', 'like'])} {written}"
    negated = rng.choice(["", "not "])
    if roll < 0.65:
        return f"{written} {negated}between {literal()} and {literal()}"
    if roll < 0.78:
        return f"({written}) {negated}in ({', '.join(literal() for _ in range(rng.randint(1, 3)))})"
    if roll < 0.85:
        rows = f"struct({literal()},{literal()}), const struct({literal()}, {literal()})"
        return f"(struct({written}, {rng.choice(keys)})) {negated}in ({rows})"
    return f"{written} like {rng.choice([literal(), *PATTERNS])}"


def broken(rng: random.Random, name: str) -> str:
    """A filter with up to three words too many, too few or wrong."""
    text = sentence(rng, name)
    for sign in "(),":
        text = text.replace(sign, f" {sign} ")
    found = text.split(" ")
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        at, roll = rng.randrange(len(found)), rng.random()
        if roll < 0.4:
            found[at : at + 1] = []
        elif roll < 0.7:
            found.insert(at, rng.choice(WORDS))
        else:
            found[at] = rng.choice(WORDS)
        found = found or [""]
    return " ".join(found)
