"""Large replies on their way into the cache: in slices, after they have been passed on.

Job: run the steps of one reply after the other, a slice in each turn of the loop. A load may publish at any time
(cache/ttl.py), so nobody waits for this but readers that wait for the load. Must not know: what a reply shows.
Bounds: QUEUE_BYTES of replies; one beyond them is kept at once. Owner: one per worker, on its loop.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ..large import run_slice

if TYPE_CHECKING:
    from .looking import Steps

WHOLE_BYTES: Final = 64 << 10
"""A shorter reply is kept at once."""
QUEUE_BYTES: Final = 64 << 20


class Learner:
    """The replies that wait. `wake` is called when there is something to do; it must not block."""

    __slots__ = ("_bytes", "_queue", "wake")

    def __init__(self) -> None:
        self.wake: Callable[[], None] = lambda: None
        self._queue: deque[tuple[Steps[bool], int]] = deque()
        self._bytes = 0

    def add(self, steps: Steps[bool], size: int) -> None:
        """Keep what a reply of `size` bytes shows, by these steps."""
        if size <= WHOLE_BYTES or self._bytes + size > QUEUE_BYTES:
            while run_slice(steps) is None:
                pass
        else:
            self._queue.append((steps, size))
            self._bytes += size
            self.wake()

    def some(self) -> bool:
        """One slice. False: nothing is left."""
        if self._queue:
            steps, size = self._queue.popleft()
            self._bytes -= size
            if run_slice(steps) is None:
                self._queue.appendleft((steps, size))
                self._bytes += size
        return bool(self._queue)
