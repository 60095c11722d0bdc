"""Collects entries that are due for a refresh while answers are given, and has them reloaded in as few calls as
possible.

Job: reload an entry once for all readers (across workers, the cache's claims ensure this), and all partitions of a
table that are due at the same time with one call, whichever requests found them due. Must not know: sockets, the loop,
what entries are; `wake` tells the refresher that there are some. Owner: one per worker, on its loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from hms_cache_proxy.wire.message import Header

from .looking import Conversation, DueEntry, EntryBatch, Reload

NAMES_AT_ONCE = 1000
"""Partitions that one call asks for."""
WAITING = 10_000
"""Entries remembered; any other is still due when it is read again."""


@dataclass(slots=True)
class _Together:
    """Names of one place that are due, as one user sees them."""

    identity: bytes
    batch: EntryBatch
    names: dict[bytes, None] = field(default_factory=dict)


class DueEntries:
    """What is due."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._alone: dict[bytes, tuple[bytes, DueEntry, Conversation]] = {}
        self._together: dict[tuple[bytes, ...], _Together] = {}

    def add(self, identity: bytes, conversation: Conversation, header: Header, message: bytes) -> None:
        """Some entries of an answer are due (`conversation.look.due`)."""
        if not self._alone and not self._together:
            self._wake()
        batch = conversation.batch()
        names = batch.due_names() if batch is not None else ()
        if batch is not None and names and len(self._together) < WAITING:
            known = self._together.setdefault((identity, *batch.place), _Together(identity, batch))
            known.names.update(dict.fromkeys(names))
        if len(self._alone) < WAITING:
            for one in conversation.due(header, message):
                self._alone.setdefault(one[0], (identity, one, conversation))

    def take(self) -> Iterator[Reload | None]:
        """The reloads, each claimed; None for entries that another reload has claimed, and between short steps."""
        alone, self._alone = self._alone, {}
        together, self._together = self._together, {}
        for identity, (key, ask, learn), conversation in alone.values():
            look = conversation.look
            wanted = look.is_still_due(key) and look.claim([key], alone=True, refresh=True)
            yield Reload(conversation.kind, identity, ask, learn, look.release) if wanted else None
        for known in together.values():
            names = list(known.names)
            for at in range(0, len(names), NAMES_AT_ONCE):
                yield from _of_batch(known, names[at : at + NAMES_AT_ONCE])


def _of_batch(known: _Together, names: list[bytes]) -> Iterator[Reload | None]:
    found = known.batch.only(names)
    for _ in found.find():
        yield None
    again = found.only(found.due_names())
    look, keys = again.look, again.keys()
    if not keys:
        return
    look.claim(list(keys), alone=False, refresh=True)
    assert look.load is not None, "it was claimed"
    mine = [keys[key] for key in look.load.claimed]
    if mine:
        yield Reload(again.kind, known.identity, again.question(mine), again.learn, look.release)
