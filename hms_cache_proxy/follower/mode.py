"""Decides about the whole cache: serve or only relay, and what must happen before serving may begin again.

Job: combine the metastores' verdict (checks.py) with what is seen of the log. (The canary is a write through this proxy
after which the event id did not move.) Must not know how either is found out.

Invariants:
- While serving is refused, the log is not followed. Afterwards everything is reloaded, because changes may have left no
  trace. The file `not_followed` in the data directory remembers this across restarts; while it cannot be written, this
  process remembers it.
- Everything is also reloaded when a setting makes the metastores answer differently than before. The file `answers`
  says how they answered before.
- Nothing is served before this process has published its first step (BEGAN_NS on the state page).

Owner: the follower's process.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import structlog

from hms_cache_proxy.cache.mode import ModeReason
from hms_cache_proxy.cache.state import Slot, StatePage
from hms_cache_proxy.follower.checks import Verdict
from hms_cache_proxy.follower.cycle import LogPeek
from hms_cache_proxy.follower.step import ResetReason
from hms_cache_proxy.follower.step_states import StepOutcome
from hms_cache_proxy.upstream.answer_differences import AnswerDifferences

log = structlog.get_logger()

_FOLLOWED = frozenset({ModeReason.STARTING, ModeReason.SERVING, ModeReason.UNCHECKED})


class ServingMode:
    """Remembers whether the log is being written, and whether there was a time in which it was not followed."""

    __slots__ = (
        "_answered",
        "_answers",
        "_closed",
        "_marked",
        "_marker",
        "_page",
        "_replica",
        "_silent",
        "_stored",
        "_unwritten",
        "must_reset",
    )

    def __init__(self, page: StatePage, marker: Path, answers: Path, *, stored: bool) -> None:
        self._page = page
        self._marker = marker
        self._answers = answers
        self._answered: str | None = None  # what the metastores have answered to this process
        self._stored = stored
        self._silent = False
        self._closed = False
        self._replica = False
        self.must_reset = self._marked = marker.exists()
        self._unwritten: set[Path] = set()  # files that could not be written

    def idle(self, verdict: Verdict | None) -> bool:
        """Whether not to follow the log, because nothing may be served. Records that it was not followed."""
        idle = self._silent or self._replica or verdict is None or verdict.reason not in _FOLLOWED
        if (idle and verdict is not None) or self.must_reset:
            self._mark()
        return idle

    def closed(self, closed: bool) -> None:
        """The log cannot be read, or can be read again."""
        self._closed = closed
        if closed:
            self._mark()

    def answer(self, differs: AnswerDifferences) -> None:
        """How the metastores answer. If they answered differently before, everything is reloaded."""
        self._page[Slot.DIFFERS] = int(differs)
        now, before = str(int(differs)), self._answered
        if before is None and self._answers.exists():
            before = self._answers.read_text()
        if before not in (None, now):
            self._mark()
        self._answered = now
        if before != now or self._answers in self._unwritten:
            self._keep(self._answers, lambda: self._answers.write_text(now))

    def _mark(self) -> None:
        self.must_reset = True
        self._marked = self._marked or self._keep(self._marker, lambda: self._marker.touch(mode=0o600))

    def _keep(self, file: Path, write: Callable[[], object]) -> bool:
        """Write what the next start must know; False if that must be tried again."""
        try:
            write()
        except OSError as error:
            if file not in self._unwritten:
                log.error("what the next start must know cannot be kept yet", file=str(file), error=str(error))
            self._unwritten.add(file)
            return False
        self._unwritten.discard(file)
        return True

    def saw(self, peek: LogPeek) -> None:
        """What was seen while idle: whether the last write through this proxy has reached the log, and whether the
        store reads a replica."""
        self._replica = peek.replica
        if peek.unlogged is not None:
            self._silent = peek.unlogged

    def stepped(self, outcome: StepOutcome) -> None:
        """A step was published, or it found a replica, which may lag behind the metastore's database."""
        self._replica = outcome.replica
        if outcome.unlogged:
            self._silent = True
        if outcome.reset is ResetReason.NOT_FOLLOWED:
            self._marker.unlink(missing_ok=True)
            self.must_reset = self._marked = False

    def decide(self, verdict: Verdict | None) -> ModeReason:
        """Whether the cache may be served now; if not, why."""
        if not self._stored:
            return ModeReason.NO_STORE
        if self._replica:
            return ModeReason.REPLICA
        if self._silent or self._closed:
            return ModeReason.NO_LOG
        if verdict is None:
            return ModeReason.STARTING
        if verdict.reason is ModeReason.SERVING and (self.must_reset or not self._page[Slot.BEGAN_NS]):
            return ModeReason.STARTING
        return verdict.reason
