"""Functions make of values what Hive's classes made of them; of others they are unsure, or not known."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

import pytest

from hms_cache_proxy.expressions.functions import FUNCTIONS, typed
from hms_cache_proxy.expressions.values import Odd

GENERIC, OLD = "org.apache.hadoop.hive.ql.udf.generic.GenericUDF", "org.apache.hadoop.hive.ql.udf.UDF"
INTS = ("int", "int")
MOST = (1 << 31) - 1
CASES: list[tuple[str, tuple[str, ...], str, tuple[Any, ...], Any]] = [
    (GENERIC + "ToDate", ("string",), "date", (b"2024-02-29",), date(2024, 2, 29)),
    (GENERIC + "ToDate", ("string",), "date", (b"20240229",), None),
    (GENERIC + "ToDate", ("string",), "date", (b"",), None),
    (GENERIC + "ToDate", ("string",), "date", (b"2024-02-30",), Odd),
    (GENERIC + "ToDate", ("string",), "date", (b"2024-2-9",), Odd),
    (GENERIC + "ToDate", ("string",), "date", (b"2024-02-29 10",), Odd),
    (GENERIC + "ToDate", ("string",), "date", (b"1500-01-01",), Odd),
    (GENERIC + "ToDate", ("string",), "date", (b"2024-02-29 10:00:00.5",), date(2024, 2, 29)),
    (GENERIC + "ToDate", ("string",), "date", (b"10:00:00",), Odd),  # a time of today
    (GENERIC + "ToDate", ("timestamp",), "date", (datetime(2024, 2, 29, 23),), date(2024, 2, 29)),
    (GENERIC + "Timestamp", ("string",), "timestamp", (b"2024-02-29",), datetime(2024, 2, 29)),
    (GENERIC + "Timestamp", ("string",), "timestamp", (b"2024-02-29 10:00:00",), datetime(2024, 2, 29, 10)),
    (GENERIC + "Timestamp", ("string",), "timestamp", (b"20240229",), None),
    (GENERIC + "Timestamp", ("string",), "timestamp", (b"2024-02-29 10:00",), Odd),
    (GENERIC + "Timestamp", ("string",), "timestamp", (b"10:00:00",), Odd),
    (GENERIC + "Timestamp", ("date",), "timestamp", (date(2024, 2, 29),), datetime(2024, 2, 29)),
    (GENERIC + "DateAdd", ("string", "int"), "date", (b"2024-02-28", 2), date(2024, 3, 1)),
    (GENERIC + "DateAdd", ("date", "int"), "date", (date(9999, 12, 31), 1), Odd),
    (GENERIC + "DateSub", ("date", "smallint"), "date", (date(2024, 3, 1), 1), date(2024, 2, 29)),
    (GENERIC + "DateSub", ("date", "int"), "date", (date(1583, 1, 1), 1), Odd),
    (GENERIC + "DateDiff", ("string", "date"), "int", (b"2024-01-05", date(2024, 1, 1)), 4),
    (GENERIC + "DateDiff", ("string", "string"), "int", (b"2024-01-05", b"x"), None),
    (OLD + "Hour", ("timestamp",), "int", (datetime(2024, 2, 29, 23, 59),), 23),
    (OLD + "Hour", ("string",), "int", (b"2024-02-29",), 0),
    (OLD + "Minute", ("timestamp",), "int", (datetime(2024, 2, 29, 23, 59),), 59),
    (GENERIC + "Date", ("date",), "date", (date(2024, 2, 29),), date(2024, 2, 29)),
    (OLD + "Year", ("date",), "int", (date(2024, 2, 29),), 2024),
    (OLD + "Month", ("string",), "int", (b"2024-02-29",), 2),
    (OLD + "Month", ("string",), "int", (b"x",), None),
    (OLD + "DayOfMonth", ("string",), "int", (b"2024-02-29",), 29),
    (GENERIC + "OPPlus", INTS, "int", (MOST, 1), -MOST - 1),
    (GENERIC + "OPPlus", ("int", "bigint"), "bigint", (MOST, 1), MOST + 1),
    (GENERIC + "OPMinus", INTS, "int", (-MOST, 2), MOST),
    (GENERIC + "OPMultiply", INTS, "int", (1 << 16, 1 << 16), 0),
    (GENERIC + "OPMod", INTS, "int", (-7, 3), -1),
    (GENERIC + "OPMod", INTS, "int", (7, -3), 1),
    (GENERIC + "OPMod", INTS, "int", (7, 0), None),
    (OLD + "ToLong", ("int",), "bigint", (7,), 7),
    (OLD + "ToDouble", ("int",), "double", (7,), 7.0),
    (OLD + "ToDouble", ("string",), "double", (b"20240102",), 20240102.0),
    (OLD + "ToDouble", ("string",), "double", (b"2024-01-02",), None),
    (OLD + "ToDouble", ("string",), "double", (b"1e3",), Odd),
    (OLD + "ToDouble", ("string",), "double", (b"1d",), Odd),
    (OLD + "ToDouble", ("string",), "double", (b"NaN",), Odd),
    (OLD + "ToDouble", ("string",), "double", (b"-0",), Odd),
    (OLD + "ToDouble", ("string",), "double", (b"9007199254740993",), Odd),
    (OLD + "ToInteger", ("string",), "int", (b"010",), 10),
    (OLD + "ToInteger", ("string",), "int", (b"2147483648",), None),
    (OLD + "ToInteger", ("string",), "int", (b" de",), None),
    (OLD + "ToInteger", ("string",), "int", ("日本".encode(),), None),
    (OLD + "ToInteger", ("string",), "int", (b"1.5",), Odd),
    (OLD + "ToInteger", ("string",), "int", (b"+1",), Odd),
    (OLD + "ToLong", ("string",), "bigint", (b"2147483648",), 2147483648),
    (OLD + "Replace", ("string",) * 3, "string", (b"2024-01-02", b"-", b""), b"20240102"),
    (OLD + "Replace", ("string",) * 3, "string", (b"a.b", b".", b"-"), b"a-b"),
    (OLD + "Replace", ("string",) * 3, "string", (b"ab", b"", b"-"), Odd),
    (OLD + "RegExpReplace", ("string",) * 3, "string", (b"2024-01-02", b"-", b"/"), b"2024/01/02"),
    (OLD + "RegExpReplace", ("string",) * 3, "string", (b"a.b", b".", b"-"), Odd),
    (OLD + "RegExpReplace", ("string",) * 3, "string", (b"a-b", b"-", b"$0"), Odd),
    (GENERIC + "Coalesce", ("string",) * 3, "string", (None, b"x", b"y"), b"x"),
    (GENERIC + "Coalesce", ("int",) * 2, "int", (None, None), None),
    (OLD + "Substr", ("string", "int", "int"), "string", (b"2024-01-02", 1, 7), b"2024-01"),
    (OLD + "Substr", ("string", "int", "int"), "string", (b"abc", 0, 2), b"ab"),
    (OLD + "Substr", ("string", "int", "int"), "string", (b"abc", -2, 1), b"b"),
    (OLD + "Substr", ("string", "int", "int"), "string", (b"abc", -4, 2), b""),
    (OLD + "Substr", ("string", "int", "int"), "string", (b"abc", 4, 2), b""),
    (OLD + "Substr", ("string", "int", "int"), "string", (b"abc", 1, -1), b""),
    (OLD + "Substr", ("string", "int"), "string", ("Zürich".encode(), 2), "ürich".encode()),
    (OLD + "Substr", ("string", "int"), "string", (b"\xff", 1), Odd),
    (GENERIC + "Concat", ("string", "string", "int"), "string", (b"a", b"-", 7), b"a-7"),
    (GENERIC + "ToString", ("date",), "string", (date(2024, 2, 9),), b"2024-02-09"),
    (GENERIC + "ToString", ("bigint",), "string", (-7,), b"-7"),
    (GENERIC + "Lower", ("string",), "string", (b"DE",), b"de"),
    (GENERIC + "Upper", ("string",), "string", ("ß".encode(),), Odd),
]


@pytest.mark.parametrize(("cls", "kinds", "result", "given", "made"), CASES)
def test_values(cls: str, kinds: tuple[str, ...], result: str, given: tuple[Any, ...], made: Any) -> None:
    meaning = typed(cls, kinds, result)
    assert meaning is not None
    if made is Odd:
        with pytest.raises(Odd):
            meaning(*given)
    else:
        found = meaning(*given)
        assert found == made and type(found) is type(made)


def test_each_function_has_a_case() -> None:
    cases = {cls for cls, *_ in CASES}
    assert FUNCTIONS.keys() == cases


@pytest.mark.parametrize(
    ("name", "kinds", "result"),
    [
        ("ToDate", ("int",), "date"),
        ("Timestamp", ("int",), "timestamp"),
        ("Timestamp", ("string",), "date"),
        ("DateAdd", ("timestamp", "int"), "date"),
        ("DateAdd", ("date", "bigint"), "date"),
        ("DateDiff", ("timestamp", "date"), "int"),
        ("Coalesce", ("string", "int"), "string"),
        ("Coalesce", ("double", "double"), "double"),
        ("OPPlus", ("int", "bigint"), "int"),
        ("OPPlus", ("int", "double"), "double"),
        ("OPPlus", ("date", "int"), "date"),
        ("Concat", ("string", "date"), "string"),
        ("Concat", ("char(5)", "string"), "string"),
        ("ToString", ("decimal(10,2)",), "string"),
        ("Lower", ("varchar(5)",), "varchar(5)"),
    ],
)
def test_other_types_are_not_known(name: str, kinds: tuple[str, ...], result: str) -> None:
    assert typed(GENERIC + name, kinds, result) is None
