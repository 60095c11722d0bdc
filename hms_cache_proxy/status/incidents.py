"""What went wrong recently: failures, resets and restarts, each with its time.

Job: compare the counters with those before, and remember what has grown. Must not know: where the counters come from.
Memory is bounded: the last MOST entries are kept. Owner: the supervisor's loop.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass
from typing import Final

from hms_cache_proxy.status import words

MOST: Final = 20


@dataclass(slots=True)
class Incident:
    """`count`: how often it happened between `first_s` and `last_s`, in seconds since 1970."""

    key: tuple[str, str]
    count: int
    first_s: float
    last_s: float


class Incidents:
    """The last of them."""

    def __init__(self) -> None:
        self._before: Counter[tuple[str, str]] = Counter()
        self._kept: deque[Incident] = deque(maxlen=MOST)
        self._compared_s = 0.0

    def compare(self, counters: Counter[tuple[str, str]], now_s: float) -> None:
        """Compare with the last call. What went on since then without a pause is one incident."""
        for key, number in (counters - self._before).items():
            last = next((one for one in self._kept if one.key == key), None)
            if last is not None and self._went_on(last):
                last.count += number
                last.last_s = now_s
            else:
                self._kept.append(Incident(key, number, now_s, now_s))
        self._before = counters
        self._compared_s = now_s

    def _went_on(self, last: Incident) -> bool:
        return last.last_s == self._compared_s

    def as_list(self) -> list[dict[str, object]]:
        """The newest first."""
        return [
            {"at_s": one.last_s, "since_s": one.first_s, "count": one.count, "text": words.incident(*one.key)}
            for one in sorted(self._kept, key=lambda one: one.last_s, reverse=True)
        ]
