"""Partition names: turns values into a name and back, as Hive's Warehouse does.

Job: do what a reader needs beyond the escapes (store/part_names.py); return None if a name cannot be read with
certainty. Must not know: tables, the cache. Owner: any process; no state.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from hms_cache_proxy.store.part_names import DEFAULT_PARTITION as DEFAULT_PARTITION
from hms_cache_proxy.store.part_names import escape as escape
from hms_cache_proxy.store.part_names import unescape

_LOOSE_PERCENT = re.compile(rb"%(?![0-7][0-9A-Fa-f])|%00")
_COMPONENT = re.compile(rb"([^/=:\\]+)=([^/=:\\]+)")


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
        key, value = map(unescape, parts.groups())
        if key in found:
            return None
        found[key] = value
    return found
