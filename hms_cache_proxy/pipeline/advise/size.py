"""Finds out before Spark runs how much there is to read in access logs.

Job: add up the size of local files. Must not know: what is in them.
"""

from __future__ import annotations

import glob
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit
from urllib.request import url2pathname

SMALL_BYTES: Final = 200_000_000
"""About a million lines. Up to here, compiling Spark's code well takes longer than it saves (benchmarks/advise.py)."""

_COMPRESSED: Final = (".gz", ".bz2", ".zst", ".lz4", ".snappy")
_RATIO: Final = 10


def is_small(logs: Sequence[str]) -> bool:
    """Are all of these files, directories and patterns local, and have few lines together?"""
    total = 0
    for log in logs:
        found = urlsplit(log)
        if found.scheme not in ("", "file"):
            return False
        with suppress(OSError):  # Spark reports what cannot be read
            for file in _files(log if not found.scheme else url2pathname(found.path)):
                total += file.stat().st_size * (_RATIO if file.suffix in _COMPRESSED else 1)
    return total <= SMALL_BYTES


def _files(pattern: str) -> Iterator[Path]:
    """The files that are there. Spark reports what is missing, and knows more patterns."""
    for found in map(Path, {pattern, *glob.glob(pattern)}):
        yield from (one for one in ((found, *found.iterdir()) if found.is_dir() else (found,)) if one.is_file())
