"""How many columns the partitions in a reply have, for the reply of any method.

Job: read from a whole reply the numbers that `ttl.partition_column_limit` limits. Must not know: settings, entries.
Owner: any process; the projected classes are cached.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, Final

from hms_cache_proxy.errors import WireError
from hms_cache_proxy.wire import spec

from .. import projections
from ..reply_contents import whole_header

_OF_PARTITION: Final = ("sd.cols.name",)
_OF_SPEC: Final = ("sharedSDPartitionSpec.sd.cols.name", "partitionList.partitions.sd.cols.name")
_HOLDERS: Final = {"Partition": _OF_PARTITION, "PartitionSpec": _OF_SPEC}


def over(method: str, reply: bytes, limit: int) -> int:
    """How many partitions of a reply (in specs: descriptors) have more than `limit` columns. A reply that cannot be
    read counts as one."""
    paths = _paths(method)
    try:
        decoded, _ = spec.decode(projections.result_projection(method, paths), reply, whole_header(reply).body)
    except WireError:
        return 1
    return sum(count > limit for path in paths for count in _counts(decoded, path.split(".")[:-1]))


def _counts(value: Any, steps: Sequence[str]) -> Iterator[int]:
    if value is None:
        return
    if not steps:
        yield len(value)
        return
    for row in value if isinstance(value, list) else (value,):
        yield from _counts(getattr(row, steps[0]), steps[1:])


@cache
def _paths(method: str) -> tuple[str, ...]:
    """Paths to the columns' names of partitions in the result of a method."""
    success = _element(next(row.type for row in spec.METHODS[method].result if row.name == "success"))
    if success in _HOLDERS:
        return tuple(f"success.{path}" for path in _HOLDERS[success])
    rows = spec.fields(success)
    return tuple(f"success.{row.name}.{path}" for row in rows for path in _HOLDERS.get(_element(row.type), ()))


def _element(name: str) -> str:
    return name.removeprefix("list<").removesuffix(">")
