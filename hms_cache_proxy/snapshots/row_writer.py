"""Writes rows of one kind to Parquet files.

Job: collect rows into row groups, and row groups into files of a limited size, each with its checksum. Must not know:
where rows come from, Spark. A file is made in memory and then written under a name that nobody else uses. So nothing is
renamed, two attempts at the same task do not disturb each other, and a file counts only if a manifest names it.

Owner: whoever writes; one at a time. Needs pyarrow.
"""

from __future__ import annotations

import hashlib
import io
import uuid
from typing import Any, Final

from hms_cache_proxy.snapshots import rows
from hms_cache_proxy.snapshots.manifest import File
from hms_cache_proxy.snapshots.place import Place

ROWS_PER_GROUP: Final = 25_000
FILE_BYTES: Final = 24 << 20
"""A file that has become this large is ended. Whoever reads a file reads all of it."""

_UNFIT: Final = list(rows.COLUMNS[rows.PARTITIONS]).index("unfit")


class FileWriter:
    """`stem`: the beginning of the files' names, with directories; `files`: those that are complete."""

    def __init__(self, place: Place, kind: str, stem: str) -> None:
        self._place = place
        self._kind = kind
        self._stem = stem
        self._waiting: list[tuple[Any, ...]] = []
        self._sink = io.BytesIO()
        self._parquet: Any = None
        self._rows = 0
        self._ids = _table_id(kind)
        self._first: int | None = None
        self._last: int | None = None
        self._unfit: set[int] = set()
        self.files: list[File] = []

    def add(self, row: tuple[Any, ...]) -> None:
        """Add one row, with the values of rows.COLUMNS in order."""
        self._waiting.append(row)
        if len(self._waiting) >= ROWS_PER_GROUP:
            self._flush()
            if self._sink.tell() >= FILE_BYTES:
                self._end_file()

    def close(self) -> list[File]:
        """Write what is left; returns all files."""
        self._flush()
        self._end_file()
        return self.files

    def _flush(self) -> None:
        import pyarrow.parquet

        if not self._waiting:
            return
        if self._parquet is None:
            self._parquet = pyarrow.parquet.ParquetWriter(self._sink, rows.schema(self._kind), compression="zstd")
        self._parquet.write_batch(rows.batch(self._kind, self._waiting))
        self._rows += len(self._waiting)
        if self._ids is not None:
            self._first = self._waiting[0][self._ids] if self._first is None else self._first
            self._last = self._waiting[-1][self._ids]
            self._unfit.update(row[self._ids] for row in self._waiting if row[_UNFIT] is not None)
        self._waiting = []

    def _end_file(self) -> None:
        if self._parquet is None:
            return
        self._parquet.close()
        data = self._sink.getvalue()
        name = f"{self._stem}-{uuid.uuid4().hex[:12]}.parquet"
        self._place.write(name, data)
        digest = hashlib.sha256(data).hexdigest()
        unfit = sorted(self._unfit) or None
        self.files.append(File(self._kind, name, self._rows, len(data), digest, self._first, self._last, unfit))
        self._sink, self._parquet, self._rows = io.BytesIO(), None, 0
        self._first = self._last = None
        self._unfit = set()


def _table_id(kind: str) -> int | None:
    """The column of the table's id, if a reader may skip files of this kind."""
    return list(rows.COLUMNS[kind]).index("table_id") if kind == rows.PARTITIONS else None
