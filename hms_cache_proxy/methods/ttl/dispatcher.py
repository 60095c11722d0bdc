"""The dispatcher of TTL mode: decides what to do with each request if the log cannot be followed.

Job: answer reads from the loading cache while their entries are young enough; otherwise ask the metastore and keep the
reply. A write invalidates what it touches, for all clients, before it leaves and before its reply is passed on, however
it ends. Must not know: sockets, how an answer is composed.

Reads with a ValidWriteIdList are relayed: only the metastore or a followed log can answer them.
Owner: one per worker, on its loop.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from time import monotonic_ns
from typing import Any

from hms_cache_proxy.budget import Budget
from hms_cache_proxy.cache.targets import ALL, ROLES, UNKNOWN, Target, partition_lists, table_names
from hms_cache_proxy.cache.ttl import EntryKind, TtlCache
from hms_cache_proxy.config import Config
from hms_cache_proxy.consistency.gate import Reason
from hms_cache_proxy.consistency.guards import Guards
from hms_cache_proxy.consistency.suspension import Suspension
from hms_cache_proxy.errors import CacheError, WireError
from hms_cache_proxy.metrics import Outcome, WorkerMetrics
from hms_cache_proxy.wire import spec
from hms_cache_proxy.wire.message import MessageType, message_header

from .. import effects
from ..decision import BaseDispatcher, ClientCall, Decision, Forward, Pending, Serve, Wait, Work
from ..large_requests import decided, run_slice
from ..method_plan import EVERYTHING, Plan, declared_reads, may_write
from ..table import OTHER_LABEL, MethodKind
from . import filters, lists, partitions, statistics, tables
from .kinds import KINDS, read_targets, write_targets
from .looking import Conversation, Maker, RequestView, TtlContext, Wanted
from .pending import CheckingLock, HoldBarrier, Loading, Locking, WaitedFor, Writing
from .refreshing import DueEntries
from .whole import Whole

USED_AT_ONCE = 500
"""Entries that `touch` marks as used in one go (about 4 ms)."""

SHARED_NS = 100_000_000
"""A reader waits for loads that began up to this long after its arrival. What cannot be kept (refusals, long replies,
what is being written) would otherwise be loaded for one waiting reader after the other."""

OBJECTS: Mapping[str, Maker] = {
    "get_table": tables.one_table,
    "get_table_req": tables.one_table,
    "get_partitions_by_names": partitions.by_names,
    "get_partitions_by_names_req": partitions.by_names,
    "get_partition_by_name": partitions.one_partition,
    "get_partition": partitions.one_partition,
    "get_partitions_statistics_req": statistics.of_partitions,
    "get_partitions_by_filter": filters.by_filter,
    "get_partitions": lists.listed,
    "get_partitions_ps": lists.listed,
    "get_partitions_with_auth": lists.listed,
    "get_partitions_ps_with_auth": lists.listed,
}


@dataclass(frozen=True, slots=True)
class _ReadCall:
    """A read, as it arrived, and what it asks for. If it is patient, it may wait for another read's load."""

    request: ClientCall
    label: str
    kind: EntryKind


class LoadingDispatcher(BaseDispatcher):
    """Decides what each request means. There is no hot path, because the ages of entries have to be checked."""

    def __init__(
        self,
        config: Config,
        cache: TtlCache,
        metrics: WorkerMetrics,
        wake: Callable[[], None],
        suspension: Suspension,
        memory: Budget | None = None,
    ) -> None:
        """`wake` tells the refresher that there are reloads in `due`; it must not block. `memory`: for what connections
        remember of their locks."""
        self.due = DueEntries(wake)
        self._cache = cache
        self._metrics = metrics
        self._max_bytes = config.replies.max_entry_bytes
        self._read_methods = declared_reads(config)
        self._per_user = config.ttl.impersonation == "on"
        request_timeout_ns = config.upstream_options.request_timeout_ns
        self._suspension = suspension
        guards = Guards(HoldBarrier(cache, request_timeout_ns), suspension, "ttl")
        self.settle = guards.settle
        self._shared = TtlContext(cache, config.ttl, metrics, request_timeout_ns, guards, memory=memory)
        self._waited_for = WaitedFor()

    def take_over(self) -> None:
        """Until now, another dispatcher has answered: show nothing that was loaded before."""
        self._shared.invalidate((ALL,))

    def moved(self) -> int:
        """Changes with each load that ends."""
        return self._cache.moved()

    def used(self) -> Iterator[Sequence[bytes]]:
        """The entries used since the last call, in pieces for `touch`. To be called every second or so."""
        used, self._shared.touched = iter(self._shared.touched), set()
        while piece := tuple(islice(used, USED_AT_ONCE)):
            yield piece

    def touch(self, used: Sequence[bytes]) -> None:
        """Mark entries of the cache as used."""
        try:
            self._cache.touch(used)
        except CacheError as error:
            self._shared.troubled(error)

    def tell(self) -> None:
        """Update the metrics of the cache's contents. To be called every second or so."""
        evicted = self._cache.take_evicted()
        try:
            sizes = self._cache.sizes()
        except CacheError as error:
            self._shared.troubled(error)
            return
        for kind, size in sizes.items():
            self._metrics.ttl_sizes(kind.label, size.entries, size.bytes, evicted.get(kind, 0))
        self._metrics.ttl_bytes(sum(size.bytes for size in sizes.values()))

    def forget_dead_readers(self) -> None:
        """Clear slots of killed processes. To be called every second or so."""
        try:
            self._cache.forget_dead_readers()
        except CacheError as error:
            self._shared.troubled(error)

    def decide(self, call: ClientCall) -> Decision:
        """What to do with a request."""
        return decided(self._decide, call)

    def _decide(self, call: ClientCall) -> Decision:
        found = call.plan
        if found is None:
            if not may_write(call.header.name, self._read_methods):
                return Forward(OTHER_LABEL, "relay", "unknown_method")
            return self._write(OTHER_LABEL, EVERYTHING, "unknown_method")
        label, calls = found.method.name, found.method.kind
        kind = KINDS.get(label)
        if kind is not None:
            return self._read(_ReadCall(call, label, kind))
        if calls is MethodKind.WRITE or calls is MethodKind.TRANSACTION:
            targets = call.named()
            if calls is MethodKind.WRITE or targets:
                targets = write_targets(label, targets)
            if not targets:
                outcome: Outcome = "relay" if calls is MethodKind.TRANSACTION else "write"
                return Forward(label, outcome, calls.value, retry=found.method.retry)
            return self._write(label, targets, "")
        if calls is MethodKind.LOCK and label != "unlock":
            return Forward(label, "relay", "lock", effects.HELD_WRITE_BYTES, pending=self._lock(found, call))
        if calls is MethodKind.SESSION:
            return effects.session_call(call)
        return Forward(label, "relay", calls.value, retry=found.method.retry)

    def _write(self, label: str, targets: tuple[Target, ...], reason: str) -> Forward:
        wide = (ALL,) if UNKNOWN in targets or ALL in targets else targets
        return Forward(label, "write", reason, effects.HELD_WRITE_BYTES, pending=Writing(self._shared, wide))

    def _lock(self, found: Plan, call: ClientCall) -> Pending:
        if found.method.rules:
            return Locking(self._shared, self._waited_for, call.named(), effects.only_reads(call))
        return CheckingLock(self._shared, self._waited_for, effects.lock_id_of(call))

    # Reads

    def _read(self, call: _ReadCall) -> Decision:
        request, label = call.request, call.label
        if request.session.relay_for_good:
            return Forward(label, "miss", "session", retry=True)
        if self._suspension.active:
            return Forward(label, "miss", Reason.UNFENCED.value, retry=True)
        if not request.complete or request.header.type is not MessageType.CALL:
            return Forward(label, "miss", "arguments", retry=True)
        try:
            args = request.arguments()
        except WireError:
            return Forward(label, "miss", "arguments", retry=True)
        if _brings_write_ids(args):
            return Forward(label, "miss", "write_id", retry=True)
        look = self._look(call, args)
        if not look.policy(call.kind).cached:
            return Forward(label, "miss", "ttl_off", retry=True)
        looking = self._looking(call, look, args)

        def step() -> Decision | None:
            try:
                found = run_slice(looking)
                return found if found is None or isinstance(found, Wait) else self._answer(call, *found)
            except CacheError as error:
                self._shared.troubled(error)
                return Forward(label, "miss", "cache", retry=True)

        return step() or Work(step)

    def _looking(
        self, call: _ReadCall, look: RequestView, args: Any
    ) -> Generator[None, None, tuple[Conversation, Wanted] | Wait]:
        """The conversation, and what it has found; or a Wait, as soon as another load is known to bring what is
        missing."""
        header, label = call.request.header, call.label
        arguments = call.request.message[header.body :]
        make = OBJECTS.get(label)
        made = make(look, header, args, arguments) if make is not None else None
        steps = made.looked_up() if made is not None else None
        found = None
        while steps is not None:
            try:
                missing = next(steps)
            except StopIteration as done:
                found = done.value
                break
            if missing and call.request.patient and (wait := self._wait(call, missing)) is not None:
                return wait
            yield
        if made is None or found is None:
            made = Whole(look.again(), label, arguments, call.kind)
            found = made.wanted()
        return made, found

    def _wait(self, call: _ReadCall, missing: list[bytes]) -> Wait | None:
        """A Wait if another load has claimed one of these; its `seen` is from before that was asked."""
        seen, latest_ns = self._cache.moved(), call.request.arrived_ns + SHARED_NS
        claimed = self._cache.is_claimed(missing, monotonic_ns(), latest_ns)
        return Wait(seen, call.request.arrived_ns + self._shared.request_timeout_ns) if claimed else None

    def _answer(self, call: _ReadCall, conversation: Conversation, found: Wanted) -> Serve | Forward | Wait:
        request, header, (body, missing) = call.request, call.request.header, found
        label, kind, look = header.name.decode(), conversation.kind, conversation.look
        if self._suspension.active:
            return Forward(label, "miss", Reason.UNFENCED.value, retry=True)
        if body is not None:
            self._metrics.ttl_looked_up(kind.label, "refresh_due" if look.due else "hit")
            if look.due:
                self.due.add(request.session.identity or b"", conversation, header, request.message)
            head = message_header(header.name, MessageType.REPLY, header.seqid)
            if isinstance(body, bytes):
                return Serve(head + body, label)
            body[0] = head + body[0]
            return Serve(body[0] if len(body) == 1 else iter(body), label)
        seen = self._cache.moved()
        if not look.claim(missing, alone=request.patient, latest_ns=request.arrived_ns + SHARED_NS):
            return Wait(seen, request.arrived_ns + self._shared.request_timeout_ns)
        self._metrics.ttl_looked_up(kind.label, "miss")
        pending = Loading(self._shared, conversation, label, header.seqid, monotonic_ns())
        ask = conversation.ask()
        return Forward(label, "miss", "not_loaded", self._max_bytes, retry=True, pending=pending, ask=ask)

    def _look(self, call: _ReadCall, args: Any) -> RequestView:
        session = call.request.session
        depends = read_targets(call.label, call.kind, call.request.named(), args)
        user = b""
        if self._per_user:
            user, depends = session.identity or b"", (*depends, ROLES)
        after_ns = session.locked.of(depends) if session.locked is not None else 0
        tables = list(table_names(depends))
        about = tuple((database, table) for _, database, table in tables)
        listed = tuple(partition_lists(*parts) for parts in tables[-1:])  # calls about partitions name one table
        return RequestView(self._shared, user, depends, after_ns, about, listed)


def _brings_write_ids(args: Any) -> bool:
    """Does the request carry a ValidWriteIdList?"""
    for row in args.thrift_spec:
        request = getattr(args, row[2]) if row is not None else None
        if isinstance(request, spec.Struct) and getattr(request, "validWriteIdList", None):
            return True
    return bool(getattr(args, "validTxnList", None))
