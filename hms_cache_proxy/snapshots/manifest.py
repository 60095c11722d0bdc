"""The manifest of a snapshot: its files, its database and its events. It is the last file to be written.

Job: read and write the JSON document, and say why a snapshot cannot be used. Must not know: where files are, Parquet,
Spark, the cache. A directory without a manifest is not a snapshot: its writer did not finish.

    {"format": 2, "program": version, "created": "2026-01-31T12:00:00Z",
     "identity": {store's identity}, "scope": {"include": [], "exclude": []},
     "events": {"before": 17, "after": 17}, "exact": true, "fingerprint": hash of event 17's row,
     "marks": {"functions": hex, "catalogs": hex, "databases": hex} or null,
     "counts": {"databases": 1, "tables": 2, "partitions": 3, "transactional_tables": 0},
     "files": [{"kind": "tables", "name": "tables/part-0...", "rows": 2, "bytes": 999, "sha256": hex},
               {"kind": "partitions", ..., "first": 41, "last": 57, "unfit": [43]}, ...]}

`before` is the last event before the first query, `after` the last event after the last query. Objects are as of some
event between them, so a reader follows the log from `before`, and serves nothing before it has reached `after`. If all
queries saw one state (`exact`), the two are equal. Files of a kind are in the order of their rows. `first` and `last`
are the table ids of the first and the last row of a file of partitions; `unfit` are those of tables whose partitions
the cache cannot hold, and of which the file has only some.

An increment has databases and tables of its own. Its partitions are files of the last full snapshot, with
the names `../snapshot-.../partitions/...`, and those of kind `changes`, oldest first, of each increment since
(snapshots/layers.py). `counts` has the partitions of the full snapshot, and the rows of the changes.

Owner: any process; no state.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from hms_cache_proxy.cache.identity import WORDS
from hms_cache_proxy.errors import SnapshotError
from hms_cache_proxy.store.protocol import Marks, StoreIdentity

NAME: Final = "manifest.json"
FORMAT: Final = 3
READABLE: Final = (1, 2, 3)
"""Format 1 has no increments, and no summaries of tables (rows.py); formats 1 and 2 have no foreign keys, only the ids
of the tables that they refer to."""

PREFIX: Final = "snapshot-"
"""The beginning of the names of published snapshots."""

_ELSEWHERE: Final = "../"

_WORDS: Final = {**WORDS, "exact": "of another kind of store"}


@dataclass(frozen=True, slots=True)
class File:
    """A file. `name`: relative to the manifest's directory. `first`, `last`: table ids, None if they are not known;
    `unfit`: table ids, None if there are none."""

    kind: str
    name: str
    rows: int
    bytes: int
    sha256: str
    first: int | None = None
    last: int | None = None
    unfit: Sequence[int] | None = None

    @classmethod
    def of(cls, found: dict[str, Any]) -> File:
        """From JSON. Raises TypeError or ValueError if it is not one."""
        file = cls(**found)
        return file if file.unfit is None else replace(file, unfit=list(map(int, file.unfit)))


@dataclass(frozen=True, slots=True)
class Manifest:
    """The manifest; the module's docstring has the form."""

    program: str
    created: str
    identity: StoreIdentity
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    before: int
    after: int
    exact: bool
    fingerprint: bytes | None
    marks: Marks | None
    counts: dict[str, int]
    files: tuple[File, ...]

    def of_kind(self, kind: str) -> list[File]:
        """The files of a kind, in the order of their rows."""
        return [file for file in self.files if file.kind == kind]

    @property
    def elsewhere(self) -> set[str]:
        """The names of other snapshots, beside this one, that have some of its files."""
        return {file.name.split("/")[1] for file in self.files if file.name.startswith(_ELSEWHERE)}

    def dump(self) -> bytes:
        """The document."""
        marks = self.marks
        document = {
            "format": FORMAT,
            "program": self.program,
            "created": self.created,
            "identity": asdict(self.identity),
            "scope": {"include": list(self.include), "exclude": list(self.exclude)},
            "events": {"before": self.before, "after": self.after},
            "exact": self.exact,
            "fingerprint": _hex(self.fingerprint),
            "marks": marks
            and {
                "functions": _hex(marks.functions),
                "catalogs": _hex(marks.catalogs),
                "databases": _hex(marks.databases),
            },
            "counts": self.counts,
            "files": [
                {name: value for name, value in asdict(file).items() if value is not None} for file in self.files
            ],
        }
        return json.dumps(document, indent=1).encode() + b"\n"

    @classmethod
    def parse(cls, document: bytes) -> Manifest:
        """Parses the document. Raises SnapshotError if it is not a manifest, or has another format."""
        try:
            found = json.loads(document)
            if found["format"] not in READABLE:
                raise SnapshotError(f"its format is version {found['format']}, this program's is {FORMAT}")
            made = cls._of(found)
        except (ValueError, KeyError, TypeError) as error:
            raise SnapshotError(f"its {NAME} is damaged: {type(error).__name__} {error}") from error
        for file in made.files:
            if not _within(file.name):
                raise SnapshotError(f"its {NAME} names the file {file.name!r}, which is not of a snapshot")
        return made

    @classmethod
    def _of(cls, found: dict[str, Any]) -> Manifest:
        marks = found["marks"]
        return cls(
            found["program"],
            found["created"],
            StoreIdentity(**found["identity"]),
            tuple(found["scope"]["include"]),
            tuple(found["scope"]["exclude"]),
            int(found["events"]["before"]),
            int(found["events"]["after"]),
            bool(found["exact"]),
            _bytes(found["fingerprint"]),
            marks
            and Marks(bytes.fromhex(marks["functions"]), bytes.fromhex(marks["catalogs"]), _bytes(marks["databases"])),
            dict(found["counts"]),
            tuple(map(File.of, found["files"])),
        )

    def differs(self, identity: StoreIdentity, include: tuple[str, ...], exclude: tuple[str, ...]) -> str | None:
        """Why it cannot be used for this store and these settings; None if it can."""
        for name in StoreIdentity.__dataclass_fields__:
            words = _WORDS.get(name, "of another store")
            mine, wanted = getattr(self.identity, name), getattr(identity, name)
            if mine != wanted and (name != "database_uuid" or mine):  # without an id: the event's row identifies it
                return f"it is {words} ({name} {mine!r}, here {wanted!r})"
        if not identity.ordered_log:
            return "event ids of Hive 2.3 are not in order, so a proxy cannot tell which to replay"
        if not self.identity.database_uuid and not self.before:
            return "neither an id of the database nor an event shows which database it is of"
        if (self.include or self.exclude) and (self.include, self.exclude) != (include, exclude):
            return f"it has only what include = {list(self.include)}, exclude = {list(self.exclude)} admit"
        return None


def _within(name: object) -> bool:
    """Whether it is a file below the manifest's directory, or below that of another snapshot beside it: a manifest is
    read from where others may write, and must not name other files of this machine."""
    if not isinstance(name, str):
        return False
    own = name.removeprefix(_ELSEWHERE)
    return all(part not in ("", ".", "..") for part in own.split("/")) and (own == name or own.startswith(PREFIX))


def _hex(value: bytes | None) -> str | None:
    return None if value is None else value.hex()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)
