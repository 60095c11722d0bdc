"""What is due for a refresh: collected while answers are given, then asked for in as few calls as possible.

Job: one reload for all readers (the cache's claims see to it over all workers), and one call for all partitions of a
table that came due together. Must not know: sockets, the loop; `wake` tells whoever carries reloads out that there are
some. Owner: one per worker, on its loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from hms_cache_proxy.cache.ttl import Kind
from hms_cache_proxy.wire.message import Header

from ..decision import Ask
from .looking import HOLD_BYTES, Conversation, Look, Reload
from .members import Name
from .partitions import LIST, PartitionsByNames

NAMES_AT_ONCE = 1000
"""Partitions that one call asks for."""
WAITING = 10_000
"""Requests remembered; what comes beyond is due still when it is read again."""


@dataclass(slots=True)
class _Table:
    """Partitions of one table, as one user sees them."""

    identity: bytes
    look: Look
    header: Header
    args: Any
    table: Name
    names: dict[bytes, None] = field(default_factory=dict)


class Due:
    """What is due."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._requests: dict[bytes, tuple[bytes, Header, bytes, Conversation]] = {}
        self._tables: dict[tuple[bytes, Name, bytes], _Table] = {}

    def add(self, identity: bytes, conversation: Conversation, header: Header, message: bytes) -> None:
        """An answer was given of which something is due (`conversation.look.due`)."""
        if not self._requests and not self._tables:
            self._wake()
        if isinstance(conversation, PartitionsByNames):
            place = (identity, conversation.table, header.name)
            known = self._tables.setdefault(
                place, _Table(identity, conversation.look, header, conversation.args, conversation.table)
            )
            known.names.update(dict.fromkeys(conversation.due_names()))
        elif len(self._requests) < WAITING:
            for key in conversation.look.due:
                self._requests.setdefault(key, (identity, header, message, conversation))

    def take(self) -> Iterator[Reload]:
        """The reloads, each claimed: what others are after already is left out."""
        requests, self._requests = self._requests, {}
        tables, self._tables = self._tables, {}
        for key, (identity, header, message, conversation) in requests.items():
            look = conversation.look
            if look.claim([key], alone=True):
                ask = Ask(header, message, HOLD_BYTES)
                yield Reload(conversation.kind, identity, ask, conversation.learn, look.release)
        for table in tables.values():
            names = list(table.names)
            for at in range(0, len(names), NAMES_AT_ONCE):
                yield from _of_partitions(table, names[at : at + NAMES_AT_ONCE])


def _of_partitions(table: _Table, names: list[bytes]) -> Iterator[Reload]:
    look = Look(
        table.look.shared,
        table.look.user,
        table.look.depends,
        database=table.look.database,
        table=table.look.table,
        lists=table.look.lists,
    )
    again = PartitionsByNames(look, table.header, table.table, table.args, names)
    keys = {again.key(LIST, name): name for name in names}
    look.claim(list(keys), alone=False)
    assert look.load is not None, "it was claimed"
    mine = [keys[key] for key in look.load.claimed]
    if mine:
        yield Reload(Kind.PARTITION, table.identity, again.question(mine), again.learn, look.release)
