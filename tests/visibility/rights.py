"""What users may see, as a metastore's hooks know it, and what an answer may therefore show.

Job: change rights, remember when each was in force, and judge answers; rights of the tests' own hooks, as a file of
rules. Must not know: sockets, the proxy.
"""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

States = set[str]
SHOWN, HIDDEN, MASKED, REFUSED = "shown", "hide", "mask", "refuse"


@dataclass(frozen=True, slots=True)
class Since:
    """A state that may have begun at `from_s`, and that has replaced the one before it at `by_s`."""

    state: str
    from_s: float
    by_s: float


class Rights(ABC):
    """Who sees what now, and when it was otherwise. An object is `database`, `database.table` or
    `database.table/partition`."""

    def __init__(self) -> None:
        self._now: dict[tuple[str, str], tuple[str, str]] = {}  # state and column of what is not shown
        self._history: dict[tuple[str, str], list[Since]] = {}
        self._ended_s: dict[str, float] = {}

    @abstractmethod
    def _apply(self, user: str, what: str) -> None:
        """Let the metastore know that this has changed. It holds when this returns."""

    def set(self, user: str, what: str, state: str, column: str = "") -> None:
        """From now on the user sees the object so; `column`: which is masked, or makes the table refused."""
        pair, before_s = (user, what), time.monotonic()
        if state == SHOWN:
            self._now.pop(pair, None)
        else:
            self._now[pair] = state, column
        self._apply(user, what)
        self._history.setdefault(pair, []).append(Since(state, before_s, time.monotonic()))

    @property
    def restricted(self) -> list[tuple[str, str]]:
        """Users and what they do not see in full now."""
        return list(self._now)

    def ended(self, what: str = "") -> None:
        """All verdicts about this end with a call that is sent now; "": all about everything."""
        self._ended_s[what] = time.monotonic()

    def states(self, user: str, what: Sequence[str], ttl_s: float, sent_s: float, received_s: float) -> list[States]:
        """The states of each of these (an object, and what it is in) that may have decided about an answer: those that
        were in force at some time after the earliest check that may have allowed it."""
        since_s = max(sent_s - ttl_s, *(self._ended_s.get(name, 0.0) for name in (*what, "")))
        return [self._in_force((user, name), since_s, received_s) for name in what]

    def _in_force(self, pair: tuple[str, str], since_s: float, until_s: float) -> States:
        history = [Since(SHOWN, 0.0, 0.0), *self._history.get(pair, ())]
        ends = [one.by_s for one in history[1:]] + [float("inf")]
        return {
            one.state for one, end_s in zip(history, ends, strict=True) if one.from_s <= until_s and end_s >= since_s
        }


class RulesFile(Rights):
    """Rights that RulesHook.java and RulesListener.java read from a file, with each call."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self._file = file
        self._apply("", "")

    def _apply(self, user: str, what: str) -> None:
        lines = [
            f"{user} {state} {what}{'.' if column else ''}{column}\n"
            for (user, what), (state, column) in self._now.items()
        ]
        written = self._file.with_suffix(".new")
        written.write_text("".join(lines))
        os.replace(written, self._file)
