"""`[protection]`: a dispatcher in front of another that refuses calls, or lets them wait.

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
from time import monotonic_ns
from typing import Final, NamedTuple

from hms_cache_proxy.cache import targets as target
from hms_cache_proxy.config.protection import DatabaseGlobs, ProtectionSection
from hms_cache_proxy.errors import WireError
from hms_cache_proxy.wire import spec

from . import effects, projections, shapes
from .decision import ClientCall, ClientSession, Decision, Dispatcher, Forward, PassingOn, Serve, Wait, Work
from .large_requests import decided
from .method_plan import may_write
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
    "cm_recycle": shapes.everything(),  # it names a path
}
"""The databases of changes whose rows do not name them, because nothing that is cached depends on them."""

_GRANTS: Final = frozenset("grant_privileges revoke_privileges grant_revoke_privileges refresh_privileges".split())
_GRANT_BYTES: Final = 1 << 16
"""The targets of a longer grant may stand for more objects than they name (targets.whole)."""

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
class HeldPlace(PassingOn):
    """A call's effects, and its place."""

    place: CallPlace

    def failed(self, sent: bool) -> None:
        self.place.close()
        self.inner.failed(sent)


class ProtectedDispatcher:
    """Decides as `inner` does about what it lets pass."""

    def __init__(
        self,
        inner: Dispatcher,
        settings: ProtectionSection,
        reads: frozenset[bytes],
        *,
        queue_ns: int,
        forget: Callable[[], None] | None = None,
    ) -> None:
        """`reads`: methods that are not in the table and change nothing. `queue_ns`: how long a call waits. `forget` is
        called when reads are refused that may have been answered, and kept, before."""
        self._inner = inner
        self._reads = reads
        self._queue_ns = queue_ns
        self._counts: Counter[object] = Counter()
        self._released = 0
        self._forget = forget
        self.hot, self.looked_ns = inner.hot, inner.looked_ns
        self.apply(settings)

    def apply(self, settings: ProtectionSection) -> None:
        """From now on, these settings."""
        if self._forget is not None:
            self._forget()
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
        """A Wait of `inner`, whose `seen` is compared with `moved` of this dispatcher."""
        return replace(wait, seen=wait.seen + self._released) if self._released else wait

    def decide(self, call: ClientCall) -> Decision:
        """A refusal, a Wait, or what `inner` decides."""
        return decided(self._refused_or_passed, call) if self._refuses else self._passed(call)

    def _refused_or_passed(self, call: ClientCall) -> Decision:
        return self._refused(call) or self._passed(call)

    def _passed(self, call: ClientCall) -> Decision:
        placed = self._placed(self._inner.decide(call), call)
        assert placed is not None, "only a step of Work has no result"
        return placed

    # Refusals

    def _refused(self, call: ClientCall) -> Serve | None:
        changes = self._changes(call)
        if changes and self._settings.read_only:
            return _refuse(call, READ_ONLY, "it would change something, and protection.read_only = true")
        databases = self._no_writes if changes else self._no_reads
        is_read = call.plan is not None and call.plan.method.kind is MethodKind.READ
        if not databases or not (changes or is_read):
            return None
        setting = f"protection.refuse_{'writes' if changes else 'reads'}"
        for name in _databases(call):
            if name is None and changes:
                return _refuse(call, REFUSED, f"it does not say what it changes, and {setting} is set")
            if name is not None and databases.match(name):
                shown = name.decode("utf-8", "replace")
                return _refuse(call, REFUSED, f"{setting} has the database {shown}")
        return None

    def _changes(self, call: ClientCall) -> bool:
        """Is the call a change?"""
        if call.plan is None:
            return may_write(call.header.name, self._reads)
        kind, name = call.plan.method.kind, call.plan.method.name
        if kind is MethodKind.LOCK:
            return name == "lock" and not effects.only_reads(call)
        if kind is MethodKind.TRANSACTION:
            return name not in _OF_READERS or bool(call.named())
        return kind is MethodKind.WRITE

    # Limits

    def _placed(self, decision: Decision | None, call: ClientCall) -> Decision | None:
        """The decision with a place, if it is to relay a read or a write and there are limits; None if there is none
        yet (Work)."""
        if isinstance(decision, Wait):
            return self._shifted(decision)
        if isinstance(decision, Work):
            work = decision
            return Work(lambda: self._placed(work.step(), call))
        if not self._limits or not isinstance(decision, Forward):
            return decision
        if call.plan is not None and call.plan.method.kind not in _LIMITED:
            return decision
        settings, counts = self._settings, self._counts
        limits = (
            _Limit("user", call.session.identity, settings.calls_per_user),
            _Limit("address", call.session.peer.rpartition(":")[0], settings.calls_per_address),
        )
        full = next((limit for limit in limits if limit.most and counts[limit.key] >= limit.most), None)
        if full is None:
            place = CallPlace(counts, tuple(limit.key for limit in limits), self._free)
            return replace(decision, pending=HeldPlace(decision.pending, place))
        decision.pending.failed(False)
        until_ns = call.arrived_ns + self._queue_ns
        if monotonic_ns() < until_ns:
            return Wait(self.moved(), until_ns, told=True)
        text = (
            f"this {full.of} already has as many calls at the metastore as protection.calls_per_{full.of} ="
            f" {full.most} allows, and none of them ended in time"
        )
        return _refuse(call, f"{full.of}_busy", text)

    def _free(self) -> None:
        self._released += 1


def _databases(call: ClientCall) -> Iterator[bytes | None]:
    """The databases that the call names; None: it may be about any."""
    if call.plan is None:
        yield None
        return
    named, method = call.named(), call.plan.method.name
    unnamed = {target.ALL, target.UNKNOWN}
    if method in _GRANTS and not (call.complete and len(call.message) < _GRANT_BYTES):
        unnamed.add(target.WIDE_RIGHTS)
    rule = _MORE.get(method)
    if rule is not None:
        cls = projections.projection(method, tuple(rule.paths()))
        try:
            named += tuple(rule.targets(spec.decode(cls, call.message, call.header.body)[0]))
        except WireError:
            named += (target.ALL,)
    for one in named:
        database = target.database_in(one)
        if database is not None or one in unnamed:
            yield database


def _refuse(call: ClientCall, reason: str, why: str) -> Serve:
    name = call.header.name.decode("utf-8", "replace")
    text = f"{name} is refused by the proxy: {why}"
    label = OTHER_LABEL if call.plan is None else call.plan.method.name
    return Serve(refusal(name, call.header, text), label, "error", reason)
