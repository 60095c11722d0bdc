"""The tables and users with the most calls, misses and time at the metastore, in one worker.

Job: count samples of the calls in bounded memory, over the last hour, and write the highest counts to a file that the
supervisor reads. Must not know: how samples of hits are chosen (methods/hot.py), who reads the file. Each list is a
Space-Saving summary (space_saving.py). The hour consists of GENERATIONS of five minutes each.
Owner: the worker's event loop; only writing is done in a thread.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from pathlib import Path
from time import monotonic
from typing import Final, Literal, NamedTuple

import structlog

from hms_cache_proxy.cache.targets import Target
from hms_cache_proxy.methods.decision import ClientSession
from hms_cache_proxy.methods.hot import SAMPLED_EVERY, Sampled
from hms_cache_proxy.server.access_lines import about, head_of, object_of, user_of
from hms_cache_proxy.server.commands import Observe
from hms_cache_proxy.server.space_saving import SHOWN, SpaceSaving

GENERATIONS: Final = 12
GENERATION_S: Final = 300.0
SAMPLES: Final = 128  # calls that the hot path has not answered, and that are looked at, per second
AT_ONCE: Final = 8  # of them in one turn of the loop
WRITE_INTERVAL_S: Final = 5.0

Measure = Literal["calls", "misses", "seconds"]
MEASURES: Final[tuple[Measure, ...]] = ("calls", "misses", "seconds")

log = structlog.get_logger()


class _Sample(NamedTuple):
    """A call, without its request, which may have megabytes: only its beginning."""

    label: str
    outcome: str
    upstream_ns: int
    head: bytes
    body: int
    complete: bool
    identity: bytes | None


class _Lists:
    """Of one kind of names: a summary for each measure."""

    def __init__(self) -> None:
        self._generations: deque[dict[Measure, SpaceSaving]] = deque(maxlen=GENERATIONS)
        self.turn()

    def turn(self) -> None:
        """Begin a generation; the oldest is forgotten."""
        self._generations.append({measure: SpaceSaving() for measure in MEASURES})

    def add(self, name: str, numbers: Mapping[Measure, float]) -> None:
        for measure, number in numbers.items():
            if number:
                self._generations[-1][measure].add(name, number)

    def highest(self) -> dict[Measure, dict[str, float]]:
        """The names with the highest counts of the last hour, by measure."""
        found: dict[Measure, dict[str, float]] = {}
        for measure in MEASURES:
            total: Counter[str] = Counter()
            for generation in self._generations:
                total.update(generation[measure].counts)
            found[measure] = dict(total.most_common(SHOWN))
        return found


class MostAsked:
    """What one worker has counted. `hits`: samples of the hot path's answers, each for SAMPLED_EVERY."""

    def __init__(self, path: Path, hits: deque[Sampled], *, users: bool) -> None:
        self._path = path
        self.hits = hits
        self._observed: list[_Sample] = []
        self._seen = 0
        self._tables = _Lists()
        self._users = _Lists() if users else None
        self._turn_s, self._write_s = monotonic(), float("-inf")
        self._failed = False

    def observed(self, session: ClientSession, observed: Observe) -> None:
        """A call that the hot path has not answered."""
        self._seen += 1
        if len(self._observed) < SAMPLES:
            head, complete = head_of(observed.request)
            self._observed.append(
                _Sample(
                    observed.label,
                    observed.outcome,
                    upstream_ns=observed.upstream_ns,
                    head=head,
                    body=observed.request.header.body,
                    complete=complete,
                    identity=session.identity,
                )
            )

    async def count(self) -> None:
        """Count the samples of the last second, and write the result when it is time."""
        now_s = monotonic()
        if now_s - self._turn_s >= GENERATION_S:
            self._turn_s = now_s
            for lists in filter(None, (self._tables, self._users)):
                lists.turn()
        self._count_hits()
        await self._count_observed()
        if now_s - self._write_s >= WRITE_INTERVAL_S:
            self._write_s = now_s
            await asyncio.to_thread(self._write, json.dumps(self.highest()))

    def _count_hits(self) -> None:
        samples = Counter(self.hits.popleft() for _ in range(len(self.hits)))
        for (depends, identity), number in samples.items():
            self._add(_table(depends), identity, {"calls": number * SAMPLED_EVERY})

    async def _count_observed(self) -> None:
        samples, self._observed = self._observed, []
        seen, self._seen = self._seen, 0
        for number, sample in enumerate(samples):
            if number % AT_ONCE == AT_ONCE - 1:
                await asyncio.sleep(0)
            stands_for = seen / len(samples)
            misses = stands_for if sample.outcome == "miss" else 0
            seconds = stands_for * sample.upstream_ns / 1e9
            name, tables = object_of(sample.label, sample.head, sample.body, complete=sample.complete)
            numbers: dict[Measure, float] = {"calls": stands_for, "misses": misses, "seconds": seconds}
            self._add(name if tables == 1 else None, sample.identity, numbers)

    def _add(self, table: str | None, identity: bytes | None, numbers: Mapping[Measure, float]) -> None:
        if table is not None:
            self._tables.add(table, numbers)
        user = user_of(identity) if self._users is not None else None
        if user is not None and self._users is not None:
            self._users.add(user, numbers)

    def highest(self) -> dict[str, dict[Measure, dict[str, float]]]:
        """As it is written: by kind, by measure."""
        found = {"tables": self._tables.highest()}
        return found if self._users is None else {**found, "users": self._users.highest()}

    def _write(self, text: str) -> None:
        beside = self._path.with_suffix(".new")
        try:
            beside.write_text(text)
            beside.replace(self._path)
            self._failed = False
        except OSError as error:
            if not self._failed:
                log.warning("the highest counts cannot be written", file=str(self._path), error=str(error))
            self._failed = True


def _table(depends: Iterable[Target]) -> str | None:
    """The only table that a reply depends on."""
    name, tables = about(depends)
    return name if tables == 1 else None
