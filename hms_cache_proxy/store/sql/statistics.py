"""Reads column statistics from the database.

Job: turn rows of TAB_COL_STATS and PART_COL_STATS into `ColumnStatistics`. What the metastore does with a row (tested
with Hive 4.0.0 and 4.2.0): only the column's type, in upper or lower case, decides which field of the union is set;
bounds that are NULL are left out; with any other NULL, a decimal that is not a number, or a type that is not in
`_KINDS`, there is no answer, so such a row has no data. A metastore returns bit vectors and histograms only with
`metastore.stats.fetch.bitvector` or `.kll`, which are off by default; they are not read here (upstream/checks.py).

Up to 4.0, rows have the names of their table and partition, and the metastore finds them by these names. If the names
in a row are not those of the object with its id, the object's statistics are unknown. They are also unknown if the
database compares without case, and the name of an engine is not in lower case.

Owner: a snapshot.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from struct import Struct
from typing import Final

from sqlalchemy import ColumnElement, select
from sqlalchemy.sql.elements import ClauseElement

from hms_cache_proxy.store import encode
from hms_cache_proxy.store.protocol import ColumnStatistics, Statistics, StatisticsHead, TableName
from hms_cache_proxy.store.sql.dialect import ByIds, Column, Dialect, Row
from hms_cache_proxy.store.sql.schema import Schema

_VALUES: Final = (
    *("LONG_LOW_VALUE", "LONG_HIGH_VALUE", "DOUBLE_LOW_VALUE", "DOUBLE_HIGH_VALUE", "BIG_DECIMAL_LOW_VALUE"),
    *("BIG_DECIMAL_HIGH_VALUE", "NUM_NULLS", "NUM_DISTINCTS", "AVG_COL_LEN", "MAX_COL_LEN", "NUM_TRUES", "NUM_FALSES"),
)
_HEAD: Final = ("ENGINE", "COLUMN_NAME", "COLUMN_TYPE", "LAST_ANALYZED")
_NAMES: Final = ("CAT_NAME", "DB_NAME", "TABLE_NAME", "PARTITION_NAME")

_STOPS: Final = b"\0\0\0"  # of the data, the union, the ColumnStatisticsObj
_LONG: Final = Struct(">bhq")
_DOUBLE: Final = Struct(">bhd")
_SHORT: Final = Struct(">bhh")
_I64, _I16, _F64, _STRUCT = 10, 6, 4, 12
_LONGS: Final = Struct(">bhqbhqbhqbhqbbb")
_DOUBLES: Final = Struct(">bhdbhdbhqbhqbbb")
_LENGTHS: Final = Struct(">bhqbhdbhqbhqbbb")
_SINGLE: Final = Struct(">bhbhqb")
_COUNTS: Final = Struct(">bhqbhqbbb")
_NUMBER: Final = re.compile(rb"(?=[+-]?\.?\d)([+-]?\d*)(?:\.(\d*))?(?:[eE]([+-]?\d{1,9}))?")
_I16_SPAN: Final = 1 << 16


class StatisticsStatements:
    """The statements, compiled once per store; None if changes of statistics are not logged (before Hive 4)."""

    tables: ByIds | None = None
    partitions: ByIds | None = None

    def __init__(self, schema: Schema, database: Dialect) -> None:
        self.named = False
        if "TAB_COL_STATS" not in schema.tables:
            return
        self.tables = database.by_ids(lambda among: _found(schema, "TAB_COL_STATS", "TBL_ID", among))
        self.partitions = database.by_ids(lambda among: _found(schema, "PART_COL_STATS", "PART_ID", among))
        self.named = "CAT_NAME" in schema["TAB_COL_STATS"].c


def _found(schema: Schema, table: str, owner: str, among: Callable[[Column], ColumnElement[bool]]) -> ClauseElement:
    columns = schema[table].c
    names = [columns[name] for name in _NAMES if name in columns]
    return select(columns[owner], *(columns[name] for name in _HEAD + _VALUES), *names).where(among(columns[owner]))


class StatisticsReader:
    """Statistics of one snapshot."""

    def __init__(self, database: Dialect, statements: StatisticsStatements) -> None:
        self._database = database
        self._statements = statements
        self._heads: dict[tuple[bytes, bytes, bytes], tuple[StatisticsHead, _Encode]] = {}

    def of_tables(self, tables: Sequence[TableName]) -> dict[int, Statistics | None]:
        """Statistics by table id; None if they are not known."""
        statement = self._statements.tables
        if statement is None:
            return dict.fromkeys((table.table_id for table in tables), None)
        rows = self._database.rows_by_ids(statement, [table.table_id for table in tables])
        found = self._grouped(rows, {table.table_id: tuple(table[:3]) for table in tables})
        return {table.table_id: found.get(table.table_id, ()) for table in tables}

    def of_partitions(self, names: Mapping[int, tuple[bytes, ...]]) -> dict[int, Statistics | None]:
        """Statistics by partition id. `names`: catalog, database, table and own name of each. Partitions without
        statistics are left out."""
        statement = self._statements.partitions
        if statement is None:
            return {}
        return self._grouped(self._database.stream_by_ids(statement, names), names)

    def _grouped(self, rows: Iterable[Row], owners: Mapping[int, tuple[bytes, ...]]) -> dict[int, Statistics | None]:
        grouped: defaultdict[int, list[ColumnStatistics]] = defaultdict(list)
        unknown = set()
        known, named, end = self._heads, self._statements.named, 1 + len(_HEAD) + len(_VALUES)
        exact = self._database.exact_text
        for row in rows:
            id_ = row[0]
            head, encoder = known.get(row[1:4]) or self._head(row[1:4])
            grouped[id_].append(ColumnStatistics(head, row[4], encoder(row)))
            if head.engine != head.engine.lower() and not exact:
                unknown.add(id_)
            if named and id_ in owners and row[end:] != owners[id_]:
                unknown.add(id_)
        return {id_: None if id_ in unknown else tuple(sorted(some)) for id_, some in grouped.items() if id_ in owners}

    def _head(self, key: tuple[bytes, bytes, bytes]) -> tuple[StatisticsHead, _Encode]:
        engine, column, kind = key
        number, encoder = _kind(kind or b"")
        prefix = b"".join(
            (
                encode.string_field(1, column),
                encode.string_field(2, kind),
                encode.header(encode.STRUCT, 3),
                encode.header(encode.STRUCT, number),
            )
        )
        found = self._heads[key] = (StatisticsHead(engine or b"", column, prefix), encoder)
        return found


_Encode = Callable[[Row], bytes]
"""Encodes what follows the head from a row; empty if the metastore has no answer."""

_LOW, _HIGH, _D_LOW, _D_HIGH, _DEC_LOW, _DEC_HIGH, _NULLS, _DISTINCT, _AVG, _MAX, _TRUES, _FALSES = range(
    1 + len(_HEAD), 1 + len(_HEAD) + len(_VALUES)
)


def _i64(number: int, value: int) -> bytes:
    return _LONG.pack(_I64, number, value)


def _counted(row: Row, low: bytes, high: bytes) -> bytes:
    if row[_DISTINCT] is None or row[_NULLS] is None:
        return b""
    return low + high + _COUNTS.pack(_I64, 3, row[_NULLS], _I64, 4, row[_DISTINCT], 0, 0, 0)


def _nothing(row: Row) -> bytes:
    return b""


def _boolean(row: Row) -> bytes:
    trues, falses, nulls = row[_TRUES], row[_FALSES], row[_NULLS]
    if trues is None or falses is None or nulls is None:
        return b""
    return _i64(1, trues) + _i64(2, falses) + _i64(3, nulls) + _STOPS


def _integer(row: Row) -> bytes:
    low, high, nulls, distinct = row[_LOW], row[_HIGH], row[_NULLS], row[_DISTINCT]
    if low is None or high is None or nulls is None or distinct is None:
        return _counted(row, *(b"" if v is None else _i64(at, v) for at, v in ((1, low), (2, high))))
    return _LONGS.pack(_I64, 1, low, _I64, 2, high, _I64, 3, nulls, _I64, 4, distinct, 0, 0, 0)


def _double(row: Row) -> bytes:
    low, high, nulls, distinct = row[_D_LOW], row[_D_HIGH], row[_NULLS], row[_DISTINCT]
    if low is None or high is None or nulls is None or distinct is None:
        return _counted(row, *(b"" if v is None else _DOUBLE.pack(_F64, at, v) for at, v in ((1, low), (2, high))))
    return _DOUBLES.pack(_F64, 1, low, _F64, 2, high, _I64, 3, nulls, _I64, 4, distinct, 0, 0, 0)


def _string(row: Row) -> bytes:
    most, average, nulls, distinct = row[_MAX], row[_AVG], row[_NULLS], row[_DISTINCT]
    if most is None or average is None or nulls is None or distinct is None:
        return b""
    return _LENGTHS.pack(_I64, 1, most, _F64, 2, average, _I64, 3, nulls, _I64, 4, distinct, 0, 0, 0)


def _binary(row: Row) -> bytes:
    most, average, nulls = row[_MAX], row[_AVG], row[_NULLS]
    if most is None or average is None or nulls is None:
        return b""
    return _i64(1, most) + _DOUBLE.pack(_F64, 2, average) + _i64(3, nulls) + _STOPS


def _decimal(row: Row) -> bytes:
    bounds = []
    for number, text in ((1, row[_DEC_LOW]), (2, row[_DEC_HIGH])):
        value = b"" if text is None else decimal_struct(text)
        if value is None:
            return b""
        bounds.append(encode.header(encode.STRUCT, number) + value if value else b"")
    return _counted(row, *bounds)


def decimal_struct(text: bytes) -> bytes | None:
    """A `Decimal`: the unscaled number in the form of Java's BigInteger.toByteArray, and the scale; None if the text is
    not a number."""
    number = _NUMBER.fullmatch(text)
    if number is None:
        return None
    whole, fraction, exponent = number.groups()
    scale = len(fraction or b"") - int(exponent or 0)
    scale = (scale + _I16_SPAN // 2) % _I16_SPAN - _I16_SPAN // 2  # as Java's (short) cuts it
    unscaled = int(whole + fraction) if fraction else int(whole)
    size = ((unscaled if unscaled >= 0 else ~unscaled).bit_length() + 8) // 8
    data = encode.string_field(1, unscaled.to_bytes(size, "big", signed=True))
    return data + _SHORT.pack(_I16, 3, scale) + encode.STOP


def _single(row: Row) -> bytes:
    """Date and Timestamp: a struct with one i64."""
    low, high, nulls, distinct = row[_LOW], row[_HIGH], row[_NULLS], row[_DISTINCT]
    if low is None or high is None or nulls is None or distinct is None:
        bounds = ((1, low), (2, high))
        return _counted(row, *(b"" if v is None else _SINGLE.pack(_STRUCT, at, _I64, 1, v, 0) for at, v in bounds))
    begin = _SINGLE.pack(_STRUCT, 1, _I64, 1, low, 0) + _SINGLE.pack(_STRUCT, 2, _I64, 1, high, 0)
    return begin + _COUNTS.pack(_I64, 3, nulls, _I64, 4, distinct, 0, 0, 0)


_KINDS: Final[dict[bytes, tuple[int, _Encode]]] = {
    b"boolean": (1, _boolean),
    **dict.fromkeys((b"bigint", b"int", b"smallint", b"tinyint"), (2, _integer)),
    **dict.fromkeys((b"double", b"float"), (3, _double)),
    b"string": (4, _string),
    b"binary": (5, _binary),
    b"date": (7, _single),
    b"timestamp": (8, _single),
}
_BEGINNINGS: Final[tuple[tuple[tuple[bytes, ...], tuple[int, _Encode]], ...]] = (
    ((b"varchar", b"char"), (4, _string)),
    ((b"decimal",), (6, _decimal)),
)


def _kind(type_: bytes) -> tuple[int, _Encode]:
    """The union's field for a column's type, and its encoder."""
    lower = type_.lower()
    found = _KINDS.get(lower)
    if found is not None:
        return found
    return next((kind for begins, kind in _BEGINNINGS if lower.startswith(begins)), (0, _nothing))
