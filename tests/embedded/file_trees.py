"""Directories of a metastore under test: filled before a call, read after it.

Job: a `Tree` knows the three places in which the objects of one test lie (the external warehouse, the managed one, and
a directory outside of both), puts a file into every directory there, and reads them as one mapping that can be compared
with another metastore's. Must not know: calls, what they mean.
Invariant: a file's content says where it was put, so that a file which was moved is told from one that was made there.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from tests.testbed.metastore import Metastore

DATA, HIDDEN = "data", "_hidden"
"""The files that fill() puts into each directory: one that counts as data, and one that Hive's statistics leave out."""
CHECKSUM = ".crc"
"""Hadoop's local file system keeps checksums beside the files that it writes itself; they are no files of the test."""


class Tree:
    """What lies in the places of one test. `elsewhere` is the directory that scripts call ELSEWHERE."""

    def __init__(self, metastore: Metastore, name: str, elsewhere: Path) -> None:
        self._name = name
        self._roots = {"external": metastore.external, "managed": metastore.warehouse, "elsewhere": elsewhere}
        elsewhere.mkdir(parents=True)

    def _tops(self) -> Iterator[tuple[str, Path]]:
        """(label, directory): those of the databases whose names begin with the test's, and ELSEWHERE."""
        for label, root in self._roots.items():
            if label == "elsewhere":
                yield label, root
            else:
                for path in sorted(root.glob(f"{self._name}*")):
                    yield f"{label}/{path.name}", path

    def path(self, label: str) -> Path:
        """The path of `external/...`, `managed/...` or `elsewhere/...`."""
        root, _, rest = label.partition("/")
        return self._roots[root] / rest

    def fill(self) -> None:
        """A file of each kind in every directory that has none of that name; links are not followed."""
        for label, top in self._tops():
            for directory, _, _ in os.walk(top):
                where = os.path.normpath(f"{label}/{os.path.relpath(directory, top)}")
                for name in (DATA, HIDDEN):
                    file = Path(directory) / name
                    if not file.exists():
                        file.write_text(f"{name} of {where}")

    def prepare(self, what: str, label: str, target: str = "") -> None:
        """Something that no call does: a `directory`, a `file`, a `link` to another label, or nothing (`gone`)."""
        path = self.path(label)
        if what == "gone":
            path.unlink() if path.is_symlink() or path.is_file() else shutil.rmtree(path)
        elif what == "link":
            path.symlink_to(self.path(target))
        elif what == "file":
            path.write_text(f"file {label}")
        else:
            path.mkdir(parents=True)

    def read(self) -> dict[str, str]:
        """By label: `directory`, a file's content, or where a link leads."""
        found: dict[str, str] = {}
        for label, top in self._tops():
            found[label] = self._kind(top)
            for directory, below, files in os.walk(top):
                for name in [*below, *files]:
                    path = Path(directory) / name
                    if not name.endswith(CHECKSUM):
                        found[os.path.normpath(f"{label}/{path.relative_to(top)}")] = self._kind(path)
        return found

    def _kind(self, path: Path) -> str:
        if path.is_symlink():
            target = os.readlink(path)
            return next(
                (f"link to {label}{target[len(str(root)) :]}" for label, root in self._roots.items()
                 if target.startswith(f"{root}/")),
                f"link to {target}",
            )
        return "directory" if path.is_dir() else path.read_text()

    def remove(self) -> None:
        """Take everything of the test away."""
        for _, top in list(self._tops()):
            shutil.rmtree(top)


def parted(expected: dict[str, str], found: dict[str, str]) -> list[str]:
    """How two trees differ, a line for each entry."""
    return [
        f"{label}: {expected.get(label, 'absent')!r} != {found.get(label, 'absent')!r}"
        for label in sorted(expected.keys() | found.keys())
        if expected.get(label) != found.get(label)
    ]
