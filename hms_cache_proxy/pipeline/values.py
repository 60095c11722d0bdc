"""Shows in which values two objects differ.

Job: find the innermost values that differ between the two structs of a difference, and their places. Must not know:
where the structs come from. Owner: the driver's process; no state.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from typing import Any, Final

from hms_cache_proxy.errors import WireError
from hms_cache_proxy.pipeline.findings import Difference
from hms_cache_proxy.wire import spec

STRUCTS: Final = {"database": "Database", "table": "Table", "partition": "Partition"}
MOST: Final = 5
"""Maximum number of values that are shown of one difference."""

CHARACTERS: Final = 80


def values(difference: Difference) -> list[str]:
    """`place: VALUE in the cache, VALUE in the database`, for a difference that has both as bytes."""
    if difference.cached is None or difference.stored is None:
        return []
    kind = spec.struct(STRUCTS[difference.kind])
    try:
        cached, stored = (spec.decode(kind, body)[0] for body in (difference.cached, difference.stored))
    except WireError:
        return []
    field = difference.field or ""
    if field in kind._names:
        found = list(_inner(field, getattr(cached, field), getattr(stored, field)))
    else:
        found = [one for name in kind._names for one in _inner(name, getattr(cached, name), getattr(stored, name))]
    told = [f"{place}: {_text(left)} in the cache, {_text(right)} in the database" for place, left, right in found]
    return told if len(told) <= MOST else [*told[:MOST], f"and {len(told) - MOST} more"]


def _inner(place: str, left: Any, right: Any) -> Iterator[tuple[str, Any, Any]]:
    if left == right:
        return
    if isinstance(left, dict) and isinstance(right, dict):
        for key in sorted({*left, *right}):
            yield from _inner(f"{place}[{_text(key)}]", left.get(key), right.get(key))
    elif isinstance(left, list) and isinstance(right, list):
        for number, (one, other) in enumerate(zip_longest(left, right)):
            yield from _inner(f"{place}[{number}]", one, other)
    elif hasattr(left, "_names") and hasattr(right, "_names"):
        for name in left._names:
            yield from _inner(f"{place}.{name}", getattr(left, name), getattr(right, name))
    else:
        yield place, left, right


def _text(value: Any) -> str:
    if value is None:
        return "nothing"
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    return repr(text if len(text) <= CHARACTERS else text[:CHARACTERS] + "...") if isinstance(value, bytes) else text
