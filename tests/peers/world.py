"""A simulated fleet: real `Fleet` objects, a simulated network, clock, metastore, cache and follower.

One object is written with events, one without. Each proxy has a clock of its own (offset and rate), and a worker that
asks the peers' process over a simulated socket and decides by the state page (sim_workers.py). What is checked is
what fleet/model.py checks: no read that begins after a version was acknowledged to a writer, or shown to a reader at
any proxy, gives an older one. `Faults` says which rule is left out.
"""

from __future__ import annotations

import random
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from hms_cache_proxy.cache.state import Slot
from hms_cache_proxy.cache.targets import ALL, Target
from hms_cache_proxy.consistency.notes import Note, NoteKind
from hms_cache_proxy.peers.fleet import OwnMember
from hms_cache_proxy.peers.messages import PeerMessage, decode, encode
from hms_cache_proxy.peers.open_requests import WorkerDesk
from hms_cache_proxy.peers.protocol import (
    ClosePeer,
    DialPeer,
    MayLeave,
    PeerCommand,
    SendToPeer,
    ServeUntil,
)
from hms_cache_proxy.peers.requests import PeerAsk, PeerRequest
from tests.peers.sim_fleet import FaultyTimes, SimFleet
from tests.peers.sim_records import LOGGED, MS, REQUEST_TIMEOUT_NS, SILENT, SimRecords
from tests.peers.sim_workers import SimWorker


class Stale(AssertionError):
    """A read has shown less than it must."""


@dataclass
class SimWrite:
    """A write, a lock or a look at the log, from its fence to its reply."""

    kind: str
    proxy: SimProxy
    incarnation: bytes
    target: Target
    token: int
    number: int = 0
    phase: str = "fenced"
    may_leave: bool = False
    version: int = 0
    asked_ns: int = 0
    """When the last question about it was asked, of the world's clock."""

    asked: int = 0  # the number of its fence then, when it was about to leave
    last_ns: int | None = None
    """When its owner is dead: until when the metastore may carry it out, of the world's clock."""


@dataclass
class SimStep:
    versions: dict[Target, int]
    ticket: int
    wanted: set[Target]


@dataclass(eq=False)
class SimLink:
    """A connection: `down` goes to the follower, `up` to the followed."""

    number: int
    follower: SimProxy
    followed: SimProxy
    open: bool = True
    down: deque[bytes] = field(default_factory=deque)
    up: deque[bytes] = field(default_factory=deque)


class SimProxy:
    """One proxy: its page, fences, cache, follower, and the peers' process."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        self.says = name  # the address in its hello
        self.offset_ns = world.random.randrange(10**15)
        self.rate = world.random.uniform(0.98, 1.02)
        self.incarnation = b""
        self.records = SimRecords(self)
        self.cached = {LOGGED: 0, SILENT: 0}
        self.running: SimStep | None = None
        self.serve_until_ns = 0
        self.page: dict[int, int] = defaultdict(int)
        self.worker = SimWorker(self)
        self.stopped = False  # its peers' process is; what happens to it meanwhile is in `later`
        self.later: list[Callable[[], None]] = []
        self.missed: list[Target] = []  # what was over before it could be recorded
        self.up = False
        self.dialling: set[str] = set()
        self.started_ns = 0
        self.pending: tuple[Target, int, int] | None = None
        """A read in the middle, for faults that read things in another order."""

        self.early = False

    def local_ns(self) -> int:
        return self.offset_ns + int(self.world.now_ns * self.rate)

    def start(self, *, crashed: bool = False) -> None:
        self.up = True
        self.incarnation = self.world.random.randbytes(16)
        self.started_ns = self.page[Slot.PEERS_STARTED_NS] = self.local_ns()
        self.serve_until_ns = 0
        self.page.update({Slot.GIVEN_UNTIL_NS: 0, Slot.PEERS_SETTLED: 0})
        if crashed:
            self.records.crashed(self.local_ns(), forgets="cold_restart" in self.world.faults)
        self.records.owe((ALL,))  # nothing is served before the first step
        self.running = None
        self.start_peers()
        self.worker.start()

    def start_peers(self) -> None:
        """The peers' process begins; the records and the page are those of its predecessor."""
        own = OwnMember(self.incarnation, self.says, b"m", self.started_ns, self.page[Slot.GIVEN_UNTIL_NS])
        SimFleet.faults = self.world.faults
        self.fleet = SimFleet(own, self.records, self.world.times)
        self.desk = WorkerDesk(self.fleet)
        self.dialling = set()
        self.serve_until_ns = 0  # its first word
        self.stopped = False
        self.later.clear()

    def happens(self, event: Callable[[], None]) -> None:
        """Something that the peers' process will notice."""
        if self.stopped:
            self.later.append(event)
        else:
            event()
            self.carry_out()

    def go_on(self) -> None:
        """The peers' process is not stopped any more."""
        self.stopped = False
        for event in self.later[:]:
            self.happens(event)
        self.later.clear()
        self.worker.moved()

    def carry_out(self) -> None:
        while commands := self.fleet.take():
            for command in commands:
                self._carry_out(command)
        self.page[Slot.PEERS_SETTLED] = int(self.fleet.writes_leave)

    def _carry_out(self, command: PeerCommand) -> None:
        world = self.world
        match command:
            case SendToPeer(link, message):
                world.send(self, link, message)
            case ClosePeer(link):
                world.close_end(self, link)
            case DialPeer(address):
                self.dialling.add(address)
            case ServeUntil(until_ns):
                self.serve_until_ns = until_ns
            case MayLeave(token):
                self.desk.may_leave(token)
            case _:
                pass


class World:
    """Everything, and the actions that can happen next."""

    def __init__(
        self, seed: int, proxies: int = 2, *, faults: Sequence[str] = (), lag_ns: int = 0, lease_ns: int = 400 * MS
    ) -> None:
        self.random = random.Random(seed)
        self.faults = frozenset(faults)
        self.times = FaultyTimes(
            lease_ns=lease_ns,
            ask_ns=lease_ns // 4,
            list_lag_ns=lag_ns,
            slow_ns=200 * MS,
            silence_ns=3_000 * MS,
            first_penalty_ns=200 * MS,
            last_penalty_ns=1_000 * MS,
            faults=self.faults,
        )
        self.now_ns = 0
        self.versions = {LOGGED: 0, SILENT: 0}
        self.seen = {LOGGED: 0, SILENT: 0}
        self.promised: dict[Target, list[int]] = {LOGGED: [0], SILENT: [0]}
        """Versions that reads must show: of writes through a proxy, and those that locks and event ids tell of."""

        self.slow = False
        """What goes between workers and the peers' process moves when somebody says so."""

        self.writes: list[SimWrite] = []
        self.links: dict[int, SimLink] = {}
        self.numbers = 0
        self.hits = self.relayed = self.finished = 0
        self.history: list[str] = []
        self.proxies = [SimProxy(self, f"p{number}:1") for number in range(proxies)]

    def start_all(self) -> None:
        for proxy in self.proxies:
            proxy.start()
        for proxy in self.proxies:
            self.look_up(proxy)

    def look_up(self, proxy: SimProxy, names: Sequence[str] | None = None) -> None:
        addresses = [one.name for one in self.proxies] if names is None else list(names)
        proxy.fleet.listed(addresses, proxy.local_ns())
        proxy.carry_out()

    def calm(self, rounds: int = 40, *, steps: bool = True) -> None:
        """Nothing breaks for a while: everything is delivered, every follower makes steps."""
        for _ in range(rounds):
            self.now_ns += 20 * MS
            for proxy in [one for one in self.proxies if one.up and not one.stopped]:
                self.tick(proxy)
                proxy.worker.look()
                for address in sorted(proxy.dialling):
                    self.connect(proxy, address)
            self.deliver_all()
            for proxy in [one for one in self.proxies if one.up and steps]:
                self.begin_step(proxy)
                self.end_step(proxy)

    def deliver_all(self) -> None:
        """Everything that is under way arrives."""
        for proxy in self.proxies:
            while proxy.up and proxy.worker.moves:
                proxy.worker.deliver_up()
                proxy.worker.deliver_down()
        while moving := [link for link in self.links.values() if self._moves(link)]:
            for link in moving:
                for down in (True, False):
                    stopped = (link.follower if down else link.followed).stopped
                    if not stopped and (link.down if down else link.up):
                        self.deliver(link, down=down)

    @staticmethod
    def _moves(link: SimLink) -> bool:
        down, up = link.down and not link.follower.stopped, link.up and not link.followed.stopped
        return link.open and bool(down or up)

    # the network

    def send(self, proxy: SimProxy, number: int, message: PeerMessage) -> None:
        link = self.links.get(number)
        if link is not None and link.open:
            (link.up if link.follower is proxy else link.down).append(encode(message))

    def close_end(self, proxy: SimProxy, number: int) -> None:
        link = self.links.get(number)
        if link is None or not link.open:
            return
        link.open = False
        other = link.followed if link.follower is proxy else link.follower
        if other.up:
            other.happens(partial(self._closed, other, number))

    @staticmethod
    def _closed(proxy: SimProxy, number: int) -> None:
        proxy.fleet.closed(number, proxy.local_ns())

    def cut(self, link: SimLink) -> None:
        """The connection breaks. What is under way to the follower may still arrive."""
        link.open = False
        link.up.clear()
        for proxy in (link.follower, link.followed):
            if proxy.up and self.random.random() < 0.7:  # the other notices when it is silent
                proxy.happens(partial(self._closed, proxy, link.number))

    def connect(self, proxy: SimProxy, address: str) -> None:
        proxy.dialling.discard(address)
        other = next(one for one in self.proxies if one.name == address)
        if not other.up or other.stopped:
            proxy.fleet.dial_failed(address, "refused", proxy.local_ns())
            return
        self.numbers += 1
        link = SimLink(self.numbers, proxy, other)
        self.links[link.number] = link
        if other is not proxy:
            other.fleet.accepted(link.number, proxy.incarnation, other.local_ns())
            other.carry_out()
        proxy.fleet.dialled(link.number, address, other.incarnation, proxy.local_ns())
        proxy.carry_out()

    def deliver(self, link: SimLink, *, down: bool, index: int = 0) -> None:
        queue = link.down if down else link.up
        data = queue[index]
        del queue[index]
        proxy = link.follower if down else link.followed
        if proxy.up:
            proxy.fleet.received(link.number, decode(data), proxy.local_ns())
            proxy.carry_out()

    # processes

    def tick(self, proxy: SimProxy) -> None:
        proxy.records.expire(proxy.local_ns())
        proxy.fleet.tick(proxy.local_ns())
        proxy.carry_out()

    def crash(self, proxy: SimProxy) -> None:
        proxy.up = proxy.stopped = False
        proxy.worker.lose()
        self._disconnect(proxy)
        for write in self.writes:
            if write.proxy is proxy and write.phase in ("fenced", "left", "applied"):
                write.phase = "dead" if write.phase == "left" else "over"
                write.last_ns = self.now_ns + REQUEST_TIMEOUT_NS * 9 // 10

    def restart_peers(self, proxy: SimProxy) -> None:
        """The peers' process dies, and its successor begins. The worker connects again, and asks again."""
        self._disconnect(proxy)
        proxy.worker.lose()
        proxy.start_peers()
        self.look_up(proxy)
        if not self.slow:
            proxy.worker.connect()

    def _disconnect(self, proxy: SimProxy) -> None:
        for link in self.links.values():
            if link.open and proxy in (link.follower, link.followed):
                link.open = False
                link.up.clear()
                other = link.followed if link.follower is proxy else link.follower
                if other.up and other is not proxy:
                    other.happens(partial(self._closed, other, link.number))

    def stop(self, proxy: SimProxy) -> None:
        """In order: nothing is under way there."""
        proxy.fleet.stop(proxy.local_ns())
        proxy.carry_out()
        proxy.up = False

    # writes

    def write(self, proxy: SimProxy, target: Target, kind: str = "write") -> SimWrite:
        self.numbers += 1
        write = SimWrite(kind, proxy, proxy.incarnation, target, self.numbers)
        self.writes.append(write)
        if kind == "write":
            if not proxy.page[Slot.UNFENCED] & 1:
                write.number = proxy.records.begin((target,))
            if "fence_after" not in self.faults:
                self.ask(write)
            else:
                write.may_leave, write.asked = True, write.number
        else:
            write.phase = "applied"
            write.version = self.versions[LOGGED]
            proxy.records.owe((LOGGED,))
            lock = Note(NoteKind.OWED, (target,))
            note = lock if kind == "lock" else Note(NoteKind.EVENT, event=write.version)
            if proxy.page[Slot.UNFENCED] & 1:
                proxy.missed.append(target)
            else:
                write.number = proxy.records.note(note)
            self.ask(write)
        return write

    def ask(self, write: SimWrite) -> None:
        if write.kind in ("lock", "events"):
            request = PeerRequest(PeerAsk.NOTED, write.number)
        elif write.phase == "applied" and "fence_after" not in self.faults:
            request = PeerRequest(PeerAsk.PASS)
        else:
            request = PeerRequest(PeerAsk.WRITE, write.number, (write.target,))
            write.asked = write.number
        write.asked_ns = self.now_ns
        write.proxy.worker.ask(request, partial(self._may_leave, write, write.token))

    @staticmethod
    def _may_leave(write: SimWrite, token: int) -> None:
        if write.token == token:
            write.may_leave = True

    def unanswered(self, proxy: SimProxy) -> list[SimWrite]:
        """What its worker has asked about, and has no answer to."""
        return [
            write
            for write in self.writes
            if write.proxy is proxy
            and write.incarnation == proxy.incarnation
            and write.phase in ("fenced", "applied")
            and not write.may_leave
        ]

    def waits_ns(self, write: SimWrite) -> int:
        return self.now_ns - write.asked_ns

    @property
    def bound_ns(self) -> int:
        """How long a question may wait by any clock: for the leases, and for the peers of a young proxy."""
        times = self.times
        return times.outlasted(times.outlasted(times.last_lease_ns) + times.write_age_ns)

    def leave(self, write: SimWrite) -> None:
        write.phase = "left"
        if "early_ticket" in self.faults:
            self._over(write)

    @staticmethod
    def _over(write: SimWrite) -> None:
        write.proxy.worker.link.tell(PeerRequest(PeerAsk.OVER, write.number))

    def apply(self, write: SimWrite) -> None:
        self.versions[write.target] += 1
        self.promised[write.target].append(self.versions[write.target])
        if write.phase == "dead":
            write.phase = "over"
            return
        write.version = self.versions[write.target]
        write.phase = "applied"
        if write.kind == "write":
            write.may_leave = False
            self.numbers += 1
            write.token = self.numbers
            self.ask(write)

    def finish(self, write: SimWrite) -> None:
        """The reply is passed on."""
        write.phase = "over"
        self.finished += 1
        self.promised[write.target].append(write.version)
        self.seen[write.target] = max(self.seen[write.target], write.version)
        if write.kind == "write" and not write.number:
            write.proxy.missed.append(write.target)
        elif write.kind == "write":
            untold = write.asked != write.number and "recorded_late" not in self.faults
            if untold or (write.proxy.worker.link.alone(write.number) and "left_alone" not in self.faults):
                write.proxy.records.note(Note(NoteKind.MISSED, (write.target,)))
            write.proxy.records.finish(write.number, silent=write.target == SILENT)
            if "early_ticket" not in self.faults:
                self._over(write)

    @staticmethod
    def fill_disk(proxy: SimProxy) -> None:
        """Nothing can be recorded there: its worker says so on the page."""
        proxy.page[Slot.UNFENCED] |= 1

    def settle(self, proxy: SimProxy) -> None:
        """There is room again: what is under way is recorded, and what was missed is told (consistency/guards.py)."""
        records = proxy.records
        for write in self.writes:
            if write.proxy is proxy and write.kind == "write" and write.phase in ("fenced", "left", "applied"):
                write.number = write.number or records.begin((write.target,))
        for target in proxy.missed:
            records.finish(records.begin((target,)), silent=True)
            if "untold" not in self.faults:
                records.note(Note(NoteKind.MISSED, (target,)))
        proxy.missed.clear()
        proxy.page[Slot.UNFENCED] += 1

    # reads and the follower

    def hit_allowed(self, proxy: SimProxy) -> bool:
        return proxy.local_ns() < proxy.serve_until_ns and not proxy.page[Slot.UNFENCED] & 1

    def read(self, proxy: SimProxy, target: Target) -> None:
        must, fast = self.seen[target], self.hit_allowed(proxy) and not proxy.records.fenced(target)
        shown = proxy.cached[target]
        if "early_clock" in self.faults:
            fast = proxy.early and not proxy.records.fenced(target)
            proxy.early = self.hit_allowed(proxy)
        elif "fences_first" in self.faults:
            before = proxy.pending
            proxy.pending = None if proxy.records.fenced(target) else (target, must, shown)
            if before is None or before[0] != target:
                return
            fast, (_, must, shown) = self.hit_allowed(proxy), before
        if fast:
            self.hits += 1
        else:
            self.relayed += 1
            shown = self.versions[target]
        self.seen[target] = max(self.seen[target], *(one for one in self.promised[target] if one <= shown))
        if shown < must:
            raise Stale(f"{proxy.name} shows version {shown} of {target!r}, and must show {must}")

    def begin_step(self, proxy: SimProxy) -> None:
        records = proxy.records
        wanted = set().union(*records.wanted.values()) if records.wanted else set()
        proxy.running = SimStep(dict(self.versions), records.last_ticket, wanted)

    def end_step(self, proxy: SimProxy) -> None:
        step, proxy.running = proxy.running, None
        assert step is not None
        proxy.cached[LOGGED] = step.versions[LOGGED]
        if {SILENT, ALL} & step.wanted:
            proxy.cached[SILENT] = step.versions[SILENT]
        late = proxy.records.last_ticket if "running_step" in self.faults else step.ticket
        proxy.records.done(late)
