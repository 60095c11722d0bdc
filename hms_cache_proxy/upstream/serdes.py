"""The serdes for which a metastore returns a table's stored columns; otherwise it asks the serde's class for them.

A metastore has this list as a setting (`metastore.serdes.using.metastore.for.schema`). These serdes are in the default
lists of Hive 3.1.3, 4.0.0 and 4.2.0. Tables without a serde class also have their stored columns. Owner: any process;
constants.
"""

from __future__ import annotations

from typing import Final

_SERDE2: Final = b"org.apache.hadoop.hive.serde2."
BEFORE_4: Final = frozenset(
    (
        b"org.apache.hadoop.hive.ql.io.orc.OrcSerde",
        b"org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe",
        _SERDE2 + b"lazy.LazySimpleSerDe",
        _SERDE2 + b"columnar.ColumnarSerDe",
        _SERDE2 + b"MetadataTypedColumnsetSerDe",
        _SERDE2 + b"columnar.LazyBinaryColumnarSerDe",
        _SERDE2 + b"lazybinary.LazyBinarySerDe",
    )
)
SINCE_4: Final = BEFORE_4 | {_SERDE2 + b"OpenCSVSerde", b"org.apache.iceberg.mr.hive.HiveIcebergSerDe"}


def with_stored_columns(version: str) -> frozenset[bytes]:
    """The serdes of a version."""
    return SINCE_4 if version.startswith("4.") else BEFORE_4
