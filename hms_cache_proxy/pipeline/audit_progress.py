"""Records how far an audit is, beside the differences, so that an interrupted audit can be resumed; also has its
result.

    <out>/_audit.json         what is audited, what has been found so far, and the last table and partition compared
    <out>/part-....parquet    differences

Job: write this document atomically after each round; say what is left to compare; make the result. Must not know: how
objects are compared. A place in the catalog is a name, not a number, so an audit can be resumed even if the catalog has
changed.

Owner: the driver's process.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from hms_cache_proxy import __version__
from hms_cache_proxy.errors import AuditError
from hms_cache_proxy.pipeline.findings import Difference, FindingsSink, TaskResult
from hms_cache_proxy.pipeline.ranges import PartitionStretch, TableStretch
from hms_cache_proxy.snapshots.place import Place

NAME: Final = "_audit.json"

After = tuple[bytes, ...]
"""The key of a table, or that and the last name of a partition that was compared; empty at the beginning."""


@dataclass(frozen=True, slots=True)
class AuditResult:
    """The result. `first_event_id`: before `event_id` if the audit was resumed, or was of a proxy elsewhere;
    `compared`: objects by kind; `not_loaded`: tables that are relayed, by reason; `unsettled`: objects that never stood
    still."""

    first_event_id: int
    event_id: int
    compared: dict[str, int]
    not_loaded: dict[str, int]
    unsettled: int
    differences: int
    by_field: dict[str, int]
    shown: list[Difference]


class AuditProgress:
    """The findings of one audit so far. `of`: what is audited, which a resumed audit must have in common."""

    def __init__(self, out: str, of: dict[str, Any], *, resume: bool) -> None:
        """Raises AuditError if `out` is in use, or has no audit like this to be resumed."""
        self._sink = FindingsSink(out)
        self._place = Place(out) if out else None
        self._of = {"program": __version__, **of}
        self.total = TaskResult()
        self.tables_after: After = ()
        self.partitions_after: After = ()
        self.events: tuple[int, int] | None = None
        self.lists_compared = False
        if self._place is None:
            return
        names = self._place.names()
        if resume and NAME in names:
            self._read(self._place, names)
        elif names:
            raise AuditError(f"{out} is not empty: --out must name a new directory, or one of an audit with --resume")

    def _read(self, place: Place, names: list[str]) -> None:
        try:
            found = json.loads(place.document(NAME))
            of, total = found["of"], TaskResult.parse(found["total"])
            self.tables_after, self.partitions_after = (_after(found[name]) for name in ("tables", "partitions"))
            self.events, self.lists_compared = tuple(found["events"]), found["lists"]
        except (ValueError, TypeError, KeyError) as error:
            raise AuditError(f"{place.uri}/{NAME} is damaged: {error}") from error
        if of != self._of:
            differs = ", ".join(key for key in self._of if of.get(key) != self._of[key])
            raise AuditError(f"{place.uri} has an audit that differs in: {differs}; it cannot be resumed")
        self.total = total
        for name in names:
            if name.endswith(".parquet") and name not in total.files:
                place.delete(name)  # of the round that was interrupted

    def at(self, event_id: int) -> None:
        """What is compared from now on is as of this event."""
        self.events = (event_id if self.events is None else self.events[0], event_id)

    def keep(self, results: Sequence[TaskResult]) -> None:
        """Take over what tasks have found, and record it all."""
        for result in results:
            self.total.add(result)
        if self._place is None:
            return
        document = {
            "of": self._of,
            "events": self.events,
            "lists": self.lists_compared,
            "tables": [one.decode("latin-1") for one in self.tables_after],
            "partitions": [one.decode("latin-1") for one in self.partitions_after],
            "total": self.total.document(),
        }
        self._place.write(NAME, json.dumps(document).encode())

    def end(self) -> AuditResult:
        """The audit is complete: its document is removed. A reader of Parquet finds a file, even if it has no rows."""
        if self._place is not None:
            if not self.total.files:
                self._sink.write([])
            self._place.delete(NAME)
        assert self.events is not None, "something was compared"
        total = self.total
        return AuditResult(
            *self.events,
            compared={kind: total.compared[kind] for kind in ("databases", "tables", "partitions")},
            not_loaded=dict(total.not_loaded),
            unsettled=total.unsettled,
            differences=total.differences,
            by_field=dict(total.by_field),
            shown=total.shown,
        )

    # --- what is left

    def tables_left(self, stretches: Sequence[TableStretch]) -> list[TableStretch]:
        """Those that were not compared."""
        found = []
        for stretch in stretches:
            some = tuple(one for one in stretch.tables if (*stretch.database, one.name) > self.tables_after)
            if some:
                found.append(replace(stretch, tables=some))
        return found

    def partitions_left(self, stretches: Sequence[PartitionStretch]) -> list[PartitionStretch]:
        """Those that were not compared."""
        table, name = self.partitions_after[:3], self.partitions_after[3:]
        found = []
        for stretch in stretches:
            some = tuple(one for one in stretch.tables if one.key > table or (name and one.key == table))
            if not some:
                continue
            if name and some[0].key == table:
                done = name[0]
                if stretch.until is not None and stretch.until <= done:
                    continue
                if stretch.after is None or stretch.after < done:
                    if len(some) > 1:  # it was larger when it was compared
                        found.append(replace(stretch, tables=some[:1], after=done))
                        stretch, some = replace(stretch, after=None, until=None), some[1:]
                    else:
                        stretch = replace(stretch, after=done)
            found.append(replace(stretch, tables=some))
        return found

    def lists_done(self, result: TaskResult) -> None:
        """Databases and lists of tables were compared."""
        self.lists_compared = True
        self.keep([result])

    def tables_done(self, stretches: Sequence[TableStretch], results: Sequence[TaskResult]) -> None:
        """A round of tables is complete."""
        last = stretches[-1]
        self.tables_after = (*last.database, last.tables[-1].name)
        self.keep(results)

    def partitions_done(self, stretches: Sequence[PartitionStretch], results: Sequence[TaskResult]) -> None:
        """A round of partitions is complete."""
        last = stretches[-1]
        self.partitions_after = (*last.tables[-1].key, *(() if last.until is None else (last.until,)))
        self.keep(results)


def _after(found: list[str]) -> After:
    return tuple(one.encode("latin-1") for one in found)
