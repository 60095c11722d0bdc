"""Faults that the proxy once had when something around it broke (docs/reliability.md): tests/torture finds each.

`sitecustomize` imports this module; it plants one of them by its name. Each puts one mend out of force, in one place.
"""

from __future__ import annotations

from typing import Any

from sitecustomize import bug, swap


@bug
def full_disk_refuses() -> None:
    """A write that cannot be fenced, as the disk is full, does not leave."""
    from hms_cache_proxy.consistency.guards import Guard, Guards

    def refuse(self: Guards, guard: Guard) -> bool:
        self._write(guard)
        return True

    swap(Guards, "_record", refuse)


@bug
def fence_leaked() -> None:
    """A client that is dropped leaves its fence, and nobody looks how old it is."""
    from hms_cache_proxy.consistency.fence_rows import UNBOUND, Fence
    from hms_cache_proxy.consistency.fences import FenceStore
    from hms_cache_proxy.methods.effects import FencedWrite

    following = FenceStore._next
    swap(FencedWrite, "failed", lambda self, sent: None)

    def patient(self: FenceStore, fence: Fence, now_ns: int, alive: Any) -> int | None:
        return None if fence.state == UNBOUND else following(self, fence, now_ns, alive)

    swap(FenceStore, "_next", patient)


@bug
def dead_readers_kept() -> None:
    """The readers that a killed process was are never forgotten, but by a follower that starts."""
    from hms_cache_proxy.cache.writer import CacheWriter
    from hms_cache_proxy.consistency.fences import FenceStore

    class Unchecked:
        """An environment whose readers nobody looks at."""

        def __init__(self, env: Any) -> None:
            self._env = env

        def __getattr__(self, name: str) -> Any:
            return getattr(self._env, name)

        def reader_check(self) -> int:
            return 0

    opened = FenceStore.__init__

    def open_unchecked(self: FenceStore, *arguments: Any, **named: Any) -> None:
        opened(self, *arguments, **named)
        self._env = Unchecked(self._env)

    swap(FenceStore, "__init__", open_unchecked)
    swap(CacheWriter, "_clear_dead_readers", lambda self: None)


@bug
def sick_metastore_preferred() -> None:
    """A metastore that accepts connections is taken for a healthy one."""
    from hms_cache_proxy.upstream.endpoints import Endpoints

    begun = Endpoints.__init__

    def trusting(self: Endpoints, *addresses: Any, **options: Any) -> None:
        begun(self, *addresses, **options)
        suspects = list[Any]()
        self.suspect = suspects.append

    swap(Endpoints, "__init__", trusting)
    swap(Endpoints, "candidates", lambda self, *, last=None: list(self.all))


@bug
def idle_connections_kept() -> None:
    """A silent client keeps its connection to the metastore."""
    from hms_cache_proxy.server.exchange import Exchange

    swap(Exchange, "release", lambda self: None)


@bug
def connections_unbounded() -> None:
    """Each client has a connection to the metastore, however many there are."""
    from hms_cache_proxy.upstream.places import ConnectionPlaces

    take = ConnectionPlaces.take

    def unbounded(self: ConnectionPlaces[Any], endpoint: Any, who: Any) -> bool:
        self.limit = 0
        return take(self, endpoint, who)

    swap(ConnectionPlaces, "take", unbounded)


@bug
def hung_worker_left() -> None:
    """Nobody looks whether a child hangs."""
    from hms_cache_proxy.processes.watchdog import Watchdog

    swap(Watchdog, "check", lambda self, now_s: None)


@bug
def one_request_at_a_time() -> None:
    """Long work is done to its end, whoever waits."""
    from hms_cache_proxy.server.turns import Turns

    def to_the_end(self: Turns) -> None:
        while self._waiting:
            self._next()()
        self._due = False

    swap(Turns, "_run", to_the_end)


@bug
def budgets_endless() -> None:
    """There is always room."""
    from hms_cache_proxy.budget import Budget

    swap(Budget, "has", lambda self, size, *, for_write=False: True)


@bug
def told_ids_never_go_down() -> None:
    """Hits wait until the cache has reached the largest id that a client was ever told."""
    from hms_cache_proxy.cache.state import Slot
    from hms_cache_proxy.follower.cycle import Cycle
    from hms_cache_proxy.methods.effects import EventIds, event_id_of  # type: ignore[attr-defined]  # the name that it uses

    step, done = Cycle.step, EventIds.reply_done

    def told(self: EventIds, session: Any, reply: bytes | None, now_ns: int) -> None:
        page, highest = self.shared.page, (reply and event_id_of(self.method, reply)) or 0
        page[Slot.START_EVENT] = max(page[Slot.START_EVENT], highest)
        done(self, session, reply, now_ns)

    def stepped(self: Cycle, chunk: int) -> Any:
        before = self._page[Slot.START_EVENT]
        try:
            return step(self, chunk)
        finally:
            self._page[Slot.START_EVENT] = max(before, self._page[Slot.START_EVENT])

    swap(EventIds, "reply_done", told)
    swap(Cycle, "step", stepped)


@bug
def shared_locks_fence() -> None:
    """A lock that others may hold too holds everybody's reads back."""
    from hms_cache_proxy.methods import effects

    swap(effects, "only_reads", lambda call: False)


@bug
def misses_alone() -> None:
    """Each of many equal reads asks the metastore."""
    from hms_cache_proxy.methods.flights import Flights

    swap(Flights, "of", lambda self, key, depends, versions, floors, arrived_ns: None)


@bug
def session_calls_wait() -> None:
    """In an outage nobody but the metastore answers a session call."""
    from hms_cache_proxy.errors import WireError
    from hms_cache_proxy.methods import effects

    def none(method: str, header: Any, message: bytes) -> bytes:
        raise WireError("for the metastore")

    swap(effects, "agreement", none)


@bug
def confirmed_for_ever() -> None:
    """What the follower has confirmed once is served, however long ago that was."""
    from hms_cache_proxy.consistency.gate import Gate

    begun = Gate.__init__

    def patient(self: Gate, page: Any, fences: Any, rules: Any) -> None:
        begun(self, page, fences, rules)
        self._limit_ns = 1 << 62

    swap(Gate, "__init__", patient)


@bug
def purged_log_followed() -> None:
    """Ids that are missing in the log are skipped."""
    from hms_cache_proxy.follower import step

    def skipping(position: Any, log: Any, *, verified: bool) -> None:
        return None

    gather = step.gather

    def gathered(cursor: int, event_id: int, rows: Any, *more: Any) -> Any:
        present = list(rows)
        batch = gather(cursor, cursor + len(present), _numbered(cursor, present), *more)
        return batch

    def _numbered(cursor: int, present: Any) -> Any:
        from dataclasses import replace

        return [replace(row, event_id=number) for number, row in enumerate(present, cursor + 1)]

    swap(step, "continues", skipping)
    swap(step, "gather", gathered)
