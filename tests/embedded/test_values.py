"""Structs in events, as Thrift's TJSONProtocol writes them."""

from __future__ import annotations

import json

import pytest

from hms_cache_proxy.embedded.values import as_json, new


@pytest.mark.parametrize(
    ("value", "written"), [(float("nan"), "NaN"), (float("inf"), "Infinity"), (float("-inf"), "-Infinity"), (1.5, 1.5)]
)
def test_numbers_that_json_has_not_are_strings(value: float, written: object) -> None:
    """Statistics of a column with such values have them as bounds."""

    def refused(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    text = as_json(new("DoubleColumnStatsData", lowValue=value, highValue=2.0, numNulls=0, numDVs=1))
    assert json.loads(text, parse_constant=refused)["1"] == {"dbl": written}
