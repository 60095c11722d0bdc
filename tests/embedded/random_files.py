"""Directories of a metastore that random calls change: filled before a call, read after it.

Job: the three places in which the objects of one run lie (both warehouses, and a directory outside of them), a file of
each kind put into every directory there, and all of it as one mapping that can be compared with another metastore's.
Must not know: calls, what they mean.
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
"""What fill() puts into each directory. The last two are not counted as data by Hive."""
SUBDIRECTORY = "sub"
CHECKSUM = ".crc"
"""Hadoop's local file system keeps checksums beside the files that it writes; no test puts them there."""
EXTERNAL, MANAGED, ELSEWHERE = "external", "managed", "elsewhere"


class Files:
    """What lies in the places of one run, by label: `external/...`, `managed/...`, `elsewhere/...`."""

    def __init__(self, metastore: Metastore, name: str, elsewhere: Path) -> None:
        self._name = name
        self.roots = {EXTERNAL: metastore.external, MANAGED: metastore.warehouse, ELSEWHERE: elsewhere}
        elsewhere.mkdir(parents=True)

    def link(self, label: str, target: str) -> None:
        """A symbolic link to a directory."""
        self._path(target).mkdir(parents=True, exist_ok=True)
        self._path(label).symlink_to(self._path(target))

    def make(self, tree: dict[str, str]) -> None:
        """These directories and files; links are not changed by calls."""
        for label, kind in tree.items():
            if kind == "directory":
                self._path(label).mkdir(parents=True, exist_ok=True)
            elif not kind.startswith("link to "):
                self._path(label).write_text(kind)

    def read(self) -> dict[str, str]:
        """By label: `directory`, a file's content, or where a link leads."""
        found: dict[str, str] = {}
        for label, top in self._tops():
            found[label] = self._kind(top)
            for directory, below, files in os.walk(top):
                where = os.path.normpath(f"{label}/{os.path.relpath(directory, top)}")
                for name in (*below, *files):
                    if not name.endswith(CHECKSUM):
                        found[f"{where}/{name}"] = self._kind(Path(directory) / name)
        return {label.replace(self._name, "DB"): kind for label, kind in sorted(found.items())}

    def restore(self, tree: dict[str, str]) -> None:
        """Make the directories and files what they were when they were read; links are not changed by calls."""
        now = self.read()
        for label in sorted(now.keys() - tree.keys(), reverse=True):
            path = self._path(label)
            shutil.rmtree(path) if now[label] == "directory" else path.unlink()  # checksums are not told
        self.make(tree)

    def remove(self) -> None:
        """All of it."""
        for _, top in list(self._tops()):
            shutil.rmtree(top)

    def _path(self, label: str) -> Path:
        root, _, rest = label.replace("DB", self._name).partition("/")
        return self.roots[root] / rest

    def _tops(self) -> Iterator[tuple[str, Path]]:
        for label in (EXTERNAL, MANAGED):
            for path in sorted(self.roots[label].glob(f"{self._name}*")):
                yield f"{label}/{path.name}", path
        if self.roots[ELSEWHERE].exists():
            yield ELSEWHERE, self.roots[ELSEWHERE]

    def _kind(self, path: Path) -> str:
        if path.is_symlink():
            target = os.readlink(path)
            for label, root in self.roots.items():
                target = target.replace(str(root), label)
            return f"link to {target}"
        return "directory" if path.is_dir() else path.read_text()


def missing(tree: dict[str, str]) -> dict[str, str]:
    """What a tree has not: the files in each directory, and a directory with the same."""
    places = [label for label, kind in tree.items() if kind == "directory"]
    below = [f"{label}/{SUBDIRECTORY}" for label in places if not label.endswith(f"/{SUBDIRECTORY}")]
    wanted = dict.fromkeys(below, "directory")
    wanted |= {f"{label}/{name}": f"{name} of {label}" for label in (*places, *below) for name in FILES}
    return {label: kind for label, kind in sorted(wanted.items()) if label not in tree}


def parted(expected: dict[str, str], found: dict[str, str]) -> str:
    """The first entry that two trees do not have in common, and how many there are; empty if they are equal."""
    apart = [label for label in sorted(expected.keys() | found.keys()) if expected.get(label) != found.get(label)]
    if not apart:
        return ""
    first = apart[0]
    left, right = expected.get(first, "absent"), found.get(first, "absent")
    return f"{first}: {left!r} != {right!r} ({len(apart)} entries differ)"
