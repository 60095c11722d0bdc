"""The dispatcher of a worker that has a cache: decides what to do with each request.

Job: decide whether the cache or the metastore answers; answer reads from objects or with kept replies; choose what a
forwarded call does to fences, floors and kept replies (effects.py; misses.py for reads). Must not know: sockets, the
follower's work. Owner: one per worker, on its loop.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial

from hms_cache_proxy.budget import Budget
from hms_cache_proxy.cache.reader import CacheReader
from hms_cache_proxy.cache.replies import ReplyCache, ReplyEntry
from hms_cache_proxy.cache.snapshot import CacheSnapshot
from hms_cache_proxy.cache.state import Slot, StatePage
from hms_cache_proxy.cache.targets import listed_by, only_tables
from hms_cache_proxy.config import Config
from hms_cache_proxy.consistency.fences import FenceStore
from hms_cache_proxy.consistency.gate import LOOKS, STALE, Gate, Reason, Rules
from hms_cache_proxy.consistency.guards import Guards
from hms_cache_proxy.consistency.looks import Looks
from hms_cache_proxy.consistency.mirror import FenceMirror
from hms_cache_proxy.consistency.suspension import Suspension
from hms_cache_proxy.errors import CacheError, WireError
from hms_cache_proxy.metrics import WorkerMetrics
from hms_cache_proxy.wire.message import MessageType
from hms_cache_proxy.wire.spec import Struct

from . import effects
from .decision import NOTHING, ClientCall, Decision, Forward, Pending, Serve, Wait, Work
from .hit_labels import HitLabels
from .hot import HotPath, Sampled, Told, new_samples
from .hot_looks import HotLooks
from .large_requests import decided
from .learnable import lasting, of_members
from .method_plan import EVERYTHING, Plan, declared_reads, may_write
from .misses import Misses
from .proof import LookNeeded, Proof, Rejected
from .read_call import SEQID, ReadCall
from .readers.base import Body, Context, Decline, DependsOnMore, Slices, Unfinished
from .readers.column_arrays import Memory
from .readers.key_index import KeyIndexes
from .refusal import refusal
from .table import OTHER_LABEL, MethodKind
from .write_id_reloads import WriteIdReloads

HELD_EVENTS_BYTES = 8 << 20
"""HELD_WRITE_BYTES for lists of events; after a longer one, everything is fenced until the cache has caught up."""

_CALL, _READ = MessageType.CALL, MethodKind.READ  # constants cost less than members of an enum


@dataclass(frozen=True, slots=True)
class SharedState:
    """What a worker shares with the other processes of the proxy: the cache, and what holds answers back.
    `suspension`: this worker's; None: it is the only worker."""

    page: StatePage
    reader: CacheReader
    fences: FenceStore
    suspension: Suspension | None = None


@dataclass(frozen=True, slots=True)
class WorkerLinks:
    """What joins a dispatcher to the other parts of its worker. The defaults are those of a worker without them."""

    wake: Callable[[], None]
    """Makes the follower begin a step now; must not block."""

    memory: Budget | None = None
    """For the connections' floors; None: unlimited."""

    outage: Callable[[], bool] = lambda: False
    """Does no metastore answer? While it says so, reads are answered without confirmation, as `serve_stale` allows."""

    peers: effects.Peers | None = None
    told: tuple[Told, ...] = ()
    """Each answer of the hot path is reported to these."""

    samples: deque[Sampled] = field(default_factory=new_samples)
    """Of what the hot path has answered."""


class CacheDispatcher:
    """Decides what each request means."""

    def __init__(self, config: Config, state: SharedState, metrics: WorkerMetrics, links: WorkerLinks) -> None:
        page, reader, fences = state.page, state.reader, state.fences
        self._reader = reader
        self._page = page
        self._by_name = config.list_order == "name"
        self._read_methods = declared_reads(config)
        self._transactional_reads = config.transactional_reads
        self._exact = config.consistency == "strict"
        self._statistics = Memory(config.replies.statistics_bytes)
        self._indexes = KeyIndexes(config.replies.filter_index_bytes)
        self._replies = ReplyCache(reader, config.replies.max_bytes, config.replies.max_entry_bytes)
        self._outage = links.outage
        self._gate = Gate(page, FenceMirror(fences), _rules(config))
        self._looks = Looks(page, links.wake)
        looks = self._exact or bool(config.peers) or config.transactional_reads == "strict"
        self._hot = HotPath(page, reader, self._replies, self._gate, links.told, links.samples)
        self._labels = HitLabels(metrics)
        self._reloads = WriteIdReloads()
        barrier = effects.FenceBarrier(fences, config.upstream_options.request_timeout_ns)
        self._shared = effects.EffectsContext(
            page,
            fences,
            Guards(barrier, state.suspension or Suspension(page), "fences"),
            self._replies,
            links.wake,
            config.cache_absent,
            memory=links.memory,
            peers=links.peers,
        )
        self._patience = self._shared.patience
        self._misses = Misses(self._shared, self._gate, self._labels, self._reloads, self.moved, config)
        looking = HotLooks(self._hot, self._gate, self._looks, self._patience, ever=looks)
        self.hot, self.hot_wait = self._hot.answer, looking.wait

    def forget(self) -> None:
        """Keep no reply any more, because the rules have changed."""
        self._replies.clear()
        self._hot.forget()

    def settle(self) -> None:
        """What could not be recorded is, once there is room; what nobody waits for any more is forgotten."""
        self._shared.settle()
        self._shared.flights.forget(time.monotonic_ns())

    # The full path

    def looked_ns(self) -> int:
        """When the last step of the follower began that is done."""
        return self._looks.began_ns

    def moved(self) -> int:
        """Changes with each step of the follower, and with each answer that other reads wait for."""
        return self._page[Slot.BEGAN_NS] + self._shared.flights.landed

    def decide(self, call: ClientCall) -> Decision:
        """What to do with a request."""
        return decided(self._decide, call)

    def _decide(self, call: ClientCall) -> Decision:
        found = call.plan
        if found is None:
            if not may_write(call.header.name, self._read_methods):
                return Forward(OTHER_LABEL, "relay", "unknown_method")
            return self._write(OTHER_LABEL, EVERYTHING, "unknown_method")
        method, label = found.method, found.method.name
        if method.kind is _READ:
            key = self._hot.key(call.session, call.message, call.header.body - SEQID) if call.complete else b""
            return self._read(ReadCall(call, found, key, self._proof()))
        if method.kind is MethodKind.WRITE or method.kind is MethodKind.TRANSACTION:
            targets = call.named()
            if method.kind is MethodKind.TRANSACTION and not targets:
                return Forward(label, "relay", method.kind.value, retry=method.retry)
            if method.silent_before_4:
                identity = self._reader.identity  # None: this worker has not read the cache yet, and others have
                targets += call.silent(in_4=identity is not None and identity.hive_line.startswith("4."))
            return self._write(label, targets, "", logs=method.logs)
        if method.kind is MethodKind.LOCK:
            return Forward(label, "relay", "lock", effects.HELD_WRITE_BYTES, pending=self._lock(found, call))
        if method.kind is MethodKind.EVENTS:
            pending = effects.EventIds(self._shared, label)
            return Forward(label, "relay", "events", HELD_EVENTS_BYTES, retry=method.retry, pending=pending)
        if method.kind is MethodKind.SESSION:
            return effects.session_call(call)
        return Forward(label, "relay", method.kind.value, retry=method.retry)

    def _write(self, label: str, targets: tuple[bytes, ...], reason: str, *, logs: bool = False) -> Forward:
        pending = effects.FencedWrite(self._shared, targets, logs) if targets else NOTHING
        return Forward(label, "write", reason, effects.HELD_WRITE_BYTES if targets else 0, pending=pending)

    def _lock(self, found: Plan, call: ClientCall) -> Pending:
        if found.method.rules:
            return effects.Lock(self._shared, call.named(), effects.only_reads(call))
        lock_id = effects.lock_id_of(call)
        return (effects.Unlock if found.method.name == "unlock" else effects.CheckLock)(self._shared, lock_id)

    # Reads

    def _proof(self) -> Proof:
        return Proof(self._transactional_reads, exact=self._exact)

    def _read(self, call: ReadCall) -> Decision:
        kept = self._kept(call)
        answerable = call.plan.reader is not None or kept is not None
        seen, began_ns = self.moved(), self._page[Slot.BEGAN_NS]
        reason = self._gate.standing(call.request.session.relay_for_good, call.request.arrived_ns)
        call.proof.current = began_ns > call.request.arrived_ns
        if answerable and self._needs_look(call, kept, reason):
            wait = self._wait_for_look(call, seen, began_ns)
            if wait is not None:
                return wait
        depends, args = self._depends(call, kept)
        call, decision = self._allowed(call, args, depends, reason)
        if decision is not None:
            return decision
        call, reason = self._held_back(call, depends, reason)
        if reason is None or (not answerable and self._may_be_learned(call, depends, reason)):
            found = self._in_snapshot(call, args, depends, reason, began_ns)
            if not isinstance(found, Reason):
                return found
            reason = found
        if answerable and self._gate.ends_with_next_step(reason, depends):
            wait = self._wait_for_step(call, reason, seen, began_ns)
            if wait is not None:
                return wait
        return self._misses.forward(call.plan, depends, reason)

    def _needs_look(self, call: ReadCall, kept: ReplyEntry | None, reason: Reason | None) -> bool:
        """Would a look that begins now allow the answer?"""
        return reason in LOOKS or (reason is None and kept is not None and kept.by_look and not call.proof.current)

    def _wait_for_look(self, call: ReadCall, seen: int, began_ns: int) -> Wait | None:
        patience_ns = self._patience.for_look(began_ns) if call.request.patient else 0
        if not patience_ns:
            return None
        arrived_ns = call.request.arrived_ns
        self._looks.ask(arrived_ns)
        return Wait(seen, arrived_ns + patience_ns, told=True, look_after_ns=arrived_ns)

    def _wait_for_step(self, call: ReadCall, reason: Reason, seen: int, began_ns: int) -> Wait | None:
        session, arrived_ns = call.request.session, call.request.arrived_ns
        patience_ns = self._patience.for_step(session, began_ns, arrived_ns, look=reason in LOOKS)
        if call.request.patient and patience_ns:
            self._looks.ask(time.monotonic_ns())
            return Wait(seen, arrived_ns + patience_ns, told=True)
        self._patience.in_vain(session, began_ns, arrived_ns)
        return None

    def _depends(self, call: ReadCall, kept: ReplyEntry | None) -> tuple[tuple[bytes, ...], Struct | None]:
        """What a read depends on, which is marked as used, and its arguments if they have been decoded."""
        depends, args = self._looked_at(call) if kept is None else (kept.depends, None)
        if call.also:
            depends = tuple(dict.fromkeys(depends + call.also))
        self._reader.uses.mark(depends)
        return depends, args

    def _held_back(
        self, call: ReadCall, depends: tuple[bytes, ...], reason: Reason | None
    ) -> tuple[ReadCall, Reason | None]:
        """The call, which may be answered stale, and why the cache must not answer it; None: it may. `reason`: what
        holds every read back."""
        request = call.request
        if reason is not None and self._may_be_stale(call, reason):
            call, reason = call._replace(stale=True), None
        if reason is None:
            reason = self._gate.held_back(depends, request.session.floors)
        if reason is None and not (request.complete and request.header.type is _CALL):
            reason = Reason.ARGUMENTS
        return call, reason

    def _may_be_learned(self, call: ReadCall, depends: tuple[bytes, ...], reason: Reason) -> bool:
        """Is the metastore's reply good for later reads, although the cache must not answer this one?"""
        return call.request.complete and self._misses.used_later(reason, depends, call.request.session)

    def _in_snapshot(
        self, call: ReadCall, args: Struct | None, depends: tuple[bytes, ...], reason: Reason | None, began_ns: int
    ) -> Decision | Reason:
        """A decision by the cache as it is now, or why it cannot answer. `reason`: why it must not; only the reply to
        the relayed read is learned then."""
        try:
            with self._reader.snapshot() as snapshot:
                try:
                    if reason is not None:
                        return self._learn(call, depends, snapshot, reason)
                    if snapshot.holds(depends):
                        return Reason.UNSETTLED
                    return self._from_cache(call, args, depends, snapshot, began_ns)
                except LookNeeded:
                    return Reason.STRICT
                except Rejected as rejected:
                    return self._reject(call, rejected)
        except DependsOnMore as more:
            return Reason.UNSETTLED if call.also else self._read(call._replace(also=more.targets))
        except CacheError:
            return Reason.CACHE

    def _kept(self, call: ReadCall) -> ReplyEntry | None:
        """The reply that is kept for a read, valid or not."""
        return self._replies.peek(call.key) if call.plan.method.learn else None

    def _allowed(
        self, call: ReadCall, args: Struct | None, depends: tuple[bytes, ...], reason: Reason | None
    ) -> tuple[ReadCall, Decision | None]:
        """What decides about the user (learned.py): the call with what is known about it, or a decision at once."""
        return call, None

    def _looked_at(self, call: ReadCall) -> tuple[tuple[bytes, ...], Struct | None]:
        """What a read depends on, and its arguments if it has a reader."""
        args = None
        if call.request.complete and call.plan.reader is not None:
            named, args = call.request.read()
        else:
            named = call.request.named()
        if of_members(call.plan.method, self._gate.authorization):
            named += tuple(filter(None, map(listed_by, named)))
        return named or EVERYTHING, args

    def _may_be_stale(self, call: ReadCall, reason: Reason) -> bool:
        """Does `serve_stale` apply to this read? Not if it brings a write id list, which asks for a proof."""
        if not self._gate.stale_enough(reason, call.request.arrived_ns) or not self._outage():
            return False
        return call.request.complete and call.proved().text is None

    def _from_cache(
        self, call: ReadCall, args: Struct | None, depends: tuple[bytes, ...], snapshot: CacheSnapshot, began_ns: int
    ) -> Decision:
        """The gate is open: answer from objects or with a kept reply, else ask the metastore and keep its reply.
        `args`: None if they have not been decoded yet."""
        reason = call.declined
        if call.plan.reader is not None and reason is None:
            try:
                return self._answer(call, args, depends, snapshot)
            except Decline as declined:
                reason = declined.reason
        kept = self._replies.revalidate(call.key, snapshot, began_ns)
        if kept is not None and self._kept(call) is not None:
            if kept.by_look and not call.proof.current:
                raise LookNeeded
            assert kept.label is not None, "every reply that is kept here has one"
            reply = call.reply(kept.label, kept.body)
            return Serve(reply, kept.label.method, reason=STALE if call.stale else kept.label.reason)
        return self._learn(call, depends, snapshot, reason or Reason.NO_READER)

    def _learn(
        self, call: ReadCall, depends: tuple[bytes, ...], snapshot: CacheSnapshot, reason: Reason
    ) -> Serve | Forward | Wait:
        """Ask the metastore, and keep the reply if that is right; or share the answer to an equal read."""
        if call.also or self._kept(call) is not None:
            depends = CacheDispatcher._looked_at(self, call)[0]  # only what it names
        return self._misses.learn(call, depends, snapshot, reason, self._watched)

    def _watched(self, read: effects.RelayedRead, call: ReadCall, snapshot: CacheSnapshot) -> Pending:
        """What is told of a read whose reply is to be kept."""
        return read

    def _answer(
        self, call: ReadCall, args: Struct | None, depends: tuple[bytes, ...], snapshot: CacheSnapshot
    ) -> Decision:
        found = call.plan
        assert found.reader is not None
        if self._gate.authorization == "per_user":
            raise Decline(Reason.AUTHORIZATION)
        if args is None:
            try:
                args = call.request.arguments()
            except WireError:
                raise Decline(Reason.ARGUMENTS) from None
        found.bearer.show(args, call.proof)
        context = Context(
            snapshot,
            found.method.name,
            by_name=self._by_name,
            proof=call.proof,
            answers_absent=self._shared.answers_absent,
            differs=self._page[Slot.DIFFERS],
            statistics=self._statistics,
            indexes=self._indexes,
            routes=self._shared.routes,
            depends=depends,
        )
        body = found.reader(context, args)
        if isinstance(body, Unfinished):
            began = snapshot.seq, time.monotonic_ns()
            return Work(partial(self._go_on, call, body, snapshot.resumed, depends, *began))
        return self._serve(call, body, depends, snapshot.seq)

    def _go_on(
        self,
        call: ReadCall,
        unfinished: Unfinished,
        resumed: Callable[[], AbstractContextManager[None]],
        depends: tuple[bytes, ...],
        seq: int,
        began_ns: int,
    ) -> Decision | None:
        """The next slice of an answer, which is as of the snapshot that it began with."""
        try:
            with resumed():
                next(unfinished.work)
            return None
        except StopIteration as done:
            served = self._serve(call.impatient(), done.value, depends, seq)
            if began_ns <= self._replies.cleared_ns:
                self._replies.drop(call.key)
            return served
        except Decline as declined:
            reason = declined.reason
        except Rejected as rejected:
            return self._reject(call, rejected)
        except LookNeeded:
            reason = Reason.STRICT
        except CacheError:
            reason = Reason.CACHE
        again = call.impatient()._replace(proof=self._proof(), declined=reason, stale=False)
        decision = self._read(again)
        assert isinstance(decision, Serve | Forward), "nothing to wait for without patience or reader"
        return decision

    def _serve(self, call: ReadCall, body: Body, depends: tuple[bytes, ...], seq: int) -> Decision:
        label = self._labels.of(call, call.proof.relied_on)
        reason = STALE if call.stale else label.reason
        if call.proof.other_list and self._reloads.due(depends):
            self._shared.reload(only_tables(depends))
        if isinstance(body, Slices):
            return Serve(_chunks(call.head(label), body), label.method, reason=reason)
        verdicts = () if call.judged is None else call.judged.verdicts
        entry = ReplyEntry(body, depends, seq=seq, label=label, by_look=call.proof.by_look, verdicts=verdicts)
        entry.lasting = lasting(call.plan.method, self._gate.authorization, depends)
        self._replies.put(call.key, entry)
        return Serve(call.reply(label, body), label.method, reason=reason)

    @staticmethod
    def _reject(call: ReadCall, rejected: Rejected) -> Serve:
        """Refuse the read (`transactional_reads = "reject"`)."""
        label = call.plan.method.name
        return Serve(refusal(label, call.request.header, str(rejected)), label, "error", Reason.NO_WRITE_ID.value)


def _rules(config: Config) -> Rules:
    """Of the gate. With "auto", the follower checks what the metastores do, and says whether the cache serves."""
    return Rules(
        config.consistency,
        config.max_unconfirmed_ms * 10**6,
        (config.max_staleness_ms or 0) * 10**6,
        int(config.serve_stale * 10**9),
        bool(config.peers),
        "none" if config.authorization == "auto" else config.authorization,
    )


def _chunks(head: bytes, body: Slices) -> Iterator[bytes]:
    yield head
    yield from body.pieces
