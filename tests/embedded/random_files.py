"""Directories of a metastore that random calls change: restored, linked, and filled with directories as well.

Job: what file_trees.py does, for a loop that goes on after a call. Must not know: calls, what they mean.
"""

from __future__ import annotations

import shutil

from tests.embedded import file_trees
from tests.embedded.file_trees import DIRECTORY, Tree

SUBDIRECTORY = "sub"


class Files(Tree):
    """What lies in the places of one run."""

    def link(self, label: str, target: str) -> None:
        """A symbolic link to a directory."""
        self.path(target).mkdir(parents=True, exist_ok=True)
        self.path(label).symlink_to(self.path(target))

    def restore(self, tree: dict[str, str]) -> None:
        """Make the directories and files what they were when they were read; links are not changed by calls."""
        now = self.read()
        for label in sorted(now.keys() - tree.keys(), reverse=True):
            path = self.path(label)
            shutil.rmtree(path) if now[label] == DIRECTORY else path.unlink()  # checksums are not told
        self.make(tree)


def missing(tree: dict[str, str]) -> dict[str, str]:
    """What a tree has not: the files in each directory, and a directory with the same."""
    places = [label for label, kind in tree.items() if kind == DIRECTORY]
    below = [f"{label}/{SUBDIRECTORY}" for label in places if not label.endswith(f"/{SUBDIRECTORY}")]
    added = {label: DIRECTORY for label in below if label not in tree}
    return dict(sorted((added | file_trees.missing(tree | added)).items()))


def parted(expected: dict[str, str], found: dict[str, str]) -> str:
    """The first entry that two trees do not have in common, and how many there are; empty if they are equal."""
    lines = file_trees.parted(expected, found)
    return f"{lines[0]} ({len(lines)} entries differ)" if lines else ""
