"""SQL that all kinds of objects share: parameter maps, lists of ids in statements, ordered lists.

Job: provide these small pieces of SQL. Must not know: what the objects are. Owner: the thread of a call.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import bindparam, delete, insert, select

from hms_cache_proxy.embedded.call import Call

BATCH = 900
"""Ids in one statement: the limit of parameters in old SQLite is 999."""


def batches(ids: Iterable[Any]) -> Iterator[list[Any]]:
    """The ids in lists of at most BATCH."""
    every = list(ids)
    for start in range(0, len(every), BATCH):
        yield every[start : start + BATCH]


def rows_of(call: Call, column: Any, ids: Iterable[int], *columns: Any, order: Sequence[Any] = ()) -> Iterator[Any]:
    """Rows (the id first, then `columns`) whose `column` is among the ids. Any: Core columns."""
    query = _query_of(column, columns, tuple(order))
    for some in batches(ids):
        yield from call.execute(query, {"ids": some})


@lru_cache(256)
def _query_of(column: Any, columns: tuple[Any, ...], order: tuple[Any, ...]) -> Any:
    """The query, made once: SQLAlchemy takes as long to make a statement as to execute it."""
    return select(column, *columns).where(column.in_(bindparam("ids", expanding=True))).order_by(*order)


def delete_of(call: Call, column: Any, ids: Iterable[int]) -> None:
    """Delete the rows whose `column` is among the ids."""
    for some in batches(ids):
        call.execute(delete(column.table).where(column.in_(some)))


def read_maps(call: Call, column: Any, ids: Iterable[int]) -> dict[int, dict[str, str]]:
    """PARAM_KEY to PARAM_VALUE by id, of a parameter table; NULL values are left out."""
    found: dict[int, dict[str, str]] = defaultdict(dict)
    columns = column.table.c
    for id_, key, value in rows_of(call, column, ids, columns.PARAM_KEY, columns.PARAM_VALUE):
        if value is not None:
            found[id_][key] = value
    return found


def write_maps(call: Call, column: Any, maps: Mapping[int, Mapping[str, str] | None]) -> None:
    """Insert parameters of ids that have none yet."""
    rows = [
        {column.name: id_, "PARAM_KEY": key, "PARAM_VALUE": value}
        for id_, parameters in maps.items()
        for key, value in (parameters or {}).items()
    ]
    write(call, column.table, rows)


def write(call: Call, table: Any, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows, if there are any."""
    if rows:
        call.execute(insert(table), rows)
