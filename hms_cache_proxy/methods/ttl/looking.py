"""What all conversations of TTL mode share: the cache as one user sees it, and how a question is asked.

Job: look entries up by their ages, note those that are due for a refresh, claim and publish loads, count. Must not
know: methods. Owner: one per request, on the worker's loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from time import monotonic_ns
from typing import Any, NamedTuple, Protocol

import structlog

from hms_cache_proxy.budget import Budget
from hms_cache_proxy.cache.targets import Target
from hms_cache_proxy.cache.ttl import EntryKind, Load, NewEntry, TtlCache, TtlEntry, key_of, target_key
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
"""Of a reply that is taken apart. A longer one is relayed as it comes, and not kept."""


class KnownKeys(NamedTuple):
    """Names of a table's partition keys, and of which load they are."""

    names: tuple[bytes, ...]
    seq: int
    began_ns: int


@dataclass(slots=True)
class TtlContext:
    """What the requests of one worker share."""

    cache: TtlCache
    section: TtlSection
    metrics: WorkerMetrics
    request_time_ns: int
    guards: Guards
    touched: set[bytes] = field(default_factory=set)
    keys_of_tables: dict[tuple[bytes, ...], KnownKeys] = field(default_factory=dict)
    """By (catalog, database, table), as replies have shown them."""
    memory: Budget | None = None
    """For what connections remember of their locks."""

    def ends_ns(self) -> int:
        """Until when a call that begins now may take."""
        return monotonic_ns() + self.request_time_ns

    def invalidate(self, targets: Sequence[Target]) -> None:
        """What was loaded of these before now must not be shown any more."""
        try:
            self.cache.invalidate(targets)
        except CacheError:
            self.guards.missed(targets)

    def troubled(self, error: CacheError) -> None:
        """The cache could not be read or written: readers lose nothing by it but time."""
        self.metrics.internal_error("ttl")
        log.error("the cache failed; the call goes to the metastore", error=str(error))


@dataclass(slots=True)
class RequestView:
    """One request's view. `user`: who asks; empty where all users see the same. `after_ns`: what was loaded up to then
    is too old for this client. `lists`: what entries about partitions depend on besides `depends`, unless they are of
    one partition."""

    shared: TtlContext
    user: bytes
    depends: tuple[Target, ...]
    after_ns: int = 0
    database: bytes | None = None
    table: bytes | None = None
    lists: tuple[Target, ...] = ()
    due: dict[bytes, int] = field(default_factory=dict)
    """Keys that were found due for a refresh, and when the load of what was found had begun."""
    load: Load | None = None

    def policy(self, kind: EntryKind) -> Policy:
        """What counts for entries of this kind here."""
        return self.shared.section.policy(kind.label, self.database, self.table)

    def key(self, kind: EntryKind, *parts: bytes) -> bytes:
        """The key of an object."""
        return key_of(kind, self.user, *parts)

    def get(self, kind: EntryKind, keys: Sequence[bytes], members: Members | None = None) -> list[TtlEntry | None]:
        """Entries that are young enough, in order. Those due for a refresh are noted in `due`. `members`: of which
        partitions they are, if each is of one."""
        policy = self.policy(kind)
        if not policy.cached:
            return [None] * len(keys)
        now_ns = monotonic_ns()
        oldest, due = max(self.after_ns, now_ns - policy.ttl_s * 1e9), now_ns - policy.refresh_s * 1e9
        found: list[TtlEntry | None] = []
        with self.shared.cache.snapshot() as snapshot:
            since = snapshot.invalidated(self.depends if members else self._depends(kind))
            flushed = snapshot.invalidated_below(members.prefix) if members else {}
            for number, key in enumerate(keys):
                own = flushed.get(target_key(members.target(number)), 0) if members and flushed else 0
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
        """An entry that is needed to understand the request: it is not this one's to refresh."""
        due = self.due.copy()
        found = self.get(kind, [key])[0]
        self.due = due
        return found

    def is_young(self, kind: EntryKind, seq: int, began_ns: int) -> bool:
        """May what a load has told be used still? For what no entry says."""
        with self.shared.cache.snapshot() as snapshot:
            since = snapshot.invalidated(self.depends)
        return seq >= since and began_ns > max(self.after_ns, monotonic_ns() - self.policy(kind).ttl_s * 1e9)

    def again(self) -> RequestView:
        """The same view, of another load."""
        return replace(self, due={}, load=None)

    def is_still_due(self, key: bytes) -> bool:
        """Is there still what was found, or has somebody reloaded it?"""
        with self.shared.cache.snapshot() as snapshot:
            entry = snapshot.since(key, 0)
        return entry is not None and entry.loaded_ns <= self.due[key]

    def claim(self, keys: Sequence[bytes], *, alone: bool) -> bool:
        """Begin to load these; False if another load has claimed one of them and `alone` says that this one waits."""
        shared = self.shared
        load = shared.cache.begin(keys, monotonic_ns(), shared.ends_ns(), alone=alone)
        if load.theirs and alone:
            return False
        self.load = load
        return True

    def publish(self, items: Sequence[NewEntry]) -> None:
        """What the load found. If the cache fails, the claims last until their deadline."""
        load, self.load = self.load, None
        if load is not None:
            try:
                self.shared.cache.publish(load, items, monotonic_ns())
            except CacheError as error:
                self.shared.troubled(error)

    def refused(self, kind: EntryKind, method: str, reply: bytes, keys: Iterable[bytes]) -> None:
        """The reply is no value. If it says that there is no such thing, what was known of it goes."""
        if kept_part(method, reply) is None:
            self.release()
        else:
            self.publish([NewEntry(kind, key, self._depends(kind), None) for key in keys])

    def release(self) -> None:
        """The load has ended without anything to keep."""
        load, self.load = self.load, None
        if load is not None:
            try:
                self.shared.cache.release(load)
            except CacheError as error:
                self.shared.troubled(error)

    def item(
        self, kind: EntryKind, key: bytes, body: bytes | None, *, absent: bool = False, member: Target | None = None
    ) -> NewEntry:
        """An entry of this request's object. `member`: the target of the partition that it is of, if it is of one."""
        depends = self._depends(kind) if member is None else (*self.depends, member)
        return NewEntry(kind, key, depends, body, absent)

    def _depends(self, kind: EntryKind) -> tuple[Target, ...]:
        return self.depends + self.lists if kind in OF_PARTITIONS else self.depends


@dataclass(slots=True)
class Reload:
    """A load behind an answer that was given: ask this as this user; `learn` or `release` ends it."""

    kind: EntryKind
    identity: bytes
    ask: Ask
    learn: Callable[[bytes], None]
    release: Callable[[], None]


DueEntry = tuple[bytes, Ask, Callable[[bytes], None]]
"""An entry that is asked for by itself: its key, the question, what becomes of the reply."""


class EntryBatch(Protocol):
    """Entries of one table, by partition name, that one question can ask for, whichever requests have met them."""

    look: RequestView
    kind: EntryKind

    @property
    def place(self) -> tuple[bytes, ...]:
        """What of equal place may be asked for together."""
        ...

    def due_names(self) -> list[bytes]:
        """Those that were found due for a refresh."""
        ...

    def find(self) -> None:
        """See what is there, and what of it is due."""
        ...

    def only(self, wanted: list[bytes]) -> EntryBatch:
        """Others of the same place, as a load of its own."""
        ...

    def keys(self) -> dict[bytes, bytes]:
        """The names by their keys."""
        ...

    def question(self, wanted: list[bytes]) -> Ask:
        """Asks for these, which `learn` then expects."""
        ...

    def learn(self, reply: bytes) -> None:
        """The reply to it."""
        ...


class Conversation(Protocol):
    """How one request is answered from objects: first from the cache alone, then by questions, or, where a class says
    nothing of them, by the client's own request."""

    look: RequestView
    kind: EntryKind

    def wanted(self) -> tuple[bytes | None, list[bytes]]:
        """(the result struct, []) if the cache has all of it; else (None, keys of what is missing)."""
        ...

    def ask(self) -> Ask | None:
        """The question for what is missing, None if it is the client's own request. After `wanted`."""
        return None

    def answered(self, reply: bytes | None) -> Ask | bytes | None:
        """A reply, None if it was too long: the next question, the result struct, or None: it has to be the client's
        own request after all."""
        raise AssertionError("no question was asked")

    def learn(self, reply: bytes) -> None:
        """The reply to the client's own request: publish what it has."""
        ...

    def due(self, header: Header, message: bytes) -> Iterator[DueEntry]:
        """What is due for a refresh and is asked for by itself: at most one, as it shares this one's view. By default
        the client's own request again. After `wanted`."""
        for key in tuple(self.look.due)[:1]:
            yield key, Ask(header, message, HOLD_BYTES), self.learn

    def batch(self) -> EntryBatch | None:
        """What is due for a refresh and can be asked for together with what others have met. After `wanted`."""
        return None


def says_only(request: Any, *names: str) -> bool:
    """Whether a request struct says no more than these fields do. (Generated clients send defaults: false, id -1.)"""
    rows = (row for row in request.thrift_spec if row is not None)
    return all(row[2] in names or getattr(request, row[2]) in (None, False, -1) for row in rows)


def question(method: str, header: Header, arguments: Any) -> Ask:
    """A question in place of the client's request, with its seqid."""
    name = method.encode()
    asked = header._replace(name=name)
    message = message_header(name, MessageType.CALL, header.seqid) + spec.encode(arguments)
    return Ask(asked, message, HOLD_BYTES)


Maker = Callable[[RequestView, Header, Any, bytes], Conversation | None]
"""Makes the conversation of arguments, decoded and as sent; None for those that are not answered from objects."""
