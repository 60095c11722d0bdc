"""Looks into the objects of a reply, for the reply of any method.

Job: read from a whole reply how many columns its partitions have (`ttl.partition_column_limit` limits them), and
whether it shows a materialized view. Must not know: settings, entries. Owner: any process; the projected classes are
cached.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, Final

from hms_cache_proxy.errors import WireError
from hms_cache_proxy.wire import facts, spec

from .. import projections
from ..reply_contents import whole_header

_COLUMNS: Final = (
    ("Partition", "sd.cols.name"),
    ("PartitionSpec", "sharedSDPartitionSpec.sd.cols.name"),
    ("PartitionSpec", "partitionList.partitions.sd.cols.name"),
)
_TYPES: Final = (("Table", "tableType"),)
"""Pairs of a struct and a path in it."""
_MATERIALIZED: Final = b"MATERIALIZED_VIEW"


def wide_partitions(method: str, reply: bytes, limit: int) -> int:
    """How many partitions of a reply (in specs: descriptors) have more than `limit` columns. A reply that cannot be
    read counts as one."""
    paths = _paths(method, _COLUMNS)
    try:
        decoded = _decoded(method, paths, reply)
    except WireError:
        return 1
    return sum(len(found) > limit for path in paths for found in _values(decoded, path.split(".")[:-1]))


def shows_materialized_view(method: str, reply: bytes) -> bool:
    """Is one of the tables in a reply a materialized view? Also True for a reply that cannot be read.

    Hive 4 repeats the source tables of a view with their parameters (Table.creationMetadata.sourceTables)."""
    paths = _paths(method, _TYPES)
    try:
        decoded = _decoded(method, paths, reply) if paths else None
    except WireError:
        return True
    return any(found == _MATERIALIZED for path in paths for found in _values(decoded, path.split(".")))


def _decoded(method: str, paths: tuple[str, ...], reply: bytes) -> Any:
    return spec.decode(projections.result_projection(method, paths), reply, whole_header(reply).body)[0]


def _values(value: Any, steps: Sequence[str]) -> Iterator[Any]:
    if value is None:
        return
    if not steps:
        yield value
        return
    for row in value if isinstance(value, list) else (value,):
        yield from _values(getattr(row, steps[0]), steps[1:])


@cache
def _paths(method: str, wanted: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
    """The paths in the result of a method, which returns one of these structs, several, or a struct that holds them."""
    success = _element(next(row.type for row in facts.METHODS[method].result if row.name == "success"))
    held = [("success", success)]
    if success in facts.STRUCTS:
        held += [(f"success.{row.name}", _element(row.type)) for row in facts.fields(success)]
    return tuple(f"{at}.{path}" for at, struct in held for name, path in wanted if struct == name)


def _element(name: str) -> str:
    return name.removeprefix("list<").removesuffix(">")
