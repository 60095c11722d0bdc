"""Tables with partition keys of every type, and conditions in HiveQL over them, by chance.

Job: `EVERY`, the tables by their names; `condition(rng, table)`, a condition; `some_row(rng, table)`, a partition that
may come or go. Conditions over ANSWERED consist of forms that are answered; those over ODD, whose values are written as
Hive does not write them, and over SIZES, whose keys are evaluated only where they are pushed down, may be left to the
metastore. Must not know: how expressions are read, metastores.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import cycle
from typing import Final

from hms_cache_proxy.methods.readers.part_names import DEFAULT_PARTITION

DEFAULT: Final = DEFAULT_PARTITION.decode()

Row = tuple[str, ...]
Rows = tuple[Row, ...]
Draw = Callable[[random.Random], str]


@dataclass(frozen=True)
class ConditionTable:
    """Keys and their types, rows, and forms of conditions over them. `transactional`: with which properties."""

    keys: dict[str, str]
    rows: Rows
    forms: tuple[Draw, ...]
    transactional: str | None = None


SIGNS = ("=", "<>", "<", "<=", ">", ">=")


def leaf(
    subject: Callable[[random.Random], str], value: Callable[[random.Random], str], *, simple: bool = False
) -> Draw:
    """A subject compared with values, in every way; `simple`: the constant is never first, and none is null."""

    def drawn(rng: random.Random) -> str:
        one = subject(rng)
        how = rng.randrange(4 if simple else 6)
        if how == 0:
            return f"{one} {rng.choice(SIGNS)} {value(rng)}"
        if how == 1:
            return f"{one} {rng.choice(('', 'NOT '))}BETWEEN {value(rng)} AND {value(rng)}"
        if how == 2:
            values = ", ".join(value(rng) for _ in range(rng.randint(1, 4)))
            return f"{one} {rng.choice(('', 'NOT '))}IN ({values})"
        if how == 3:
            return f"{one} = {value(rng)}"
        if how == 4:
            return f"{value(rng)} {rng.choice(SIGNS)} {one}"
        return f"{one} IS {rng.choice(('', 'NOT '))}NULL"

    return drawn


def among(*choices: str) -> Draw:
    return lambda rng: rng.choice(choices)


def number(low: int, high: int, suffix: str = "") -> Draw:
    return lambda rng: f"{rng.randint(low, high)}{suffix}"


DAYS = [f"2024-{month:02}-{day:02}" for month in (1, 2, 12) for day in (1, 2, 29)] + ["2023-12-31", "2025-01-01"]
a_day = among(*(f"DATE'{day}'" for day in DAYS))
a_moment = among(*(f"TIMESTAMP'{day} {hour}'" for day in DAYS for hour in ("00:00:00", "10:00:01")))
a_part_of_a_second = among(*(f"TIMESTAMP'{day} {hour}'" for day in DAYS for hour in ("00:00:00.5", "10:00:01.123456")))
a_day_as_text = among(*(f"'{day}'" for day in DAYS), "'2024'", "'2024-01'", "'x'", "'ü'")
a_country = among("'de'", "'fr'", "'us'", "'x'", "'Zürich'", "'日本'", "'a/b'", "'a b'", "'DE'", "'10'")


a_pattern = among(
    "'2024%'", "'2024-01-0_'", "'%-02'", "'%'", "'_024%'", "'d%'", "'%e'", "'%a%'", "'日_'", "'x'", "'%_b'"
)


def likes(*subjects: str, pattern: Draw = a_pattern) -> Draw:
    """Subjects like a pattern, or not."""
    return lambda rng: f"{rng.choice(subjects)} {rng.choice(('', '', 'NOT '))}LIKE {pattern(rng)}"


def rows_of_two(rng: random.Random) -> str:
    rows = ", ".join(f"({a_day_as_text(rng)}, {a_country(rng)})" for _ in range(rng.choice((2, 2, 3))))
    return f"(ds, country) IN ({rows})"


def condition(rng: random.Random, table: ConditionTable, depth: int = 2) -> str:
    """One form, or several of them combined."""
    how = rng.randrange(10) if depth else 0
    if how < 5:
        return rng.choice(table.forms)(rng)
    if how == 5:
        return f"NOT ({condition(rng, table, depth - 1)})"
    terms = [condition(rng, table, depth - 1) for _ in range(rng.randint(2, 3))]
    return "(" + f" {rng.choice(('AND', 'AND', 'OR'))} ".join(terms) + ")"


TEXTS = ConditionTable(
    {"ds": "string", "country": "string"},
    (
        *((day, country) for day in ("2024-01-01", "2024-01-02", "2024-12-29", DEFAULT) for country in ("de", "fr")),
        *(("2024-01-02", odd) for odd in (DEFAULT, "Zürich", "日本", "a/b", "a b", "it's", "a%b", "DE", "10", "x")),
        ("20240102", "de"),
        ("5", "us"),
        ("x", "2024-01-01"),
        ("de", "de"),
        (DEFAULT, DEFAULT),
    ),
    (
        leaf(among("ds"), a_day_as_text),
        leaf(among("country"), a_country),
        leaf(among("CAST(ds AS DATE)", "to_date(ds)"), a_day),
        leaf(among("year(ds)", "year(CAST(ds AS DATE))"), number(2023, 2025)),
        leaf(among("month(ds)", "month(CAST(ds AS DATE))"), number(0, 13)),
        leaf(among("day(ds)"), number(0, 32)),
        leaf(among("substr(ds, 1, 7)", "substr(ds, 1, 4)", "substring(ds, 1, 10)"), a_day_as_text),
        leaf(
            among("substr(country, 1, 1)", "substr(country, -2, 1)", "substr(country, 2)"), among("'d'", "'e'", "'本'")
        ),
        leaf(
            among("concat(ds, '-', country)", "concat(ds, country)"),
            among("'2024-01-01-de'", "'2024-01-02de'", "'5us'"),
        ),
        likes("ds", "country"),
        likes("substr(ds, 1, 8)", "concat(country, ds)"),
        leaf(among("CAST(ds AS TIMESTAMP)"), a_moment),
        leaf(among("to_date(CAST(ds AS TIMESTAMP))", "date_add(ds, 1)", "date_sub(ds, 30)"), a_day),
        leaf(among("datediff(ds, '2024-01-01')", "datediff(DATE'2024-01-05', ds)", "hour(ds)"), number(-3, 3)),
        leaf(among("ds", "country"), number(0, 20240110), simple=True),
        leaf(among("CAST(country AS INT)", "CAST(ds AS INT)"), number(4, 11)),
        leaf(among("CAST(ds AS BIGINT)"), among("5L", "20240102L")),
        leaf(among("replace(ds, '-', '')", "regexp_replace(ds, '-', '')"), among("'20240102'", "'2024'", "'x'")),
        leaf(among("CAST(replace(ds, '-', '') AS INT)"), number(20240101, 20240104)),
        leaf(among("coalesce(country, 'x')", "coalesce(country, ds, 'x')", "coalesce(ds, '')"), a_country),
        lambda rng: f"ds {rng.choice(SIGNS)} country",
        lambda rng: f"substr(ds, {rng.randint(-3, 3)}, {rng.randint(0, 3)}) {rng.choice(SIGNS)} country",
        rows_of_two,
    ),
)
NUMBERS = ConditionTable(
    {"year": "int", "month": "int", "day": "int"},
    (
        *((str(y), str(m), str(d)) for y in (2023, 2024) for m in (1, 2, 12) for d in (1, 2, 31)),
        ("2024", DEFAULT, "1"),
        (DEFAULT, "1", "1"),
        ("2024", "1", DEFAULT),
        ("2147483647", "-2147483648", "0"),
        ("-1", "0", "-7"),
    ),
    (
        leaf(among("year"), number(2022, 2025)),
        leaf(among("month", "day"), number(-1, 13)),
        leaf(among("year * 100 + month"), number(202300, 202413)),
        leaf(among("year * 10000 + month * 100 + day"), number(20240100, 20240110)),
        leaf(among("month % 2", "day % 3", "month % day", "day % -3"), number(-1, 2)),
        leaf(among("month + 1", "month - day", "day - 1", "month * day", "month + day"), number(-2, 5)),
        leaf(among("year * year", "year + year", "month - year"), number(-3, 3)),
        leaf(among("CAST(month AS STRING)", "CAST(year AS STRING)"), among("'1'", "'2024'", "'-1'", "'01'")),
        leaf(among("concat(CAST(year AS STRING), '-', month)"), among("'2024-1'", "'2023-12'", "'x'")),
        leaf(among("CAST(month AS BIGINT)", "CAST(year AS BIGINT)"), number(-1, 3, "L")),
        leaf(among("CAST(month AS DOUBLE)"), among("1.0D", "1.5D", "12.0D"), simple=True),
        likes("CAST(month AS STRING)", "CAST(year AS STRING)", pattern=among("'1%'", "'_'", "'20%'", "'%2'")),
        leaf(among("coalesce(month, 0)", "coalesce(month, day)"), number(-1, 13)),
        lambda rng: f"month {rng.choice(SIGNS)} day",
        lambda rng: f"month + {rng.randint(0, 2)} {rng.choice(SIGNS)} day",
    ),
)
TYPES = ConditionTable(
    {"dt": "date", "hr": "int", "b": "bigint", "ti": "tinyint", "dc": "decimal(10,2)", "bo": "boolean", "a": "string"},
    (
        *(
            (day, str(at % 24), str(10**10 * (at % 3) + at), str(at % 5), ("1.5", "2", "-3.25")[at % 3], truth, text)
            for at, (day, truth, text) in enumerate(
                (day, truth, text)
                for day in ("2024-01-01", "2024-02-29", "2023-12-31")
                for truth in ("true", "false")
                for text in ("eu-west", "US")
            )
        ),
        (DEFAULT, "1", "2", "3", "1.5", "true", "eu"),
        ("2024-01-01", DEFAULT, DEFAULT, DEFAULT, DEFAULT, DEFAULT, DEFAULT),
        ("2024-01-01", "9", "9223372036854775807", "-128", "99999999.99", "false", "5"),
    ),
    (
        leaf(among("dt"), a_day),
        leaf(among("year(dt)"), number(2023, 2025)),
        leaf(among("month(dt)", "day(dt)"), number(0, 31)),
        leaf(among("CAST(dt AS STRING)"), a_day_as_text),
        leaf(among("CAST(dt AS TIMESTAMP)"), a_moment),
        leaf(among("date_add(dt, 1)", "date_sub(dt, 31)", "coalesce(dt, DATE'2024-01-01')"), a_day),
        leaf(among("datediff(dt, DATE'2024-01-01')", "datediff(dt, '2024-02-29')"), number(-2, 60)),
        likes("a", pattern=among("'eu%'", "'%west'", "'U_'", "'%'")),
        leaf(among("hr"), number(-1, 24)),
        leaf(among("hr * 60", "hr + 1", "hr % 6"), number(0, 120)),
        leaf(among("b"), among("1L", "10000000003L", "9223372036854775807L")),
        leaf(among("b + 1L", "b - 1L", "b * 2L", "b + hr", "b % 7L"), number(-2, 12, "L")),
        leaf(among("ti"), number(-1, 5, "Y")),
        leaf(among("dc"), among("1.5BD", "2.25BD", "-3.25BD"), simple=True),
        leaf(among("lower(a)", "upper(a)"), among("'us'", "'US'", "'EU-WEST'", "'eu'")),
        leaf(among("substr(a, 1, 2)"), among("'eu'", "'US'", "'5'")),
        among("bo", "NOT bo", "bo = true"),
    ),
)
ODD_TEXTS = (
    "",
    *("2024-1-5", "2024-01-02 ", " 2024-01-01", "2024-02-30", "2024-01-01 10:00:00", "-", "x-y", "2024-01-011"),
    *(
        "10:00:00",
        "2024-01-01T10:00:00",
        "-2024-01-01",
        "20240102",
        "10",
        "010",
        "+10",
        "-10",
        "-0",
        "1.5",
        "1e1",
        "1d",
    ),
    *("NaN", "Infinity", "0x10", " 10", "10 ", "1_0", "2147483648", "日本", "\U0001d11e", "a\nb", "%", "_", "1-2", "n"),
)
ODD_NUMBERS = ("01", "1", "+1", "2", "-0", "3", "2147483647", DEFAULT)
ODD_DAYS = ("2024-01-01", "2024-1-5", "2024-01-02", "2024-02-29", "2023-12-31", DEFAULT, "2024-01-01", "2024-01-03")
TIMES = ConditionTable(
    {"ts": "timestamp", "n": "int"},
    (
        *((f"{day} {hour}", str(at)) for at, day in enumerate(DAYS) for hour in ("00:00:00", "10:00:01", "23:59:59.5")),
        (DEFAULT, "1"),
        ("2024-01-01 10:00:00.123456", DEFAULT),
        ("2024-03-31 02:30:00", "5"),
        (DEFAULT, DEFAULT),
    ),
    (
        leaf(among("ts"), a_part_of_a_second, simple=True),
        leaf(among("CAST(ts AS DATE)", "to_date(ts)"), a_day),
        leaf(among("hour(ts)", "month(ts)", "day(ts)"), number(0, 31)),
        leaf(among("year(ts)"), number(2023, 2025)),
        leaf(among("minute(ts)"), number(0, 59)),
        leaf(among("coalesce(ts, TIMESTAMP'2024-01-01 10:00:01')"), a_moment),
        lambda rng: f"NOT (ts {rng.choice(SIGNS)} {a_part_of_a_second(rng)})",
        lambda rng: f"month(ts) {rng.choice(SIGNS)} n",
    ),
)
ODD_FORMS: tuple[Draw, ...] = (
    leaf(among("ds"), a_day_as_text),
    leaf(among("CAST(ds AS DATE)"), a_day),
    leaf(among("CAST(ds AS TIMESTAMP)"), a_moment),
    leaf(among("CAST(ds AS INT)", "CAST(ds AS BIGINT)", "datediff(ds, '2024-01-01')"), number(-1, 12)),
    leaf(among("ds"), number(-1, 12), simple=True),
    likes("ds", "replace(ds, '-', '')"),
    leaf(among("month(ds)", "day(ds)", "hour(ds)"), number(0, 31)),
    leaf(among("substr(ds, 1, 4)", "concat(ds, '')"), a_day_as_text),
    leaf(among("n", "n + 1", "n % 2"), number(-1, 3)),
    leaf(among("year(dt)", "month(dt)"), number(0, 2024)),
    leaf(among("CAST(n AS STRING)"), among("'1'", "'01'")),
)
ODD_KEYS = {"ds": "string", "n": "int", "dt": "date"}
ODD_ROWS: Rows = tuple(zip(ODD_TEXTS, cycle(ODD_NUMBERS), cycle(ODD_DAYS), strict=False))
ODD: Final = {
    f"odd{at}": ConditionTable(ODD_KEYS, ODD_ROWS[at : at + 2], ODD_FORMS) for at in range(0, len(ODD_ROWS), 2)
}
"""Few rows each, because one that is left to the metastore is enough for a whole table."""
SIZES = ConditionTable(
    {"s": "smallint", "d": "double", "f": "float", "c": "char(5)", "v": "varchar(10)"},
    (
        *(
            (str(at - 2), ("1.5", "2.0", "-3.25")[at % 3], "0.5", ("ab", "abcde", "x")[at % 3], "v" * at)
            for at in (1, 2, 3)
        ),
        ("-32768", "1234567.5", "1.0", "日本", "a b"),
        ("300", DEFAULT, DEFAULT, DEFAULT, DEFAULT),
        (DEFAULT, "0.25", "0.5", "ab", "ab"),
    ),
    (
        leaf(among("s"), number(-2, 300, "S")),
        leaf(among("s * 2", "s + 1", "s % 3"), number(-2, 5)),
        leaf(among("d"), among("1.5D", "2.0D", "-3.25D", "0.25D"), simple=True),
        leaf(among("f"), among("0.5D", "1.0D"), simple=True),
        leaf(among("c"), among("'ab'", "'abcde'", "'x'", "'日本'")),
        leaf(among("v"), among("'v'", "'vv'", "'ab'", "'a b'")),
        leaf(among("CAST(c AS STRING)", "CAST(v AS STRING)", "upper(v)"), among("'ab'", "'AB'", "'v'")),
        likes("c", "v", pattern=among("'a%'", "'%b'", "'v_'", "'_'")),
    ),
)
ANSWERED: Final = {
    "texts": TEXTS,
    "numbers": NUMBERS,
    "types": TYPES,
    "times": TIMES,
    "acid_texts": replace(TEXTS, transactional="default"),
    "acid_types": replace(TYPES, transactional="default"),
    "insert_only_numbers": replace(NUMBERS, transactional="insert_only"),
}
EVERY: Final = {**ANSWERED, "sizes": SIZES, **ODD}


def some_table(rng: random.Random) -> str:
    """The name of one: mostly of ANSWERED."""
    return rng.choice([*ANSWERED] if rng.random() < 0.7 else ["sizes"] if rng.random() < 0.3 else [*ODD])


def some_row(rng: random.Random, table: ConditionTable) -> Row:
    """One of its rows, or, where these are many, also one of values of several."""
    if len(table.rows) <= 2 or rng.random() < 0.5:
        return rng.choice(table.rows)
    return tuple(rng.choice(column) for column in zip(*table.rows, strict=True))
