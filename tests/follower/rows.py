"""Rows of a notification log, made by hand in the shapes that real metastores write."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping, Sequence
from typing import Any

from hms_cache_proxy.store.protocol import EventRow


def row(
    type: str,
    message: object = None,
    *,
    id: int = 1,
    db: str | None = "d",
    table: str | None = "t",
    cat: str | None = "hive",
    format: str = "gzip(json-2.0)",
) -> EventRow:
    """A row; `message` is packed as `format` says, a string is stored as it is."""
    return EventRow(
        event_id=id,
        nl_id=id,
        time_s=1_795_298_843,
        type=type,
        catalog=_bytes(cat),
        database=_bytes(db),
        table=_bytes(table),
        message=message if message is None or isinstance(message, str) else pack(message, format),
        message_format=format,
    )


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def pack(message: object, format: str = "gzip(json-2.0)") -> str:
    text = json.dumps(message)
    if format == "json-0.2":
        return text
    return base64.b64encode(gzip.compress(text.encode(), 1)).decode()


def thrift_list(kind: str, items: Sequence[Any]) -> dict[str, Any]:
    return {"lst": [kind, len(items), *items]}


def columns(*names: str, type: str = "string") -> dict[str, Any]:
    return thrift_list("rec", [{"1": {"str": name}, "2": {"str": type}, "3": {"str": ""}} for name in names])


def table(
    name: str = "t",
    db: str = "d",
    *,
    cat: str | None = "hive",
    cols: Sequence[str] = ("a",),
    keys: Sequence[str] = ("p",),
    location: str = "file:/w/t",
    parameters: Mapping[str, str] | None = None,
    id: int | None = 7,
    kind: str = "EXTERNAL_TABLE",
) -> str:
    """A Table as TJSONProtocol writes it."""
    held = dict(parameters or {"EXTERNAL": "TRUE"})
    struct: dict[str, Any] = {
        "1": {"str": name},
        "2": {"str": db},
        "7": {"rec": {"1": columns(*cols), "2": {"str": location}}},
        "8": columns(*keys),
        "9": {"map": ["str", "str", len(held), held]},
        "12": {"str": kind},
    }
    if cat is not None:
        struct["17"] = {"str": cat}
    if id is not None:
        struct["25"] = {"i64": id}
    return json.dumps(struct)


def partition(*values: str) -> str:
    return json.dumps({"1": thrift_list("str", values), "2": {"str": "d"}, "3": {"str": "t"}})


def database(name: str, cat: str | None = "hive") -> str:
    struct: dict[str, Any] = {"1": {"str": name}}
    if cat is not None:
        struct["8"] = {"str": cat}
    return json.dumps(struct)
