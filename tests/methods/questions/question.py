"""One question, and the words that the tables of questions are written in.

`{db}` is the world's database (world.py); HIT: answered from the cache, else the reason why the metastore is asked.
Must not know: readers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.methods.world import DEFAULT_PARTITION

HIT = ""


class Question(NamedTuple):
    """One call. `reason`: "" for a hit, else why the metastore is asked."""

    method: str
    arguments: dict[str, Any]
    reason: str = HIT
    releases: tuple[str, ...] = ("4.0", "4.2")
    """Which releases have the method."""


DB = b"{db}"
DEFAULT = DEFAULT_PARTITION
OLD = ("4.0",)
NEW = ("4.2",)
OTHER_ID = 1 << 40
"""The id of no table here."""
