"""The ids of a table's partitions, in the order of their names. They are kept between the chunks of a load.

Job: avoid repeated scans. If the database has the collation of a language, no index has the bytewise order, and each
page of names costs a scan of the whole table. So a walk through a table lists the ids of the next million partitions
once, and continues by id. Must not know: statements, how a partition is read.

The chunks of a walk are in different snapshots. This is correct because the reader applies every event after the
listing to the table, and asks by name for the partitions that the events name (`told`). The ids found then are placed
by name, no longer by their place in the list. Names are read again with each chunk. If they are not in order, the list
is dropped, and the page is searched by name.

Owner: the store's one thread.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

LISTED: Final = 1_000_000
"""Ids in one list: 8 MB."""
MOST_WALKS: Final = 8
"""Tables that are being read and whose lists are kept. Further tables are listed again for the next chunk."""

NamedId = tuple[bytes, int]
"""(name, id)."""


class Walk:
    """A list, and how far it was read. `last`: the name before its next id; `more`: the table may have further
    partitions after its end."""

    def __init__(self, ids: array[int], last: bytes, *, more: bool) -> None:
        self.last = last
        self._more = more
        self._ids = ids
        self._at = 0
        self._told: dict[bytes, int] = {}
        self._moved: set[int] = set()

    @property
    def done(self) -> bool:
        """Were all of its ids read?"""
        return self._at >= len(self._ids)

    @property
    def complete(self) -> bool:
        """Does the list reach the end of the table?"""
        return not self._more

    def next(self, limit: int) -> array[int]:
        """The ids that may come next. Some partitions may be dropped or renamed."""
        return self._ids[self._at : self._at + limit]

    def told(self, names: Iterable[bytes], found: Sequence[NamedId]) -> None:
        """The caller has asked for `names`, and has found `found`."""
        for name in names:
            self._told.pop(name, None)
        self._told.update(found)
        self._moved.update(id_ for _, id_ in found)

    def ahead(self) -> list[int]:
        """Ids that were told and whose names are still to come."""
        return [id_ for name, id_ in self._told.items() if name > self.last]

    def take(self, rows: Iterable[NamedId], told: Iterable[NamedId], limit: int) -> list[int] | None:
        """The next ids in the order of their names, at most `limit`. `rows`: what was found for the ids of
        `next(limit)`; `told`: for those of `ahead()`. None if the list is not in order."""
        page = self.next(limit)
        places = {id_: at for at, id_ in enumerate(page, self._at)}
        listed = sorted((places[id_], name, id_) for name, id_ in rows if id_ in places and id_ not in self._moved)
        names = [self.last, *(name for _, name, _ in listed)]
        if any(one >= other for one, other in pairwise(names)):
            return None
        behind = self._at + len(page)
        end = None if behind == len(self._ids) and not self._more else names[-1]
        between = [part for part in told if part[0] > self.last and (end is None or part[0] <= end)]
        merged = sorted([*between, *((name, id_) for _, name, id_ in listed)])
        taken = merged[:limit]
        if taken:
            self.last = taken[-1][0]
        if len(taken) < len(merged):
            behind = next((at for at, name, _ in listed if name > self.last), behind)
        self._at = behind
        return [id_ for _, id_ in taken]


class Walks:
    """The walks of a store, by table id. `_seen`: the last name of the table's last page that was found by name."""

    def __init__(self) -> None:
        self.listings: dict[int, Walk] = {}
        self._seen: dict[int, bytes] = {}

    def goes_on(self, table_id: int, after: bytes) -> bool:
        """Does this page continue an earlier one? For a single page it is not worth listing the table."""
        listing = self.listings.get(table_id)
        return listing is not None and listing.last == after or self._seen.get(table_id) == after

    def page(self, table_id: int, last: bytes | None) -> None:
        """A page was found by name. `last`: its last name; None: it was the table's last page."""
        self.listings.pop(table_id, None)
        self._seen.pop(table_id, None)
        if last is not None:
            self._keep(self._seen)
            self._seen[table_id] = last

    def begin(self, table_id: int, listing: Walk) -> Walk:
        """A table was listed, again or for the first time."""
        self.page(table_id, None)
        self._keep(self.listings)
        self.listings[table_id] = listing
        return listing

    def _keep(self, walks: dict[int, Walk] | dict[int, bytes]) -> None:
        while len(walks) >= MOST_WALKS:
            del walks[next(iter(walks))]
