"""Functions make of values what Hive's classes made of them; of others they are unsure, or not known."""

from __future__ import annotations

from datetime import date
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
    (GENERIC + "ToDate", ("string",), "date", (b"2024-02-29 10:00:00",), Odd),
    (GENERIC + "ToDate", ("string",), "date", (b"1500-01-01",), Odd),
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
    assert FUNCTIONS.keys() - cases <= {OLD + "ToInteger"}


@pytest.mark.parametrize(
    ("name", "kinds", "result"),
    [
        ("ToDate", ("timestamp",), "date"),
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
