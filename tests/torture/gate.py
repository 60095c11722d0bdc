"""Threads that can be made to stand still between two jobs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

WAIT_S = 900.0


class Gate:
    """Open, or closed with nobody inside."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside = 0
        self.closing = False

    @contextmanager
    def inside(self) -> Iterator[None]:
        """For one job: begins when the gate is open."""
        with self._changed:
            self._changed.wait_for(lambda: not self.closing)
            self._inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1
                self._changed.notify_all()

    @contextmanager
    def closed(self) -> Iterator[None]:
        """Wait until nobody is inside, and let nobody in."""
        with self._changed:
            self.closing = True
            assert self._changed.wait_for(lambda: self._inside == 0, WAIT_S), "a client does not come to an end"
        try:
            yield
        finally:
            with self._changed:
                self.closing = False
                self._changed.notify_all()
