"""Merges old and new statistics of a column, as a client requests after it has added rows (`needMerge`).

Job: do as columnstats/merge of Hive 4.2. Must not know: rows of the database, what a call may do.

Bit vectors are not merged: Hive does not read stored ones (`metastore.stats.fetch.bitvector` is off, its default), so
the larger number of distinct values is taken. Decimals are compared as numbers; Hive compares their scales first.
Owner: any thread; no state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hms_cache_proxy.embedded.failures import internal
from hms_cache_proxy.wire.decimals import exact
from hms_cache_proxy.wire.spec import Struct


def merge_all(new: Sequence[Struct], old: Sequence[Struct]) -> None:
    """Merge old statistics (ColumnStatisticsObj) into the new ones of the same columns. Failure if kinds differ."""
    before = {each.colName: each for each in old}
    for each in new:
        if each.colName in before:
            _merge(each.statsData, before[each.colName].statsData)


def _merge(new: Struct, old: Struct) -> None:
    name = next((name for name in new._names if getattr(new, name) is not None), None)
    if name is None or getattr(old, name) is None:
        raise internal("IllegalArgumentException: statistics of another kind")
    data, before = getattr(new, name), getattr(old, name)
    for field, combine in _FIELDS.items():
        if field in data._names:
            values = [value for value in (getattr(data, field), getattr(before, field)) if value is not None]
            setattr(data, field, combine(*values) if len(values) == 2 else next(iter(values), None))


def _sum(a: int, b: int) -> int:
    return a + b


def _smaller(a: Any, b: Any) -> Any:
    return a if _order(a) <= _order(b) or a != a else b  # NaN stays, as in Java


def _larger(a: Any, b: Any) -> Any:
    return a if _order(a) >= _order(b) or a != a else b


def _order(value: Any) -> Any:
    """A bound as a number: itself, or what the structs Decimal, Date and Timestamp contain."""
    if not isinstance(value, Struct):
        return value
    return exact(value) if "unscaled" in value._names else getattr(value, value._names[0])


_FIELDS: dict[str, Callable[[Any, Any], Any]] = {
    **dict.fromkeys(("numNulls", "numTrues", "numFalses"), _sum),
    **dict.fromkeys(("numDVs", "maxColLen", "avgColLen", "highValue"), _larger),
    "lowValue": _smaller,
}
