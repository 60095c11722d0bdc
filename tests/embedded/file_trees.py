"""Directories of a metastore under test: filled before a call, read after it.

Job: a `Tree` knows the three places in which the objects of one test lie (the external warehouse, the managed one, and
a directory outside of both), puts a file into every directory there, and reads them as one mapping that can be compared
with another metastore's. Must not know: calls, what they mean.
Invariant: a file's content says where it was put, and its size depends on that: a file that was moved, and the sum of
the sizes in a directory, differ from those of a file that was made there.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from tests.testbed.metastore import Metastore

FILES = ("data", "_hidden", ".hidden")
"""The files that fill() puts into each directory: one that counts as data, and two that Hive's statistics leave out."""
DIRECTORY = "directory"
EXTERNAL, MANAGED, ELSEWHERE = "external", "managed", "elsewhere"
CHECKSUM = ".crc"
"""Hadoop's local file system keeps checksums beside the files that it writes itself; they are no files of the test."""


class Tree:
    """What lies in the places of one test, by label: `external/...`, `managed/...`, `elsewhere/...`, with DB for the
    test's own name."""

    def __init__(self, metastore: Metastore, name: str, elsewhere: Path) -> None:
        self._name = name
        self.roots = {EXTERNAL: metastore.external, MANAGED: metastore.warehouse, ELSEWHERE: elsewhere}
        elsewhere.mkdir(parents=True)

    def _tops(self) -> Iterator[tuple[str, Path]]:
        """(label, directory): those of the databases whose names begin with the test's, and ELSEWHERE."""
        for label in (EXTERNAL, MANAGED):
            for path in sorted(self.roots[label].glob(f"{self._name}*")):
                yield f"{label}/{path.name}", path
        if self.roots[ELSEWHERE].exists():
            yield ELSEWHERE, self.roots[ELSEWHERE]

    def path(self, label: str) -> Path:
        """The path of a label."""
        root, _, rest = label.replace("DB", self._name).partition("/")
        return self.roots[root] / rest

    def make(self, tree: dict[str, str]) -> None:
        """These directories and files; links are not changed by calls."""
        for label, kind in tree.items():
            if kind == DIRECTORY:
                self.path(label).mkdir(parents=True, exist_ok=True)
            elif not kind.startswith("link to "):
                self.path(label).write_text(kind)

    def fill(self) -> None:
        """A file of each kind in every directory that has none of that name; links are not followed."""
        self.make(missing(self.read()))

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
            if top.is_symlink():
                found[label] = self._link(str(top))
            else:
                found[label] = DIRECTORY if top.is_dir() else top.read_text()
            if top.is_dir():
                self._read_below(label, str(top), found)
        return {label.replace(self._name, "DB"): kind for label, kind in sorted(found.items())}

    def _read_below(self, label: str, directory: str, found: dict[str, str]) -> None:
        """What lies in a directory; links are not followed. Trees are read after each call of a script, hence no
        Path."""
        with os.scandir(directory) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    self._read_below(f"{label}/{entry.name}", entry.path, found)
                if entry.name.endswith(CHECKSUM):
                    continue
                if entry.is_symlink():
                    kind = self._link(entry.path)
                elif entry.is_dir():
                    kind = DIRECTORY
                else:
                    with open(entry.path, encoding="utf-8") as file:
                        kind = file.read()
                found[f"{label}/{entry.name}"] = kind

    def _link(self, path: str) -> str:
        target = os.readlink(path)
        for label, root in self.roots.items():
            target = target.replace(str(root), label)
        return f"link to {target}"

    def remove(self) -> None:
        """Take everything of the test away."""
        for _, top in list(self._tops()):
            shutil.rmtree(top)


def missing(tree: dict[str, str]) -> dict[str, str]:
    """The files that a tree's directories do not have."""
    places = [label for label, kind in tree.items() if kind == DIRECTORY]
    wanted = {f"{label}/{name}": f"{name} of {label}" for label in places for name in FILES}
    return {label: content for label, content in wanted.items() if label not in tree}


def parted(expected: dict[str, str], found: dict[str, str]) -> list[str]:
    """How two trees differ, a line for each entry."""
    return [
        f"{label}: {expected.get(label, 'absent')!r} != {found.get(label, 'absent')!r}"
        for label in sorted(expected.keys() | found.keys())
        if expected.get(label) != found.get(label)
    ]
