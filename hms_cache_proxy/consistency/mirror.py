"""The fences as one process last read them. The gate asks it for each read.

Job: answer from memory while FENCE_SEQ stays the same; fences.py proves that this is enough. Must not know who fenced.
Owner: one per worker.
"""

from __future__ import annotations

from collections.abc import Iterable

from hms_cache_proxy.cache.state import Slot
from hms_cache_proxy.cache.targets import ALL, Target, members_of
from hms_cache_proxy.cache.targets import UNKNOWN as UNKNOWN_TARGETS
from hms_cache_proxy.consistency.fence_rows import INFINITE
from hms_cache_proxy.consistency.fences import FenceStore
from hms_cache_proxy.errors import CacheError


class FenceMirror:
    """The fences as one process last read them; a question costs 0.2 us while nothing changes."""

    __slots__ = ("_lifted", "_seen", "_store", "_tickets", "_words")

    def __init__(self, store: FenceStore) -> None:
        self._store = store
        self._words = store.page.words
        self._seen = -1
        self._lifted = 0
        self._tickets: dict[Target, int] = {}

    def active(self, targets: Iterable[Target], done_ticket: int) -> bool:
        """Whether a fence covers one of these targets for a cache snapshot (or page) with this `done_ticket`."""
        if self._words[Slot.FENCE_SEQ] != self._seen:
            self._refresh()
        if done_ticket < self._lifted:
            return True
        tickets = self._tickets
        if not tickets:
            return False
        if tickets.get(ALL, 0) > done_ticket:
            return True
        for target in targets:
            if tickets.get(target, 0) > done_ticket or (target == ALL and max(tickets.values()) > done_ticket):
                return True
        return False

    def liftable(self, targets: Iterable[Target]) -> bool:
        """Whether the fences on these targets wait for tickets only: no write of them is under way."""
        if self._words[Slot.FENCE_SEQ] != self._seen:
            self._refresh()
        tickets = self._tickets
        named = tickets.values() if ALL in targets else [tickets.get(target, 0) for target in (ALL, *targets)]
        return INFINITE not in named

    def _refresh(self) -> None:
        """Rule: the slot before the records (see FENCE_SEQ in the module's docstring)."""
        seen = self._words[Slot.FENCE_SEQ]
        try:
            self._lifted, tickets = self._store.read()
        except CacheError:  # what is fenced is not known; the next question looks again
            seen, tickets = -1, {ALL: INFINITE}
        if UNKNOWN_TARGETS in tickets:
            tickets[ALL] = max(tickets.get(ALL, 0), tickets.pop(UNKNOWN_TARGETS))
        for target, ticket in list(tickets.items()):
            listed = members_of(target)
            if listed is not None and ticket > tickets.get(listed, 0):
                tickets[listed] = ticket
        self._tickets = tickets
        self._seen = seen
