"""Partition names: `key=value/key=value`, in which %XX stands for characters that a path cannot have.

Job: values to a name and back, as Hive's Warehouse and FileUtils do. Must not know: tables, the cache.
Compared with metastores for every ASCII character. Owner: any process; no state.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from hms_cache_proxy.cache.typed import DEFAULT_PARTITION as DEFAULT_PARTITION

_ESCAPED = bytes([*range(1, 0x20), 0x7F]) + b"\"#%'*/:=?[\\]^{"
_NEEDS_ESCAPE = re.compile(b"[" + re.escape(_ESCAPED) + b"]")
_ESCAPE = re.compile(rb"%([0-9A-Fa-f]{2})")
_LOOSE_PERCENT = re.compile(rb"%(?![0-7][0-9A-Fa-f])|%00")
_COMPONENT = re.compile(rb"([^/=:\\]+)=([^/=:\\]+)")


def escape(value: bytes) -> bytes:
    """A key or value, as written in a name."""
    if _NEEDS_ESCAPE.search(value) is None:
        return value
    return _NEEDS_ESCAPE.sub(lambda found: b"%%%02X" % found.group()[0], value)


def make_name(keys: Sequence[tuple[bytes, bytes]], values: Sequence[bytes]) -> bytes:
    """The name of a partition. Keys are (name, type), as many as there are values; no value is empty."""
    return b"/".join([escape(key[0].lower()) + b"=" + escape(value) for key, value in zip(keys, values, strict=True)])


def split_name(name: bytes) -> dict[bytes, bytes] | None:
    """Keys and values of a name; None for a name that Hive reads in a way that is not reproduced here."""
    found: dict[bytes, bytes] = {}
    for component in name.split(b"/"):
        parts = _COMPONENT.fullmatch(component)
        if parts is None or _LOOSE_PERCENT.search(component):
            return None
        key, value = (_ESCAPE.sub(_character, part) for part in parts.groups())
        if key in found:
            return None
        found[key] = value
    return found


def _character(found: re.Match[bytes]) -> bytes:
    return bytes((int(found.group(1), 16),))
