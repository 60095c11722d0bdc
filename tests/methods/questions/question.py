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
    releases: tuple[str, ...] = ("3.1", "4.0", "4.2")
    """Which releases are asked; of 3.1 only what it has."""
    reason_31: str | None = None
    """The reason with Hive 3.1 where it is another one."""


DB = b"{db}"
DEFAULT = DEFAULT_PARTITION
OLD = ("3.1", "4.0")
NEW = ("4.2",)
HIVE_4 = ("4.0", "4.2")
OTHER_ID = 1 << 40
"""The id of no table here."""
