"""Records what a build has done so far, beside its files, so that an interrupted build can be resumed.

    <snapshot>/_build/begun.json             the manifest as far as it is known: identity, scope, event, marks
    <snapshot>/_build/tables.json, ...       the stretches of a kind, in rounds
    <snapshot>/_build/tables-00003.done      that round is complete, and these are its files
    <snapshot>/tables/round-00003/part-...   its files

Job: write each of these documents atomically. A round is what one Spark job reads; if the build is interrupted, at most
one round is lost. Must not know: how stretches are read.

Invariant: the files of a round that is not marked as done are never read, and removed before it is read again.

Owner: the driver's process, one at a time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, Final

from hms_cache_proxy.errors import SnapshotError
from hms_cache_proxy.pipeline.ranges import Partitioned, PartitionStretch, S, StretchTable, TableStretch
from hms_cache_proxy.pipeline.tasks import Written
from hms_cache_proxy.snapshots import rows
from hms_cache_proxy.snapshots.manifest import File, Manifest
from hms_cache_proxy.snapshots.place import Place

NAME: Final = "_build"
BEGUN: Final = f"{NAME}/begun.json"
COST: Final = 250_000
"""Partitions of a round per connection; they take about ten seconds."""


class Rounds:
    """The documents of one build."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def clear(self) -> None:
        """Remove all documents and files. Raises SnapshotError if nothing can be written here."""
        for name in (NAME, *rows.KINDS):
            self._place.delete(name)

    def begin(self, manifest: Manifest) -> None:
        """From now on the build can be resumed: the databases are written, and the rounds of the tables are known."""
        self._place.write(BEGUN, manifest.dump())

    def begun(self) -> Manifest | None:
        """What the interrupted build recorded when it began; None if there is none."""
        return Manifest.parse(self._place.document(BEGUN)) if self._place.exists(BEGUN) else None

    def plan(self, kind: str) -> list[list[Any]] | None:
        """The rounds of a kind; None if they are not known yet."""
        name = f"{NAME}/{kind}.json"
        if not self._place.exists(name):
            return None
        try:
            load = _LOADED[kind]
            return [[load(one) for one in some] for some in json.loads(self._place.document(name))]
        except (ValueError, TypeError) as error:
            raise SnapshotError(f"{name} is damaged: {error}") from error

    def keep(self, kind: str, plan: Sequence[Sequence[Any]]) -> None:
        """Record the rounds of a kind."""
        dump = _DUMPED[kind]
        document = [[dump(stretch) for stretch in some] for some in plan]
        self._place.write(f"{NAME}/{kind}.json", json.dumps(document).encode())

    def result(self, kind: str, number: int) -> Written | None:
        """What a round wrote; None if it is not complete."""
        name = f"{NAME}/{kind}-{number:05}.done"
        if not self._place.exists(name):
            return None
        try:
            files, transactional = json.loads(self._place.document(name))
            return Written(list(map(File.of, files)), int(transactional))
        except (ValueError, TypeError) as error:
            raise SnapshotError(f"{name} is damaged: {error}") from error

    def again(self, kind: str, number: int) -> None:
        """Remove what an interrupted round has left."""
        self._place.delete(directory(kind, number))

    def done(self, kind: str, number: int, written: Written) -> None:
        """The round is complete."""
        document = [[asdict(file) for file in written.files], written.transactional]
        self._place.write(f"{NAME}/{kind}-{number:05}.done", json.dumps(document).encode())

    def end(self) -> None:
        """The snapshot is complete: remove the documents."""
        self._place.delete(NAME)


def directory(kind: str, number: int) -> str:
    """The directory of a round's files, in the snapshot."""
    return f"{kind}/round-{number:05}"


def rounds(stretches: Sequence[S], cost: int) -> list[list[S]]:
    """The stretches in rounds of about this cost; one empty round for no stretches: every kind has a directory."""
    found: list[list[S]] = [[]]
    spent = 0
    for stretch in stretches:
        if spent >= cost:
            found.append([])
            spent = 0
        found[-1].append(stretch)
        spent += stretch.cost
    return found


# Stretches as JSON: each byte as the character with the same number


def _dump_tables(stretch: TableStretch) -> list[Any]:
    tables = [(_text(one.name), _text(one.table_type), one.table_id, one.admitted) for one in stretch.tables]
    return [stretch.place, *map(_text, stretch.database), tables]


def _load_tables(found: list[Any]) -> TableStretch:
    place, catalog, database, tables = found
    named = (StretchTable(_bytes(name), _bytes(kind), id_, admitted) for name, kind, id_, admitted in tables)
    return TableStretch(place, (_bytes(catalog), _bytes(database)), tuple(named))


def _dump_partitions(stretch: PartitionStretch) -> list[Any]:
    tables = [
        (_text(one.catalog), _text(one.database), _text(one.name), one.table_id, one.full_acid)
        for one in stretch.tables
    ]
    ends = [None if end is None else _text(end) for end in (stretch.after, stretch.until)]
    return [stretch.place, tables, stretch.partitions, *ends]


def _load_partitions(found: list[Any]) -> PartitionStretch:
    place, tables, partitions, *ends = found
    its = tuple(
        Partitioned(_bytes(catalog), _bytes(database), _bytes(name), id_, full_acid)
        for catalog, database, name, id_, full_acid in tables
    )
    after, until = (None if end is None else _bytes(end) for end in ends)
    return PartitionStretch(place, its, partitions, after, until)


def _text(value: bytes) -> str:
    return value.decode("latin-1")


def _bytes(value: str) -> bytes:
    return value.encode("latin-1")


_DUMPED: Final[dict[str, Callable[[Any], list[Any]]]] = {rows.TABLES: _dump_tables, rows.PARTITIONS: _dump_partitions}
_LOADED: Final[dict[str, Callable[[list[Any]], Any]]] = {rows.TABLES: _load_tables, rows.PARTITIONS: _load_partitions}
