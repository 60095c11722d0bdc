"""What all conversations of TTL mode share: the cache as one user sees it, and how a question is asked.

Job: look up entries and check their ages, note those that are due for a refresh, claim and publish loads, count. Must
not know: methods. Owner: one per request, on the worker's loop.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from time import monotonic_ns
from typing import Any, Final, NamedTuple, Protocol, TypeVar

import structlog

from hms_cache_proxy.budget import Budget
from hms_cache_proxy.cache.state import boottime_ns
from hms_cache_proxy.cache.targets import Target
from hms_cache_proxy.cache.ttl import EntryKind, Load, NewEntry, TtlCache, TtlEntry, key_of
from hms_cache_proxy.cache.ttl_claims import FOREVER
from hms_cache_proxy.config.ttl import Policy, TtlSection
from hms_cache_proxy.consistency.guards import Guards
from hms_cache_proxy.errors import CacheError
from hms_cache_proxy.metrics import WorkerMetrics
from hms_cache_proxy.wire import spec
from hms_cache_proxy.wire.message import Header, MessageType, message_header

from ..decision import Ask
from ..reply_contents import kept_part
from .members import OF_PARTITIONS, Members

log = structlog.get_logger()

HOLD_BYTES = 64 << 20
"""The longest reply that is split into objects. A longer one is relayed as it arrives, and not kept."""
AT_ONCE: Final = 32
"""Partitions in one step of a request that names many: less than a millisecond."""
CLAIMED: Final = 200
"""Of the partitions that a request lacks: enough to find another load of the same ones."""

_Item = TypeVar("_Item")
ReplyBody = bytes | list[bytes]
"""A result struct; a large one in slices."""
Wanted = tuple[ReplyBody | None, list[bytes]]
"""(the result, []) if the cache has all of it; else (None, keys to claim)."""
Steps = Generator[list[bytes] | None, None, _Item]
"""Work in steps. One yields keys to claim as soon as it is known that something is missing."""


class KnownKeys(NamedTuple):
    """Names of a table's partition keys, and the load that showed them."""

    names: tuple[bytes, ...]
    seq: int
    loaded_ns: int


@dataclass(slots=True)
class TtlContext:
    """What the requests of one worker share."""

    cache: TtlCache
    section: TtlSection
    metrics: WorkerMetrics
    request_timeout_ns: int
    guards: Guards
    touched: set[bytes] = field(default_factory=set)
    keys_of_tables: dict[tuple[bytes, ...], KnownKeys] = field(default_factory=dict)
    """By (catalog, database, table)."""
    memory: Budget | None = None
    """For what connections remember of their locks."""

    def ends_ns(self) -> int:
        """The latest time at which a call that begins now can end."""
        return monotonic_ns() + self.request_timeout_ns

    def invalidate(self, targets: Sequence[Target]) -> None:
        """From now on, show nothing of these that was loaded earlier."""
        try:
            self.cache.invalidate(targets)
        except CacheError:
            self.guards.missed(targets)

    def troubled(self, error: CacheError) -> None:
        """Log that the cache could not be read or written. Clients lose only time by it."""
        self.metrics.internal_error("ttl")
        log.error("the cache failed; the call goes to the metastore", error=str(error))


@dataclass(slots=True)
class RequestView:
    """The view of one request. `user`: empty where all users see the same. `after_ns`: what was loaded until then
    (CLOCK_BOOTTIME) is too old for this client. `tables`: database and name of the tables that it is about. `lists`:
    what entries about several partitions depend on besides `depends`."""

    shared: TtlContext
    user: bytes
    depends: tuple[Target, ...]
    after_ns: int = 0
    tables: tuple[tuple[bytes, bytes], ...] = ()
    lists: tuple[Target, ...] = ()
    due: dict[bytes, int] = field(default_factory=dict)
    """Keys of entries that are due for a refresh, and when the loads of these entries began."""
    load: Load | None = None

    def policy(self, kind: EntryKind) -> Policy:
        """The policy for entries of this kind."""
        return self.shared.section.policy(kind.label, self.tables)

    def key(self, kind: EntryKind, *parts: bytes) -> bytes:
        """The key of an object."""
        return key_of(kind, self.user, *parts)

    def get(self, kind: EntryKind, keys: Sequence[bytes], members: Members | None = None) -> list[TtlEntry | None]:
        """Entries that are young enough, in order. Those due for a refresh are noted in `due`. `members`: the
        partitions of the entries, if each is of one partition."""
        policy = self.policy(kind)
        if not policy.cached:
            return [None] * len(keys)
        now_ns = boottime_ns()
        oldest, due = max(self.after_ns, now_ns - policy.ttl_s * 1e9), now_ns - policy.refresh_s * 1e9
        found: list[TtlEntry | None] = []
        with self.shared.cache.snapshot() as snapshot:
            since = snapshot.invalidated(self.depends if members else self._depends(kind))
            flushed = members is not None and snapshot.is_any_invalidated(members.prefix)
            for number, key in enumerate(keys):
                own = snapshot.invalidated((members.target(number),)) if members and flushed else 0
                entry = snapshot.since(key, max(since, own))
                if entry is not None and entry.loaded_ns <= oldest:
                    entry = None
                if entry is not None:
                    self.shared.touched.add(key)
                    if entry.loaded_ns <= due:
                        self.due[key] = entry.loaded_ns
                found.append(entry)
        return found

    def peek(self, kind: EntryKind, key: bytes) -> TtlEntry | None:
        """An entry that is needed to understand the request. The request does not refresh it."""
        due = self.due.copy()
        found = self.get(kind, [key])[0]
        self.due = due
        return found

    def is_young(self, kind: EntryKind, seq: int, loaded_ns: int) -> bool:
        """May the result of this load still be used? For results that are in no entry."""
        with self.shared.cache.snapshot() as snapshot:
            since = snapshot.invalidated(self.depends)
        return seq >= since and loaded_ns > max(self.after_ns, boottime_ns() - self.policy(kind).ttl_s * 1e9)

    def again(self) -> RequestView:
        """The same view, for another load."""
        return replace(self, due={}, load=None)

    def is_still_due(self, key: bytes) -> bool:
        """Is the entry that was found still there, or has it been reloaded?"""
        with self.shared.cache.snapshot() as snapshot:
            entry = snapshot.since(key, 0)
        return entry is not None and entry.loaded_ns <= self.due[key]

    def claim(self, keys: Sequence[bytes], *, alone: bool, latest_ns: int = FOREVER, refresh: bool = False) -> bool:
        """Begin to load these. False if another load has claimed one of them, which began no later than `latest_ns`,
        and `alone` asks to wait in that case. `refresh`: the entries have been given, and nobody waits for it."""
        shared, loaded_ns = self.shared, boottime_ns()
        times = monotonic_ns(), shared.ends_ns()
        load = shared.cache.begin(keys, *times, alone=alone, latest_ns=latest_ns, refresh=refresh)
        if load.theirs and alone:
            return False
        self.load = replace(load, loaded_ns=loaded_ns)
        return True

    def publish(self, items: Sequence[NewEntry]) -> None:
        """Store what the load found. If the cache fails, the claims last until their deadline."""
        load, self.load = self.load, None
        if load is not None:
            try:
                self.shared.cache.publish(load, items)
            except CacheError as error:
                self.shared.troubled(error)

    def refused(self, kind: EntryKind, method: str, reply: bytes, keys: Iterable[bytes]) -> None:
        """The reply is a refusal. If it says that the object does not exist, remove its entries."""
        if kept_part(method, reply) is None:
            self.release()
        else:
            self.publish([NewEntry(kind, key, self._depends(kind), None) for key in keys])

    def release(self) -> None:
        """End the load without keeping anything."""
        load, self.load = self.load, None
        if load is not None:
            try:
                self.shared.cache.release(load)
            except CacheError as error:
                self.shared.troubled(error)

    def item(
        self, kind: EntryKind, key: bytes, body: bytes | None, *, absent: bool = False, member: Target | None = None
    ) -> NewEntry:
        """An entry for an object of this request. `member`: the target of its partition, if it is of one partition."""
        depends = self._depends(kind) if member is None else (*self.depends, member)
        return NewEntry(kind, key, depends, body, absent)

    def _depends(self, kind: EntryKind) -> tuple[Target, ...]:
        return self.depends + self.lists if kind in OF_PARTITIONS else self.depends


@dataclass(slots=True)
class Reload:
    """A refresh after an answer was given: ask this as this user; `learn` or `release` ends it."""

    kind: EntryKind
    identity: bytes
    ask: Ask
    learn: Callable[[bytes], None]
    release: Callable[[], None]


DueEntry = tuple[bytes, Ask, Callable[[bytes], None]]
"""An entry that is reloaded by itself: its key, the question, the function that takes the reply."""


class EntryBatch(Protocol):
    """Entries of one table, by partition name, that one question can reload, whichever requests found them due."""

    look: RequestView
    kind: EntryKind

    @property
    def place(self) -> tuple[bytes, ...]:
        """Batches of the same place may be reloaded together."""
        ...

    def due_names(self) -> list[bytes]:
        """The names of entries that are due for a refresh."""
        ...

    def find(self) -> Iterator[object]:
        """Look up the entries, and which of them are due, in steps."""
        ...

    def only(self, wanted: list[bytes]) -> EntryBatch:
        """A batch of these names of the same place, as a separate load."""
        ...

    def keys(self) -> dict[bytes, bytes]:
        """The names by their keys."""
        ...

    def question(self, wanted: list[bytes]) -> Ask:
        """The question for these names, whose reply `learn` takes."""
        ...

    def learn(self, reply: bytes) -> None:
        """Take the reply to the question."""
        ...


class Conversation(ABC):
    """How one request is answered from objects: first from the cache alone, then with questions. A class without
    questions sends the client's own request."""

    look: RequestView
    kind: EntryKind

    @abstractmethod
    def looked_up(self) -> Steps[Wanted | None]:
        """What the cache has, in steps; None: the request cannot be answered from objects, as its arguments show."""

    @abstractmethod
    def learn(self, reply: bytes) -> None:
        """Take the reply to the client's own request and publish what it contains."""

    def ask(self) -> Ask | None:
        """The question for what is missing; None for the client's own request. After `looked_up`."""
        return None

    def answered(self, reply: bytes | None) -> Ask | bytes | None:
        """Take a reply (None if it was too long). Returns the next question, the result struct, or None: send the
        client's own request after all. Called only where `ask` returns a question."""
        raise AssertionError("no question was asked")

    def due(self, header: Header, message: bytes) -> Iterator[DueEntry]:
        """What is due for a refresh and is reloaded by itself: at most one entry, because it shares this view. By
        default the client's own request. After `looked_up`."""
        for key in tuple(self.look.due)[:1]:
            yield key, Ask(header, message, HOLD_BYTES), self.learn

    def batch(self) -> EntryBatch | None:
        """What is due for a refresh and can be reloaded together with entries of other requests. After `looked_up`."""
        return None


class OneStepConversation(Conversation):
    """One whose entries are looked up in one step."""

    @abstractmethod
    def wanted(self) -> Wanted:
        """What the cache has."""

    def looked_up(self) -> Steps[Wanted | None]:
        return self.wanted()
        yield


def pieces(items: Sequence[_Item], size: int = AT_ONCE) -> Iterator[Sequence[_Item]]:
    """The items of each step."""
    return (items[at : at + size] for at in range(0, len(items), size))


def in_one_step(steps: Steps[_Item]) -> _Item:
    """Their result, for callers that must have it at once."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            found: _Item = done.value
            return found


def says_only(request: Any, *names: str) -> bool:
    """Does a request struct set only these fields? (Generated clients also send defaults: false, id -1.)"""
    rows = (row for row in request.thrift_spec if row is not None)
    return all(row[2] in names or getattr(request, row[2]) in (None, False, -1) for row in rows)


def question(method: str, header: Header, arguments: Any) -> Ask:
    """A question instead of the client's request, with the same seqid."""
    name = method.encode()
    asked = header._replace(name=name)
    message = message_header(name, MessageType.CALL, header.seqid) + spec.encode(arguments)
    return Ask(asked, message, HOLD_BYTES)


Maker = Callable[[RequestView, Header, Any, bytes], Conversation | None]
"""Makes the conversation for arguments (decoded, and as sent); None if they are not answered from objects."""
