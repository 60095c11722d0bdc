"""Handles reads that the cache does not answer.

Job: send a read to the metastore, and say what is done with the reply: it is kept, or shared with equal reads that came
meanwhile (flights.py), or the follower reads tables again. Must not know: sockets, readers, how kept replies are found
and used (dispatch.py).

Invariants
- A reply is kept only if the gate let the read through, its tables are loaded and have no privileges per partition, and
  the request proves what transactional tables need (proof.py). It is used after a step of the follower that began later
  than the reply arrived, if the versions of its dependencies are still what they were before the request left
  (cache/replies.py).
- An answer is shared only in a mode that does not ask for what is true at the moment of the call.
Owner: one per worker, on its loop.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from hms_cache_proxy.cache.replies import versions_of
from hms_cache_proxy.cache.snapshot import CacheSnapshot
from hms_cache_proxy.cache.targets import ROLES, only_tables
from hms_cache_proxy.config import Config
from hms_cache_proxy.consistency.gate import LOOKS, Gate, Reason

from .decision import ClientSession, Forward, Pending, Serve, Wait
from .effects import EffectsContext, RelayedRead
from .flights import LONGEST_NS, Flight
from .hit_labels import HitLabels
from .learnable import LEARNABLE, dropped_elsewhere, lacking, lasting, may_learn, members, of_members, parents, unlogged
from .method_plan import EVERYTHING, Plan
from .proof import UNPROVED
from .read_call import ReadCall
from .write_id_reloads import WriteIdReloads

SHARED = "shared"
"""The reason of a hit that shares the answer to another read's miss."""
_USED_LATER = LOOKS | {Reason.FLOOR}
_WAITS_FOR_FOLLOWER = frozenset({Reason.FENCE, Reason.FLOOR, Reason.UNCONFIRMED, Reason.BOUNDED})

ReadWatcher = Callable[[RelayedRead, ReadCall, CacheSnapshot], Pending]
"""Given a read whose reply is to be kept, returns what is told how it goes: the read itself, or what watches it."""


class Misses:
    """The reads of a worker that go to the metastore."""

    def __init__(
        self,
        context: EffectsContext,
        gate: Gate,
        labels: HitLabels,
        reloads: WriteIdReloads,
        moved: Callable[[], int],
        config: Config,
    ) -> None:
        """`moved`: Dispatcher.moved."""
        self._context = context
        self._gate = gate
        self._labels = labels
        self._reloads = reloads
        self._moved = moved
        self._max_learned_bytes = config.replies.max_entry_bytes
        self.shares = config.consistency in ("eventual", "session")

    def forward(self, found: Plan, depends: tuple[bytes, ...], reason: Reason) -> Forward:
        """Ask the metastore, and keep no reply. If the follower should have had the tables, it reads them again."""
        method = found.method
        if reason is Reason.FOREIGN_KEYS:
            depends = EVERYTHING  # the reply names tables that the request does not
        cached = method.reads or method.learn
        asks = cached and (reason in _WAITS_FOR_FOLLOWER or (reason is Reason.WRITE_ID and self._reloads.due(depends)))
        ticket = only_tables(depends) if asks else ()
        pending = RelayedRead(self._context, depends, ticket)
        return Forward(method.name, "miss" if cached else "relay", reason.value, retry=True, pending=pending)

    def used_later(self, reason: Reason | None, depends: tuple[bytes, ...], session: ClientSession) -> bool:
        """Does only a later step hold this read back? The metastore's reply may be kept all the same: it is used only
        after a later step."""
        if reason in LOOKS:
            reason = self._gate.held_back(depends, session.floors) or Reason.FLOOR
        return reason is Reason.FLOOR

    def learn(
        self, call: ReadCall, depends: tuple[bytes, ...], snapshot: CacheSnapshot, reason: Reason, watched: ReadWatcher
    ) -> Serve | Forward | Wait:
        """Ask the metastore, and keep the reply if every change of it will be noticed; or share the answer to an equal
        read."""
        method = call.plan.method
        learnable = method.learn and (reason in LEARNABLE or reason in _USED_LATER)
        if learnable and unlogged(snapshot, method):
            reason, learnable = Reason.UNLOGGED, False
        call.proof.current = True
        reason = (lacking(snapshot, depends, call.proved) if learnable else None) or reason
        learnable = learnable and reason not in UNPROVED
        more = members(snapshot, depends) if learnable and of_members(method, self._gate.authorization) else ()
        if not learnable or more is None or not may_learn(snapshot, method.name, depends):
            return self.forward(call.plan, depends, reason)
        named = parents(snapshot, method.name, depends)
        if named is None:
            return self.forward(call.plan, depends, reason)
        more += dropped_elsewhere(snapshot, method.name, depends) + named
        if self._gate.authorization != "none":
            more += (ROLES,)
        depends = tuple(dict.fromkeys(depends + more))
        versions = versions_of(snapshot, depends)
        served, by_look = self._labels.of(call, call.proof.relied_on), call.proof.by_look
        shared = None if by_look else self.share(call, depends, versions)
        if isinstance(shared, Serve | Wait):
            return shared
        read = RelayedRead(
            self._context,
            depends,
            key=call.key,
            versions=versions,
            method=method.name,
            label=served,
            flight=shared,
            reason=reason,
            by_look=by_look,
            lasting=lasting(method, self._gate.authorization, depends),
        )
        pending = watched(read, call, snapshot)
        return Forward(method.name, "miss", reason.value, self._max_learned_bytes, retry=True, pending=pending)

    def share(
        self, call: ReadCall, depends: tuple[bytes, ...], versions: tuple[int, ...]
    ) -> Serve | Wait | Flight | None:
        """The answer to an equal read, or a Wait for it; else the flight that this read begins; None if its answer is
        not shared."""
        if not self.shares or self._gate.must_look() is not None:
            return None
        flights, session, now_ns = self._context.flights, call.request.session, time.monotonic_ns()
        flight = flights.of(call.key, depends, versions, session.floors, call.request.arrived_ns)
        if flight is not None and not flight.landed_ns and now_ns - flight.left_ns < LONGEST_NS:
            if not call.request.patient:
                return None
            flight.awaited = True
            return Wait(self._moved(), call.request.arrived_ns + LONGEST_NS)
        if flight is None or call.request.arrived_ns > flight.landed_ns:
            return flights.begin(call.key, depends, versions, now_ns)
        if flight.body is None:
            return None
        self._context.shown(session, depends, now_ns)
        label = self._labels.of(call, SHARED)
        return Serve(call.reply(label, flight.body), label.method, reason=SHARED)
