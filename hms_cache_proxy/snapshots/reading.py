"""Reads the files of a snapshot: each at most once, and only if it may have tables that are wanted.

Job: decide which files are read, and in which order. The manifest names the first and the last table of a file of
partitions, and its tables are all those between them in the order of the tables' files. So a file without a wanted
table is not read, and of a file with one only the row groups that have it are decoded. Must not know: what the reader
does with the records.

Invariant: what is returned comes from a file with the size and checksum of the manifest. A file that is not read is not
checked.

The files of tables are kept in memory, as compressed bytes, if tables must be known before their partitions are read.
This is so if some tables are left out, or if the snapshot is not of one state. Owner: the process that reads; needs
pyarrow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import accumulate

from hms_cache_proxy.snapshots import layers, rows
from hms_cache_proxy.snapshots.layers import Runs
from hms_cache_proxy.snapshots.manifest import File, Manifest
from hms_cache_proxy.snapshots.place import Place
from hms_cache_proxy.snapshots.rows import OutlinedTable, PartitionRun, TableRow
from hms_cache_proxy.store.protocol import DatabaseRecord

Admits = Callable[[bytes, bytes], bool]


class Reading:
    """`admits`: whether a table, by database and name, is wanted; None: all are."""

    def __init__(self, place: Place, manifest: Manifest, admits: Admits | None) -> None:
        self._place = place
        self._manifest = manifest
        self._admits = admits

    def databases(self) -> Iterator[DatabaseRecord]:
        """All databases."""
        for file in self._manifest.of_kind(rows.DATABASES):
            yield from rows.databases(self._place.read(file))

    def tables(self) -> Iterator[TableRow]:
        """All tables, those that are not wanted, too."""
        for data in self._kept if self._ahead else self._read_tables():
            yield from rows.tables(data)

    def runs(self) -> Runs:
        """The partitions, in the order of the tables; those of tables that are not wanted may be missing."""
        return Runs(self._partitions(), layers.read(self._place, self._manifest))

    def twice(self) -> set[int]:
        """Ids of tables that occur twice, because a table was renamed while the snapshot was made."""
        if self._manifest.exact:
            return set()
        times = Counter(table.table_id for table in self._listed if table.loaded)
        return {table_id for table_id, number in times.items() if number > 1}

    @property
    def _ahead(self) -> bool:
        return self._admits is not None or not self._manifest.exact

    def _read_tables(self) -> Iterator[bytes]:
        return (self._place.read(file) for file in self._manifest.of_kind(rows.TABLES))

    @cached_property
    def _kept(self) -> list[bytes]:
        return list(self._read_tables())

    @cached_property
    def _listed(self) -> list[OutlinedTable]:
        return [table for data in self._kept for table in rows.listed(data)]

    def _partitions(self) -> Iterator[PartitionRun]:
        for file in self._manifest.of_kind(rows.PARTITIONS):
            if self.needed(file):
                yield from rows.partitions(self._place.read(file), self._wanted)

    def needed(self, file: File) -> bool:
        """Whether a file of partitions may have some of a wanted table. Also if that cannot be told: its tables are not
        named, or the first or last one has been dropped since or has two names."""
        if self._admits is None:
            return True
        places, wanted = self._order
        begin, end = (None if one is None else places.get(one) for one in (file.first, file.last))
        if begin is None or end is None or begin > end:
            return True
        return wanted[end + 1] > wanted[begin]

    @cached_property
    def _wanted(self) -> frozenset[int] | None:
        """The ids of wanted tables; None: all are."""
        admits = self._admits
        if admits is None:
            return None
        return frozenset(table.table_id for table in self._listed if admits(table.database, table.name))

    @cached_property
    def _order(self) -> tuple[dict[int, int], list[int]]:
        """The places of tables by id; and before each place, the number of wanted tables with partition keys."""
        admits = self._admits
        assert admits is not None, "asked only if some tables are left out"
        times = Counter(table.table_id for table in self._listed)
        places = {table.table_id: at for at, table in enumerate(self._listed) if times[table.table_id] == 1}
        wanted = (table.partitioned and admits(table.database, table.name) for table in self._listed)
        return places, list(accumulate(wanted, initial=0))
