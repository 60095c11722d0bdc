"""A value that is made from files, and made again when they change.

Job: keep the value and notice changes of the files; while these cannot be used, the old value stays. Must not know:
what the files hold. Owner: one process; nothing here is called from two threads at once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from hms_cache_proxy.errors import ConfigError

Made = TypeVar("Made")


class Renewable(Generic[Made]):
    """`value` is made by `make` from `files` (an empty name is none). Raises what `make` raises."""

    def __init__(self, make: Callable[[], Made], files: Sequence[str]) -> None:
        self._make = make
        self._files = tuple(filter(None, files))
        self._seen = self._stamps()  # before the files are read: a change meanwhile is noticed the next time
        self._problem = ""
        self.value = make()

    def renew(self, *, at_once: bool = False) -> bool:
        """Make the value again if a file has changed, or `at_once`. True: there is a new one.

        ConfigError if the files cannot be used; the old value stays, and each further call tries again, but raises only
        when the problem is another one.
        """
        stamps = self._stamps()
        if stamps == self._seen and not at_once:
            return False
        try:
            self.value = self._make()
        except ConfigError as error:
            if str(error) == self._problem and not at_once:
                return False
            self._problem = str(error)
            raise
        self._seen, self._problem = stamps, ""
        return True

    def _stamps(self) -> list[tuple[int, ...] | None]:
        return [_stamp(file) for file in self._files]


def _stamp(file: str) -> tuple[int, ...] | None:
    """Something that changes when the file, or the link to it, is replaced or written. None: it cannot be looked at."""
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
