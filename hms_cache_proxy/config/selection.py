"""Which tables may be cached: the `include` and `exclude` patterns.

A pattern is a glob over `database.table` (`sales.*`, `*.tmp_*`; without a dot it names a whole database),
or `re:` and a regular expression that must match the whole of `database.table`. Names are lower case;
the case of a pattern does not matter. Patterns apply to every catalog. `exclude` takes precedence; an empty `include`
admits everything. Pure; imports nothing of the package.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence
from functools import lru_cache


@lru_cache(maxsize=1024)
def check_pattern(pattern: str) -> re.Pattern[str]:
    """The compiled pattern. Raises ValueError, with one line, if it is not a pattern."""
    if not pattern.startswith("re:"):
        glob = pattern.strip().lower()
        if not glob or glob.count(".") > 1:
            raise ValueError(f"{pattern!r} is not a glob such as sales.* (or re: and a regular expression)")
        return re.compile(fnmatch.translate(glob if "." in glob else f"{glob}.*"))
    try:
        return re.compile(pattern[3:], re.IGNORECASE)
    except re.error as error:
        raise ValueError(f"{pattern!r}: {error}") from error


class Selection:
    """Compiled patterns; the follower and the gate call `admits`."""

    __slots__ = ("_exclude", "_include")

    def __init__(self, include: Sequence[str], exclude: Sequence[str]) -> None:
        self._include = tuple(check_pattern(pattern) for pattern in include)
        self._exclude = tuple(check_pattern(pattern) for pattern in exclude)

    @property
    def everything(self) -> bool:
        return not self._include and not self._exclude

    def admits(self, database: bytes, table: bytes) -> bool:
        """May this table be cached? Names as stored (lower case)."""
        if self.everything:
            return True
        name = f"{database.decode('utf-8', 'replace')}.{table.decode('utf-8', 'replace')}"
        if any(pattern.fullmatch(name) for pattern in self._exclude):
            return False
        return not self._include or any(pattern.fullmatch(name) for pattern in self._include)
