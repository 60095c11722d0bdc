"""Reads the message of a notification event.

Job: decode the stored text to a JSON object, for every format that a metastore writes (`json-0.2`: plain;
`gzip(json-2.0)` and its alias `gzip`: base64 of gzip of JSON); look values up by type, and raise an error instead of
guessing. Thrift objects inside a message are strings of TJSONProtocol: field id -> {type: value}, lists as [type,
count, items...]. Must not know what an event means (events.py), the store or the cache.

Invariants: any text gives a value or WireError. Nothing larger than MAX_MESSAGE_BYTES is unpacked. Pure, no state.
"""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any, TypeAlias

from hms_cache_proxy.errors import LimitError, WireError
from hms_cache_proxy.store.part_names import partition_name as partition_name

Json: TypeAlias = dict[str, Any]
"""A decoded JSON object; Any because its values are looked up through the functions below."""

MAX_MESSAGE_BYTES = 256 << 20
"""An ADD_PARTITION of 32,767 partitions with 100 columns each has 200 MB. If a message is larger, it is not read, and
what the row's columns name is reloaded."""

_GZIP_FORMATS = frozenset({"gzip(json-2.0)", "gzip"})
_PLAIN_FORMATS = frozenset({"json-0.2", "json-2.0", ""})
_GZIP_WINDOW = 31  # zlib: gzip header and trailer, any window size


def decode(message: str | None, message_format: str | None, *, limit: int = MAX_MESSAGE_BYTES) -> Json:
    """The JSON object of a log row's message; WireError if there is none or it cannot be read."""
    if message is None:
        raise WireError("the event has no message")
    name = message_format or ""
    if name in _GZIP_FORMATS:
        text: bytes | str = _unzip(message, limit)
    elif name in _PLAIN_FORMATS:
        text = message
        if len(message) > limit:
            raise LimitError(f"the event's message is too long: {len(message)} bytes", limit="MAX_MESSAGE_BYTES")
    else:
        raise WireError(f"unknown message format {name!r}")
    return _load(text)


def _unzip(message: str, limit: int) -> bytes:
    unpacker = zlib.decompressobj(_GZIP_WINDOW)
    try:
        data = unpacker.decompress(base64.b64decode(message, validate=True), limit)
    except (ValueError, zlib.error) as error:
        raise WireError(f"the event's message is not base64 of gzip: {error}") from error
    if unpacker.unconsumed_tail:
        raise LimitError("the event's message is too long", limit="MAX_MESSAGE_BYTES")
    if not unpacker.eof:
        raise WireError("the event's message ends early")
    return data


def _load(text: bytes | str) -> Json:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise WireError(f"the event's message is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise WireError("the event's message is not a JSON object")
    return value


def encoded(value: object, what: str) -> bytes:
    """A JSON string as UTF-8; WireError if it is another type or half a surrogate pair."""
    if not isinstance(value, str):
        raise WireError(f"{what} is no string")
    try:
        return value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise WireError(f"{what} is no text") from error


def text(message: Json, key: str) -> bytes:
    """The string under `key`."""
    return encoded(message.get(key), key)


def integer(message: Json, key: str) -> int:
    """The number under `key`."""
    return whole(message.get(key), key)


def whole(value: object, what: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise WireError(f"{what} is no number")
    return value


def items(message: Json, key: str) -> list[Any]:
    """The list under `key`."""
    value = message.get(key)
    if not isinstance(value, list):
        raise WireError(f"{key} is no list")
    return value


def mapping(message: Json, key: str) -> Json:
    """The object under `key`."""
    value = message.get(key)
    if not isinstance(value, dict):
        raise WireError(f"{key} is no object")
    return value


def thrift(message: Json, key: str) -> Json:
    """The Thrift object that is a string under `key`, by field id."""
    return thrift_object(message.get(key), key)


def thrift_object(value: object, what: str) -> Json:
    if not isinstance(value, str):
        raise WireError(f"{what} is no object")
    return _load(value)


def field(struct: Json, number: int, kind: str) -> Any:
    """The value of field `number`, whose wire type is `kind` (`str`, `i64`, `rec`, `lst`, `map`); None if
    unset."""
    holder = struct.get(str(number))
    if holder is None:
        return None
    if not isinstance(holder, dict) or kind not in holder:
        raise WireError(f"field {number} is not of type {kind}")
    return holder[kind]


def string_field(struct: Json, number: int) -> bytes | None:
    """A string field as bytes; None if unset."""
    value = field(struct, number, "str")
    return None if value is None else encoded(value, f"field {number}")


def list_field(struct: Json, number: int) -> list[Any] | None:
    """The items of a list field; None if unset."""
    value = field(struct, number, "lst")
    if value is None:
        return None
    if not isinstance(value, list) or len(value) < 2 or value[1] != len(value) - 2:
        raise WireError(f"field {number} is no list")
    return value[2:]


def struct_field(struct: Json, number: int) -> Json | None:
    """A struct field; None if unset."""
    value = field(struct, number, "rec")
    if value is not None and not isinstance(value, dict):
        raise WireError(f"field {number} is no struct")
    return value


def map_field(struct: Json, number: int) -> Json:
    """The entries of a map of strings; empty if unset."""
    value = field(struct, number, "map")
    if value is None:
        return {}
    if not isinstance(value, list) or len(value) < 3 or not isinstance(value[-1], dict):
        raise WireError(f"field {number} is no map")
    return value[-1]
