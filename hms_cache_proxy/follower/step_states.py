"""The stages of one step of the follower. Each has a type that holds only what is known at that stage.

Job: `cycle.py` makes each from the one before, so none can be used too early:

    StepBegun -> StepRead -> StepDecided -> StepOutcome

Must not know: how anything is read or written. Owner: the follower's process; valid for one step.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from hms_cache_proxy.follower.affected import Affected
from hms_cache_proxy.follower.events import EventResult
from hms_cache_proxy.follower.reading import StepReading
from hms_cache_proxy.follower.step import Position, ResetReason, Transactions
from hms_cache_proxy.store.protocol import LogEnd


@dataclass(frozen=True, slots=True)
class StepBegun:
    """The clock and the tickets, taken before the snapshot's first statement."""

    began_ns: int
    """CLOCK_MONOTONIC."""

    began_boot_ns: int
    """The same moment, or just before it, on CLOCK_BOOTTIME."""

    ticket: int
    """The last ticket that was taken."""

    targets: set[bytes]
    """The targets of all tickets that are not done."""

    expected: int
    """The event id that the log must have reached by now."""

    @property
    def began_s(self) -> float:
        """The same as `began_ns`."""
        return self.began_ns / 1e9


@dataclass(frozen=True, slots=True)
class LogRows:
    """What is reported about the log's rows that a step has read."""

    number: int = 0
    newest_time_s: int = 0
    results: Counter[tuple[str, EventResult]] | None = None


@dataclass(frozen=True, slots=True)
class StepRead:
    """Everything was read, from one snapshot. Whether all of it may be served is not known yet."""

    reading: StepReading
    affected: Affected
    known: Transactions
    """The transactions that were open before these rows."""

    end: Position
    """The cache's next position."""

    changed: bool
    more: bool
    rows: LogRows
    reset: ResetReason | None
    unmarked: bool
    seen: LogEnd | None
    """The end of the log. While it is unchanged, later steps have nothing to read. None: the log cannot show that."""


@dataclass(frozen=True, slots=True)
class StepDecided:
    """What to commit: the reading's changes are complete."""

    read: StepRead
    transactions: Transactions
    """The transactions that are open after this step."""

    overtaken: frozenset[bytes]
    """The held targets, which are reloaded in the next step."""

    publish: bool
    """There is something to commit."""


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """What one step did. `unlogged`: a write through this proxy succeeded, but the event id did not move."""

    event_id: int
    changed: bool
    more: bool
    rows: int = 0
    newest_time_s: int = 0
    results: Counter[tuple[str, EventResult]] | None = None
    reset: ResetReason | None = None
    evicted: int = 0
    partitions: int = 0
    unlogged: bool | None = None
    unfit: tuple[str, ...] = ()
    unlogged_tables: tuple[str, ...] = ()
    replica: bool = False
    """The store reads a replica: nothing was read, and nothing is published."""

    unmarked: bool = False
    """From now on changes of functions and catalogs cannot be detected in every step."""
