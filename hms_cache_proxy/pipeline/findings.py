"""What an audit finds: differences as rows, their numbers, and Parquet files of them.

Job: collect the differences of one task: count them, keep the first ones, write all of them to files. Must not know:
what is compared.

Owner: whoever compares, one at a time; a `TaskResult` is sent from a task to the driver. Files need pyarrow.
"""

from __future__ import annotations

import io
import uuid
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from hms_cache_proxy.snapshots.place import Place

MISSING, EXTRA, DIFFERENT = "missing", "extra", "different"
_TEXTS: Final = ("kind", "catalog", "database", "table", "partition", "difference", "field")
_BYTES: Final = ("cached", "stored")

SHOWN: Final = 1000
"""Differences that are listed in the result; all are in the Parquet files."""

ROWS_IN_A_FILE: Final = 10_000


class Difference(NamedTuple):
    """One row; `difference`: missing (from the cache), extra or different; `field` says which field, and `cached` and
    `stored` are its two values, if they are bytes."""

    kind: str
    catalog: str
    database: str
    table: str | None
    partition: str | None
    difference: str
    field: str | None = None
    cached: bytes | None = None
    stored: bytes | None = None

    @property
    def what(self) -> str:
        """Its kind, as differences are counted."""
        return " ".join(part for part in (self.kind, self.difference, self.field) if part)


def text(value: bytes) -> str:
    """A name as it is shown."""
    return value.decode("utf-8", "replace")


@dataclass
class TaskResult:
    """Of some stretches, or of a whole audit. `compared`: objects by kind; `not_loaded`: tables that are relayed, by
    reason; `unsettled`: objects that changed whenever they were compared; `by_field`: differences by kind; `files`:
    names of files."""

    compared: Counter[str] = field(default_factory=Counter)
    not_loaded: Counter[str] = field(default_factory=Counter)
    unsettled: int = 0
    by_field: Counter[str] = field(default_factory=Counter)
    shown: list[Difference] = field(default_factory=list)
    files: list[str] = field(default_factory=list)

    def add(self, other: TaskResult) -> None:
        """Add those of another one."""
        self.compared += other.compared
        self.not_loaded += other.not_loaded
        self.unsettled += other.unsettled
        self.by_field += other.by_field
        self.shown += other.shown[: SHOWN - len(self.shown)]
        self.files += other.files

    @property
    def differences(self) -> int:
        """How many."""
        return self.by_field.total()

    def document(self) -> dict[str, Any]:
        """As JSON: each byte as the character with the same number."""
        shown = [[*row[:-2], *map(_characters, row[-2:])] for row in self.shown]
        return {
            "compared": self.compared,
            "not_loaded": self.not_loaded,
            "unsettled": self.unsettled,
            "by_field": self.by_field,
            "shown": shown,
            "files": self.files,
        }

    @classmethod
    def parse(cls, found: dict[str, Any]) -> TaskResult:
        """From JSON."""
        shown = [Difference(*row[:-2], *map(_bytes, row[-2:])) for row in found["shown"]]
        compared, not_loaded, by_field = (Counter(found[name]) for name in ("compared", "not_loaded", "by_field"))
        return cls(compared, not_loaded, found["unsettled"], by_field, shown, found["files"])


@dataclass(frozen=True, slots=True)
class FindingsSink:
    """Where the differences go: `out` is the URI of a directory, or empty."""

    out: str

    def collect(self, differences: Iterable[Difference], result: TaskResult) -> TaskResult:
        """Count them in `result`, which is returned, and write them to files."""
        waiting = list[Difference]()
        for one in differences:
            result.by_field[one.what] += 1
            if len(result.shown) < SHOWN:
                result.shown.append(one)
            if self.out:
                waiting.append(one)
                if len(waiting) >= ROWS_IN_A_FILE:
                    result.files.append(self.write(waiting))
                    waiting = []
        if waiting:
            result.files.append(self.write(waiting))
        return result

    def write(self, rows: list[Difference]) -> str:
        """Write a file; returns its name."""
        import pyarrow
        import pyarrow.parquet

        names = [(name, pyarrow.string()) for name in _TEXTS] + [(name, pyarrow.binary()) for name in _BYTES]
        columns = list(zip(*rows, strict=True)) if rows else [()] * len(names)
        sink, name = io.BytesIO(), f"part-{uuid.uuid4().hex[:12]}.parquet"
        table = pyarrow.table(list(map(list, columns)), schema=pyarrow.schema(names))
        pyarrow.parquet.write_table(table, sink, compression="zstd")
        Place(self.out).write(name, sink.getvalue())
        return name


def _characters(value: bytes | None) -> str | None:
    return None if value is None else value.decode("latin-1")


def _bytes(value: str | None) -> bytes | None:
    return None if value is None else value.encode("latin-1")
