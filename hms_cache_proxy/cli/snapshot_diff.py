"""How `snapshot diff` shows a difference: as lines, or as JSON.

Job: choose names and order. Must not know: how snapshots are compared. Names that are not UTF-8 are shown with
replacement characters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from hms_cache_proxy.snapshots.difference import PartitionCounts, SnapshotDifference
from hms_cache_proxy.snapshots.manifest import Manifest
from hms_cache_proxy.snapshots.place import Place

Side = tuple[Place, Manifest]


def document(before: Side, after: Side, found: SnapshotDifference) -> dict[str, Any]:
    """The JSON object."""
    return {
        "a": _side(*before),
        "b": _side(*after),
        "databases": {
            "added": list(map(_name, found.added_databases)),
            "dropped": list(map(_name, found.dropped_databases)),
            "changed": {_name(key): names for key, names in found.changed_databases.items()},
        },
        "tables": {
            "added": list(map(_name, found.added_tables)),
            "dropped": list(map(_name, found.dropped_tables)),
            "changed": {_name(key): names for key, names in found.changed_tables.items()},
        },
        "partitions": {
            **asdict(found.all_partitions),
            "tables": {_name(key): asdict(counts) for key, counts in sorted(found.partitions.items())},
        },
    }


def lines(before: Side, after: Side, found: SnapshotDifference) -> Iterator[str]:
    """Lines for people: + was added, - was dropped, ~ has changed."""
    for mark, (place, made) in (("A", before), ("B", after)):
        yield f"{mark}: {place.uri} ({made.created}, event {made.after})"
    yield from _lines("database", found.added_databases, found.dropped_databases, found.changed_databases)
    yield from _lines("table", found.added_tables, found.dropped_tables, found.changed_tables)
    for key, counts in sorted(found.partitions.items()):
        yield f"~ partitions of {_name(key)}: {_counted(counts)}; {counts.before:,} -> {counts.after:,}"
    yield (
        f"tables: {len(found.added_tables):,} added, {len(found.dropped_tables):,} dropped, "
        f"{len(found.changed_tables):,} changed; partitions: {_counted(found.all_partitions)}"
    )


def _lines(
    kind: str, added: Sequence[tuple[bytes, ...]], dropped: Sequence[tuple[bytes, ...]], changed: dict[Any, list[str]]
) -> Iterator[str]:
    yield from (f"+ {kind} {_name(key)}" for key in added)
    yield from (f"- {kind} {_name(key)}" for key in dropped)
    yield from (f"~ {kind} {_name(key)}: {', '.join(names)}" for key, names in changed.items())


def _counted(counts: PartitionCounts) -> str:
    return f"{counts.added:,} added, {counts.removed:,} removed, {counts.changed:,} changed"


def _side(place: Place, made: Manifest) -> dict[str, Any]:
    return {"uri": place.uri, "created": made.created, "event": made.after, "exact": made.exact}


def _name(key: tuple[bytes, ...]) -> str:
    return b".".join(key).decode("utf-8", "replace")
