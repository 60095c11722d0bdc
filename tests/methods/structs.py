"""Structs of the wire, as tests write them. Must not know: metastores, readers."""

from __future__ import annotations

from typing import Any

from hms_cache_proxy.wire import spec

TEXT_INPUT = b"org.apache.hadoop.mapred.TextInputFormat"
TEXT_OUTPUT = b"org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat"
LAZY_SERDE = b"org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"


def struct(struct_name: str, /, **fields: Any) -> spec.Struct:
    """A struct of the wire, checked for names."""
    cls = spec.struct(struct_name)
    assert set(fields) <= set(cls._names), struct_name
    return cls(**fields)


def descriptor(**fields: Any) -> spec.Struct:
    """A text StorageDescriptor."""
    columns = [
        struct("FieldSchema", name=b"id", type=b"bigint", comment=b"c"),
        struct("FieldSchema", name=b"n", type=b"string"),
    ]
    serde = struct("SerDeInfo", serializationLib=LAZY_SERDE, parameters={b"serialization.format": b"1"})
    values = {
        "cols": columns,
        "inputFormat": TEXT_INPUT,
        "outputFormat": TEXT_OUTPUT,
        "compressed": False,
        "numBuckets": -1,
        "serdeInfo": serde,
        "bucketCols": [],
        "sortCols": [],
        "parameters": {},
    }
    return struct("StorageDescriptor", **(values | fields))
