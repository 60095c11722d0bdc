"""Column statistics: TAB_COL_STATS and PART_COL_STATS.

Job: turn rows into ColumnStatisticsObj and back. Must not know: what a call may do. Bit vectors and histograms are
stored, but not returned (`metastore.stats.fetch.bitvector` and `.kll` are off, their default). Source:
StatObjectConverter of 4.2.
Owner: the thread of a call.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import Any

from sqlalchemy import delete, insert, select

from hms_cache_proxy.embedded.call import Call
from hms_cache_proxy.embedded.database import new_ids
from hms_cache_proxy.embedded.rows.common import batches, rows_of
from hms_cache_proxy.embedded.schema import T
from hms_cache_proxy.embedded.values import new
from hms_cache_proxy.wire.decimals import exact
from hms_cache_proxy.wire.spec import Struct

_TABLE = (T.TAB_COL_STATS.c.TBL_ID, "MTableColumnStatistics")
_PARTITION = (T.PART_COL_STATS.c.PART_ID, "MPartitionColumnStatistics")


def _decimal_text(value: Struct | None) -> str | None:
    return None if value is None else str(exact(value))


def _decimal(value: str | None) -> Struct | None:
    if value is None:
        return None
    sign, digits, exponent = Decimal(value).as_tuple()
    scale = -exponent if isinstance(exponent, int) else 0
    unscaled = int("".join(map(str, digits))) * (-1 if sign else 1)
    size = (unscaled + (unscaled < 0)).bit_length() // 8 + 1
    return new("Decimal", unscaled=unscaled.to_bytes(size, "big", signed=True), scale=scale)


def _inside(struct: str, field: str, value: int | None) -> Struct | None:
    return None if value is None else new(struct, **{field: value})


def _to_row(data: Struct) -> dict[str, Any]:
    """The row's columns for the member of a union."""
    for name in data._names:
        stats = getattr(data, name)
        if stats is not None:
            return {**_WRITERS[name](stats), "BIT_VECTOR": stats.bitVectors, "NUM_NULLS": stats.numNulls}
    return {"NUM_NULLS": 0}


def _bounds(low: str, high: str, convert: Callable[[Any], Any]) -> Callable[[Struct], dict[str, Any]]:
    return lambda stats: {
        low: convert(stats.lowValue),
        high: convert(stats.highValue),
        "NUM_DISTINCTS": stats.numDVs,
        "HISTOGRAM": stats.histogram,
    }


_LONGS, _DOUBLES = ("LONG_LOW_VALUE", "LONG_HIGH_VALUE"), ("DOUBLE_LOW_VALUE", "DOUBLE_HIGH_VALUE")
_DECIMALS = ("BIG_DECIMAL_LOW_VALUE", "BIG_DECIMAL_HIGH_VALUE")
_WRITERS: dict[str, Callable[[Struct], dict[str, Any]]] = {
    "booleanStats": lambda stats: {"NUM_TRUES": stats.numTrues, "NUM_FALSES": stats.numFalses},
    "longStats": _bounds(*_LONGS, lambda value: value),
    "doubleStats": _bounds(*_DOUBLES, lambda value: value),
    "decimalStats": _bounds(*_DECIMALS, _decimal_text),
    "dateStats": _bounds(*_LONGS, lambda value: None if value is None else value.daysSinceEpoch),
    "timestampStats": _bounds(*_LONGS, lambda value: None if value is None else value.secondsSinceEpoch),
    "stringStats": lambda stats: {
        "MAX_COL_LEN": stats.maxColLen,
        "AVG_COL_LEN": stats.avgColLen,
        "NUM_DISTINCTS": stats.numDVs,
    },
    "binaryStats": lambda stats: {"MAX_COL_LEN": stats.maxColLen, "AVG_COL_LEN": stats.avgColLen},
}
_VALUES = (*_LONGS, *_DOUBLES, *_DECIMALS, "NUM_DISTINCTS", "AVG_COL_LEN", "MAX_COL_LEN", "NUM_TRUES", "NUM_FALSES")


def _data(row: Any) -> Struct:
    """The union of a row; the column's type determines the member."""
    kind = row.COLUMN_TYPE.lower().partition("(")[0]
    counts = {"numNulls": row.NUM_NULLS, "numDVs": row.NUM_DISTINCTS}
    if kind == "boolean":
        stats = {"numTrues": row.NUM_TRUES, "numFalses": row.NUM_FALSES, "numNulls": row.NUM_NULLS}
        return new("ColumnStatisticsData", booleanStats=new("BooleanColumnStatsData", **stats))
    if kind in ("string", "varchar", "char"):
        stats = {"maxColLen": row.MAX_COL_LEN, "avgColLen": row.AVG_COL_LEN, **counts}
        return new("ColumnStatisticsData", stringStats=new("StringColumnStatsData", **stats))
    if kind == "binary":
        stats = {"maxColLen": row.MAX_COL_LEN, "avgColLen": row.AVG_COL_LEN, "numNulls": row.NUM_NULLS}
        return new("ColumnStatisticsData", binaryStats=new("BinaryColumnStatsData", **stats))
    if kind in ("float", "double"):
        bounds: dict[str, Any] = {"lowValue": row.DOUBLE_LOW_VALUE, "highValue": row.DOUBLE_HIGH_VALUE}
        return new("ColumnStatisticsData", doubleStats=new("DoubleColumnStatsData", **bounds, **counts))
    low, high = row.LONG_LOW_VALUE, row.LONG_HIGH_VALUE
    if kind == "decimal":
        bounds = {"lowValue": _decimal(row.BIG_DECIMAL_LOW_VALUE), "highValue": _decimal(row.BIG_DECIMAL_HIGH_VALUE)}
        return new("ColumnStatisticsData", decimalStats=new("DecimalColumnStatsData", **bounds, **counts))
    if kind == "date":
        bounds = {"lowValue": _inside("Date", "daysSinceEpoch", low)}
        bounds["highValue"] = _inside("Date", "daysSinceEpoch", high)
        return new("ColumnStatisticsData", dateStats=new("DateColumnStatsData", **bounds, **counts))
    if kind.startswith("timestamp"):
        bounds = {"lowValue": _inside("Timestamp", "secondsSinceEpoch", low)}
        bounds["highValue"] = _inside("Timestamp", "secondsSinceEpoch", high)
        return new("ColumnStatisticsData", timestampStats=new("TimestampColumnStatsData", **bounds, **counts))
    longs = new("LongColumnStatsData", lowValue=low, highValue=high, **counts)
    return new("ColumnStatisticsData", longStats=longs)


def put(call: Call, owner_id: int, objects: Sequence[Struct], engine: str, *, partition: bool) -> None:
    """Replace the statistics of these columns of a table or partition."""
    column, model = _PARTITION if partition else _TABLE
    remove(call, owner_id, [each.colName for each in objects], engine, partition=partition)
    first = new_ids(call.connection, model, len(objects))
    rows = [
        {
            **dict.fromkeys((*_VALUES, "BIT_VECTOR", "HISTOGRAM")),
            "CS_ID": first + number,
            column.name: owner_id,
            "COLUMN_NAME": each.colName,
            "COLUMN_TYPE": each.colType,
            "LAST_ANALYZED": call.now,
            "ENGINE": engine,
            **_to_row(each.statsData),
        }
        for number, each in enumerate(objects)
    ]
    call.execute(insert(column.table), rows)


def remove(call: Call, owner_id: int, names: Sequence[str] | None, engine: str | None, *, partition: bool) -> None:
    """Delete statistics of some columns or all, of one engine or all."""
    column, _ = _PARTITION if partition else _TABLE
    columns = column.table.c
    statement = delete(column.table).where(column == owner_id)
    if engine is not None:
        statement = statement.where(columns.ENGINE == engine)
    for some in [None] if names is None else batches(names):
        call.execute(statement if some is None else statement.where(columns.COLUMN_NAME.in_(some)))


def analyzed_columns(call: Call, owner_id: int, *, partition: bool) -> list[str]:
    """Names of the columns of a table or partition that have statistics."""
    column, _ = _PARTITION if partition else _TABLE
    columns = column.table.c
    query = select(columns.COLUMN_NAME).where(column == owner_id).order_by(columns.CS_ID)
    return [row[0] for row in call.execute(query)]


def read(
    call: Call, owner_ids: Iterable[int], names: Sequence[str] | None, engine: str, *, partition: bool
) -> dict[int, list[tuple[int, Struct]]]:
    """(time, ColumnStatisticsObj) of some columns or all, by id of the table or partition, ordered by column."""
    column, _ = _PARTITION if partition else _TABLE
    columns = column.table.c
    wanted = (columns.COLUMN_NAME, columns.COLUMN_TYPE, columns.LAST_ANALYZED, columns.ENGINE, columns.NUM_NULLS)
    found: dict[int, list[tuple[int, Struct]]] = defaultdict(list)
    every = rows_of(
        call, column, owner_ids, *wanted, *(columns[name] for name in _VALUES), order=(columns.COLUMN_NAME,)
    )
    for row in every:
        if row.ENGINE == engine and (names is None or row.COLUMN_NAME in names):
            one = new("ColumnStatisticsObj", colName=row.COLUMN_NAME, colType=row.COLUMN_TYPE, statsData=_data(row))
            found[row[0]].append((row.LAST_ANALYZED, one))
    return found
