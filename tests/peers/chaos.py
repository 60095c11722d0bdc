"""Random orders of what can happen in a simulated fleet: `Chaos(world).run(steps)`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from hms_cache_proxy.cache.state import Slot
from tests.peers.sim_records import LOGGED, MS, REQUEST_TIMEOUT_NS, SILENT
from tests.peers.world import SimProxy, SimWrite, World

Action = tuple[str, Callable[[], None], float]
LIMITED = ("writes", "breaks", "crashes", "peer_restarts", "stops", "pipe_breaks", "pauses", "full_disks")


@dataclass(frozen=True)
class Budget:
    """How often something may happen in one run."""

    writes: int = 4
    breaks: int = 2
    crashes: int = 0
    peer_restarts: int = 0
    stops: int = 0
    long_pauses: bool = True
    silent: bool = True
    locks: bool = False
    pipes: bool = False
    """What goes between workers and the peers' process takes time; this many connections break, processes are stopped,
    and disks are full: """

    pipe_breaks: int = 0
    pauses: int = 0
    full_disks: int = 0
    forever_down: bool = False
    """A crashed proxy does not come back, and has left the list of the others."""


class Chaos:
    """One run."""

    def __init__(self, world: World, budget: Budget, *, writers: int = 1, late: tuple[int, ...] = ()) -> None:
        """`late`: the numbers of proxies that start during the run."""
        self.world, self.budget = world, budget
        self.left = {name: getattr(budget, name) for name in LIMITED}
        world.slow = budget.pipes
        self.writers = world.proxies[:writers]
        self.late = [world.proxies[number] for number in late]
        self.names = [proxy.name for proxy in world.proxies]
        self.listed_ns: dict[str, int] = {}
        for proxy in world.proxies:
            if proxy not in self.late:
                self.start(proxy)

    def start(self, proxy: SimProxy, *, crashed: bool = False) -> None:
        proxy.start(crashed=crashed)
        self.listed_ns[proxy.name] = self.world.now_ns
        self.look_up(proxy)

    def look_up(self, proxy: SimProxy) -> None:
        """The list has every proxy that is older than the lag, and perhaps younger ones."""
        world, lag_ns = self.world, self.world.times.list_lag_ns
        if not lag_ns:
            names = [*self.listed_ns] if self.late else self.names
        else:
            names = [
                name
                for name, since_ns in self.listed_ns.items()
                if world.now_ns - since_ns >= lag_ns - world.times.list_fresh_ns - 20 * MS
                or name == proxy.name
                or world.random.random() < 0.3
            ]
        world.look_up(proxy, names)

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.step()

    def step(self) -> None:
        world = self.world
        actions = list(self.actions())
        name, action, _ = world.random.choices(actions, [weight for _, _, weight in actions])[0]
        world.history.append(name)
        action()

    def actions(self) -> list[Action]:
        world = self.world
        actions: list[Action] = [("time passes", self.short_time, 4.0)]
        if self.budget.long_pauses:
            actions.append(("much time passes", self.long_time, 0.3))
        for proxy in world.proxies:
            actions += self._of_proxy(proxy)
        for link in world.links.values():
            if link.down and link.follower.up and not link.follower.stopped:
                indexes = [0]
                if "overtaking" in world.faults:
                    indexes += [i for i, data in enumerate(link.down) if data[0] == 11][:1]
                for index in indexes:
                    name = f"{link.follower.name} receives from {link.followed.name}: kind {link.down[index][0]}"
                    actions.append((name, partial(world.deliver, link, down=True, index=index), 4.0))
            if link.up and link.open and link.followed.up and not link.followed.stopped:
                name = f"{link.followed.name} receives from {link.follower.name}: kind {link.up[0][0]}"
                actions.append((name, partial(world.deliver, link, down=False), 4.0))
            if link.open and self.left["breaks"]:
                actions.append((f"connection {link.number} breaks", partial(self._use, "breaks", world.cut, link), 0.2))
        for write in world.writes:
            name = f"write {write.token} of {write.proxy.name}"
            if write.phase == "fenced" and write.may_leave:
                actions.append((f"{name} leaves", partial(world.leave, write), 3.0))
            elif write.phase in ("left", "dead"):
                if write.phase == "dead" and write.last_ns is not None and world.now_ns > write.last_ns:
                    write.phase = "over"
                    continue
                weight = 3.0 if write.phase == "left" else 0.3
                actions.append((f"{name} is carried out", partial(world.apply, write), weight))
            elif write.phase == "applied" and write.may_leave:
                if "fence_after" in world.faults and write.kind == "write" and not write.last_ns:
                    actions.append((f"{name} has its reply", partial(self._after, write), 3.0))
                else:
                    actions.append((f"{name}: its reply is passed on", partial(world.finish, write), 3.0))
        return actions

    def _after(self, write: SimWrite) -> None:
        """fence_after: peers are told only now."""
        write.last_ns, write.may_leave = 1, False
        self.world.ask(write)

    def _use(self, name: str, action: Callable[..., None], *arguments: object) -> None:
        self.left[name] -= 1
        action(*arguments)

    def _of_proxy(self, proxy: SimProxy) -> list[Action]:
        world, name = self.world, proxy.name
        if not proxy.up:
            if proxy in self.late and not proxy.incarnation:
                return [(f"{name} starts", lambda: self.start(proxy), 0.5)]
            return (
                []
                if self.budget.forever_down
                else [(f"{name} starts again", lambda: self.start(proxy, crashed=True), 0.5)]
            )
        actions: list[Action] = [(f"{name} is read", lambda: world.read(proxy, LOGGED), 3.0)]
        if proxy.stopped:
            actions.append((f"{name}'s peers go on", proxy.go_on, 0.3))
        else:
            actions += [
                (f"{name} ticks", lambda: world.tick(proxy), 3.0),
                (f"{name} looks at the list", lambda: self.look_up(proxy), 0.3),
            ]
        if self.budget.pipes:
            actions += self._of_worker(proxy)
        if self.budget.silent:
            actions.append((f"{name} is read (silent)", lambda: world.read(proxy, SILENT), 1.5))
        actions += [
            (f"{name} connects to {address}", partial(world.connect, proxy, address), 3.0)
            for address in sorted(proxy.dialling)
            if not proxy.stopped
        ]
        if proxy.running is None:
            actions.append((f"a step of {name} begins", lambda: world.begin_step(proxy), 2.0))
        else:
            actions.append((f"a step of {name} ends", lambda: world.end_step(proxy), 2.0))
        if proxy in self.writers and self.left["writes"]:
            actions.append((f"a write at {name}", lambda: self._write(proxy), 0.7))
        if self.left["crashes"] and proxy is world.proxies[0] and self._told(proxy):
            actions.append((f"{name} crashes", lambda: self._crash(proxy), 0.3))
        if self.left["peer_restarts"]:
            actions.append((f"{name}'s peers restart", lambda: self._restart_peers(proxy), 0.15))
        busy = any(write.proxy is proxy and write.phase in ("fenced", "left", "applied") for write in world.writes)
        if (
            self.left["stops"]
            and proxy is world.proxies[0]
            and not proxy.stopped
            and not busy
            and not proxy.records.under_way()
        ):
            actions.append((f"{name} stops", lambda: self._stop(proxy), 0.3))
        return actions

    def _of_worker(self, proxy: SimProxy) -> list[Action]:
        name, worker, part = proxy.name, proxy.worker, self.world.random.choice((None, None, 1, 30))
        actions: list[Action] = [(f"{name}'s worker looks", partial(self._looks, proxy), 1.0)]
        if worker.pipe is not None and worker.pipe.up and not proxy.stopped:
            actions.append(
                (f"{name}'s peers read {part or 'all'} of its worker", partial(worker.deliver_up, part), 3.0)
            )
        if worker.pipe is not None and worker.pipe.down:
            actions.append((f"{name}'s worker reads {part or 'all'}", partial(worker.deliver_down, part), 3.0))
        if self.left["pipe_breaks"]:
            actions.append((f"{name}'s worker is cut off", partial(self._use, "pipe_breaks", worker.lose), 0.2))
        if self.left["pauses"] and not proxy.stopped:
            actions.append((f"{name}'s peers are stopped", partial(self._use, "pauses", self._pause, proxy), 0.15))
        if proxy.page[Slot.UNFENCED] & 1:
            actions.append((f"{name} has room again", partial(self.world.settle, proxy), 0.4))
        elif self.left["full_disks"]:
            full = partial(self._use, "full_disks", self.world.fill_disk, proxy)
            actions.append((f"{name}'s disk is full", full, 0.15))
        return actions

    @staticmethod
    def _pause(proxy: SimProxy) -> None:
        proxy.stopped = True

    def _looks(self, proxy: SimProxy) -> None:
        proxy.worker.look()
        if "never_alone" not in self.world.faults:
            late = [write for write in self.world.unanswered(proxy) if self.world.waits_ns(write) > self.world.bound_ns]
            assert not late, f"{late} wait for too long"

    def heal(self) -> None:
        """Everything goes on, and nothing breaks any more, for as long as a question may wait."""
        world = self.world
        self.left = dict.fromkeys(LIMITED, 0)
        for proxy in [one for one in world.proxies if one.up]:
            if proxy.stopped:
                proxy.go_on()
            if proxy.page[Slot.UNFENCED] & 1:
                world.settle(proxy)
            proxy.worker.connect()
            self.look_up(proxy)
        world.calm(2 + world.bound_ns // (20 * MS))

    def _write(self, proxy: SimProxy) -> None:
        self.left["writes"] -= 1
        random = self.world.random
        if self.budget.locks and random.random() < 0.4:
            self.world.versions[LOGGED] += 1  # past all proxies
            self.world.write(proxy, LOGGED, random.choice(["lock", "events"]))
        else:
            target = SILENT if self.budget.silent and random.random() < 0.3 else LOGGED
            self.world.write(proxy, target)

    def _told(self, proxy: SimProxy) -> bool:
        """With `forever_down`, everything under way has been acknowledged: what is lost otherwise is a limit."""
        if not self.budget.forever_down:
            return True
        held = {origin for origin, _ in self.world.proxies[1].records.under_way()}
        return all(origin in held for origin, _ in proxy.records.under_way())

    def _crash(self, proxy: SimProxy) -> None:
        self.left["crashes"] -= 1
        self.world.crash(proxy)
        if self.budget.forever_down:
            del self.listed_ns[proxy.name]

    def _restart_peers(self, proxy: SimProxy) -> None:
        self.left["peer_restarts"] -= 1
        self.world.restart_peers(proxy)

    def _stop(self, proxy: SimProxy) -> None:
        self.left["stops"] -= 1
        self.world.stop(proxy)

    def short_time(self) -> None:
        self.world.now_ns += self.world.random.randrange(1, 60) * MS

    def long_time(self) -> None:
        longest = max(REQUEST_TIMEOUT_NS, self.world.times.list_lag_ns) // MS
        self.world.now_ns += self.world.random.randrange(60, longest) * MS
