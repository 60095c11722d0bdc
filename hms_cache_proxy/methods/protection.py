"""`[protection]`: a Decider in front of another that refuses calls, or lets them wait.

Job: refuse what `read_only`, `refuse_writes` and `refuse_reads` forbid, before it is decided, so nothing of it is kept;
hold relayed calls back while their user or address has too many. Must not know: how answers are found, sockets.

What is a change: a write of the method table, a method that is not in it, a lock that is not shared, and of the
transactions those that Hive's readers do not need (_OF_READERS). What a call is about: the targets of its row, and for
some methods _MORE. `refuse_writes` also refuses a change that may be about any database: an unknown method, arguments
that cannot be read. It does not refuse a change of something that is in no database, such as a role. A read that names
no database is not refused. A message's type does not matter: a metastore does what a known method does whatever the
type, and answers; it answers such a message of an unknown method too.

Limits: a place for each relayed read or write, from its decision until its outcome is known. A CallPlace returns itself
when it is garbage collected, so a call that ends in any way returns it. A call without a place waits, and is decided
again when `moved` changes. Session calls, locks and transactions need no place: they are short, and others wait for
their end. Owner: one per worker, on its loop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from time import monotonic_ns
from typing import Final, NamedTuple

from hms_cache_proxy.cache import targets as target
from hms_cache_proxy.config.protection import DatabaseGlobs, ProtectionSection
from hms_cache_proxy.errors import WireError
from hms_cache_proxy.peers.requests import PeerRequest
from hms_cache_proxy.wire import spec
from hms_cache_proxy.wire.message import Header

from . import effects, projections, shapes
from .decision import Ask, ClientSession, Decider, Decision, Forward, Pending, Serve, Wait, Work
from .large import decided
from .plan import Plan, may_write, plan
from .refusal import refusal
from .table import OTHER_LABEL, MethodKind

READ_ONLY, REFUSED = "read_only", "refused"
"""Reasons in the metrics."""
REFUSALS: Final = frozenset({READ_ONLY, REFUSED, "user_busy", "address_busy"})

_OF_READERS: Final = frozenset(
    "open_txns commit_txn abort_txn abort_txns get_open_txns get_open_txns_req get_open_txns_info get_valid_write_ids"
    " add_write_ids_to_min_history get_max_allocated_table_write_id get_latest_txnid_in_conflict"
    " get_all_write_event_info get_replayed_txns_for_policy".split()
)
"""Transactions that change nothing by themselves. Hive 4 calls add_write_ids_to_min_history for each query that reads a
transactional table: it keeps the files that the query reads."""

_MORE: Final[Mapping[str, shapes.Rule]] = {
    "create_function": shapes.database("func.dbName", "func.catName"),
    "alter_function": shapes.database("dbName"),
    "drop_function": shapes.database("dbName"),
    "allocate_table_write_ids": shapes.database("rqst.dbName"),
    "add_dynamic_partitions": shapes.database("rqst.dbname"),
    "add_write_notification_log": shapes.database("rqst.db"),
    "add_write_notification_log_in_batch": shapes.database("rqst.db"),
    "compact": shapes.database("rqst.dbname"),
    "compact2": shapes.database("rqst.dbname"),
    "submit_for_cleanup": shapes.database("o1.dbname"),
    "seed_write_id": shapes.database("rqst.dbName"),
    "repl_tbl_writeid_state": shapes.database("rqst.dbName"),
    "get_lock_materialization_rebuild": shapes.database("dbName"),
    "heartbeat_lock_materialization_rebuild": shapes.database("dbName"),
    "create_stored_procedure": shapes.database("proc.dbName", "proc.catName"),
    "drop_stored_procedure": shapes.database("request.dbName", "request.catName"),
    "add_package": shapes.database("request.dbName", "request.catName"),
    "drop_package": shapes.database("request.dbName", "request.catName"),
    "create_ischema": shapes.database("schema.dbName", "schema.catName"),
    "alter_ischema": shapes.database("rqst.name.dbName", "rqst.name.catName"),
    "drop_ischema": shapes.database("name.dbName", "name.catName"),
    "add_schema_version": shapes.database("schemaVersion.schema.dbName"),
    "drop_schema_version": shapes.database("schemaVersion.schema.dbName"),
    "map_schema_version_to_serde": shapes.database("rqst.schemaVersion.schema.dbName"),
    "set_schema_version_state": shapes.database("rqst.schemaVersion.schema.dbName"),
}
"""The databases of changes whose rows do not name them, because nothing that is cached depends on them."""

_IN_DATABASE: Final = (b"d", b"l", b"t", b"m", b"g")
_LIMITED: Final = frozenset({MethodKind.READ, MethodKind.WRITE})


class _Limit(NamedTuple):
    """How many calls one user, or one address, may have at the metastore; `most` 0: any number."""

    of: str
    who: bytes | str | None
    most: int

    @property
    def key(self) -> object:
        return self.of, self.who


class CallPlace:
    """What one relayed call holds of the limits."""

    __slots__ = ("_counts", "_keys", "_released")

    def __init__(self, counts: Counter[object], keys: tuple[object, ...], released: Callable[[], None]) -> None:
        self._counts, self._keys, self._released = counts, keys, released
        counts.update(keys)

    def close(self) -> None:
        """Return it."""
        keys, self._keys = self._keys, ()
        for key in keys:
            self._counts[key] -= 1
            if not self._counts[key]:
                del self._counts[key]
        if keys:
            self._released()

    def __del__(self) -> None:
        self.close()


@dataclass(frozen=True, slots=True)
class HeldPlace(Pending):
    """A call's effects, and its place."""

    inner: Pending
    place: CallPlace

    def leaving(self) -> PeerRequest | None:
        return self.inner.leaving()

    def sending(self) -> None:
        self.inner.sending()

    def reply_began(self, session: ClientSession, now_ns: int) -> None:
        self.inner.reply_began(session, now_ns)

    def reply_done(self, session: ClientSession, reply: bytes | None, now_ns: int) -> None:
        self.inner.reply_done(session, reply, now_ns)

    def failed(self, sent: bool) -> None:
        self.place.close()
        self.inner.failed(sent)

    def answered(self, reply: bytes | None) -> Ask | bytes | None:
        return self.inner.answered(reply)


class ProtectedDecider:
    """Decides as `inner` does about what it lets pass."""

    def __init__(self, inner: Decider, settings: ProtectionSection, reads: frozenset[bytes], *, queue_ns: int) -> None:
        """`reads`: methods that are not in the table and change nothing. `queue_ns`: how long a call waits."""
        self._inner = inner
        self._reads = reads
        self._queue_ns = queue_ns
        self._counts: Counter[object] = Counter()
        self._released = 0
        self.forget: Callable[[], None] = lambda: None
        """Called when reads are refused that may have been answered, and kept, before."""

        self.hot, self.looked_ns = inner.hot, inner.looked_ns
        self.apply(settings)

    def apply(self, settings: ProtectionSection) -> None:
        """From now on, these settings."""
        self.forget()
        self._settings = settings
        self._refuses = settings.refuses
        self._limits = bool(settings.calls_per_user or settings.calls_per_address)
        self._no_writes = DatabaseGlobs(settings.refuse_writes)
        self._no_reads = DatabaseGlobs(settings.refuse_reads)

    def moved(self) -> int:
        return self._inner.moved() + self._released

    def hot_wait(self, session: ClientSession, data: bytes, now_ns: int) -> Wait | None:
        """The Wait of `inner`."""
        wait = self._inner.hot_wait(session, data, now_ns)
        return None if wait is None else self._shifted(wait)

    def _shifted(self, wait: Wait) -> Wait:
        """A Wait of `inner`, whose `seen` is compared with `moved` of this decider."""
        return replace(wait, seen=wait.seen + self._released) if self._released else wait

    def decide(
        self,
        session: ClientSession,
        header: Header,
        message: bytes,
        now_ns: int,
        *,
        complete: bool = True,
        patient: bool = False,
    ) -> Decision:
        """A refusal, a Wait, or what `inner` decides."""
        if not self._refuses:
            return self._decide(session, header, message, now_ns, complete=complete, patient=patient)
        decide = partial(self._decide, session, header, message, now_ns, complete=complete, patient=patient)
        return decided(decide, header, message, complete=complete)

    def _decide(
        self, session: ClientSession, header: Header, message: bytes, now_ns: int, *, complete: bool, patient: bool
    ) -> Decision:
        if self._refuses:
            refused = self._refused(plan(header.name), header, message, complete)
            if refused is not None:
                return refused
        decision = self._inner.decide(session, header, message, now_ns, complete=complete, patient=patient)
        placed = self._placed(decision, session, plan(header.name), header, now_ns)
        assert placed is not None, "only a step of Work has no result"
        return placed

    # Refusals

    def _refused(self, found: Plan | None, header: Header, message: bytes, complete: bool) -> Serve | None:
        changes = self._changes(found, header, message, complete)
        if changes and self._settings.read_only:
            return _refuse(found, header, READ_ONLY, "it would change something, and protection.read_only = true")
        databases = self._no_writes if changes else self._no_reads
        if not databases or (not changes and (found is None or found.method.kind is not MethodKind.READ)):
            return None
        setting = f"protection.refuse_{'writes' if changes else 'reads'}"
        for name in _databases(found, header, message, complete):
            if name is None and changes:
                return _refuse(found, header, REFUSED, f"it does not say what it changes, and {setting} is set")
            if name is not None and databases.match(name):
                shown = name.decode("utf-8", "replace")
                return _refuse(found, header, REFUSED, f"{setting} has the database {shown}")
        return None

    def _changes(self, found: Plan | None, header: Header, message: bytes, complete: bool) -> bool:
        """Is the call a change?"""
        if found is None:
            return may_write(header.name, self._reads)
        kind, name = found.method.kind, found.method.name
        if kind is MethodKind.LOCK:
            return name == "lock" and not (complete and effects.only_reads(found.arguments, message, header.body))
        if kind is MethodKind.TRANSACTION:
            return name not in _OF_READERS or bool(found.named(message, header.body, complete=complete))
        return kind is MethodKind.WRITE

    # Limits

    def _placed(
        self, decision: Decision | None, session: ClientSession, found: Plan | None, header: Header, arrived_ns: int
    ) -> Decision | None:
        """The decision with a place, if it is to relay a read or a write and there are limits; None if there is none
        yet (Work)."""
        if isinstance(decision, Wait):
            return self._shifted(decision)
        if isinstance(decision, Work):
            work = decision
            return Work(lambda: self._placed(work.step(), session, found, header, arrived_ns))
        if (
            not self._limits
            or not isinstance(decision, Forward)
            or (found is not None and found.method.kind not in _LIMITED)
        ):
            return decision
        settings, counts = self._settings, self._counts
        limits = (
            _Limit("user", session.identity, settings.calls_per_user),
            _Limit("address", session.peer.rpartition(":")[0], settings.calls_per_address),
        )
        full = next((limit for limit in limits if limit.most and counts[limit.key] >= limit.most), None)
        if full is None:
            place = CallPlace(counts, tuple(limit.key for limit in limits), self._free)
            return replace(decision, pending=HeldPlace(decision.pending, place))
        decision.pending.failed(False)
        until_ns = arrived_ns + self._queue_ns
        if monotonic_ns() < until_ns:
            return Wait(self.moved(), until_ns, told=True)
        text = (
            f"this {full.of} already has as many calls at the metastore as protection.calls_per_{full.of} ="
            f" {full.most} allows, and none of them ended in time"
        )
        return _refuse(found, header, f"{full.of}_busy", text)

    def _free(self) -> None:
        self._released += 1


def _databases(found: Plan | None, header: Header, message: bytes, complete: bool) -> Iterator[bytes | None]:
    """The databases that the call names; None: it may be about any."""
    if found is None:
        yield None
        return
    named = found.named(message, header.body, complete=complete)
    rule = _MORE.get(found.method.name)
    if rule is not None:
        cls = projections.projection(found.method.name, tuple(rule.paths()))
        try:
            named += tuple(rule.targets(spec.decode(cls, message, header.body)[0]))
        except WireError:
            named += (target.ALL,)
    for one in named:
        if one[:1] in _IN_DATABASE:
            yield one[1:].split(target.SEPARATOR)[1]
        elif one in (target.ALL, target.UNKNOWN):
            yield None


def _refuse(found: Plan | None, header: Header, reason: str, why: str) -> Serve:
    name = header.name.decode("utf-8", "replace")
    text = f"{name} is refused by the proxy: {why}"
    return Serve(refusal(name, header, text), OTHER_LABEL if found is None else found.method.name, "error", reason)
