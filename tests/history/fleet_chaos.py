"""Disturb a fleet while a history is made: what `Chaos` does, and ways between proxies that are closed, in both
directions or one; proxies that are stopped with all their processes, killed, restarted in turn, leave and join.

`ways` has the TCP proxy through which one proxy (by its number) dials another. The last proxy is `spare` if there is
one: only it leaves and joins. Every kind of disturbance happens once before one happens again. At the end, all proxies
run.
"""

from __future__ import annotations

import random
import shutil
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tests.history.chaos import Chaos
from tests.proxy import Proxy
from tests.testbed.fault_proxy import Direction, FaultProxy
from tests.testbed.processes import signalled

MOST_DELAY_S = 0.005
"""On the way between two proxies."""

Ways = Mapping[tuple[int, int], FaultProxy]


def delay(way: FaultProxy) -> None:
    """Some time on the way between two proxies."""
    way.delay(random.uniform(0, MOST_DELAY_S))


@dataclass(frozen=True, slots=True)
class Restarts:
    """How proxies are restarted. `start` starts one again, in a thread that does not end with the chaos: processes end
    with the thread that has started them (tests/proxy.py). `ending` is told of a proxy that is about to end.
    `peers_of`: the list of a proxy, by its number, with the spare one or without; None: there is no spare one, and none
    is restarted in good order."""

    start: Callable[[Proxy], object]
    ending: Callable[[Proxy], None]
    peers_of: Callable[[int, bool], str] | None


class FleetChaos(Chaos):
    """One thread that disturbs a fleet."""

    STOP_S = 900.0  # a disturbance that restarts all proxies, on a busy machine

    def __init__(self, proxies: list[Proxy], ways: Ways, restarts: Restarts, *, every_s: float, kill: bool) -> None:
        super().__init__(proxies, every_s=every_s, kill=kill)
        self.ways, self._restarts = ways, restarts
        self._actions += [self.pause_follower] * 2 + [self.part] * 2
        self._actions += [self.part_one_way, self.cut_off, self.cut, self.pause_peers, self.pause_all]
        if kill:
            self._actions += [self.kill_peers, self.kill_all]
        if kill and restarts.peers_of is not None:
            self._actions += [self.restart_in_turn, self.leave_and_come_back, self.leave_and_join]
        self._deck: list[Callable[[Proxy], None]] = []

    def next_action(self) -> Callable[[Proxy], None]:
        if not self._deck:
            self._deck = random.sample(self._actions, len(self._actions))
        return self._deck.pop()

    # ways between proxies

    def part(self, _proxy: Proxy) -> None:
        """Some ways between proxies are closed for longer than a lease."""
        self._closed(
            [(way, None) for way in random.sample(list(self.ways.values()), random.randint(1, len(self.ways)))]
        )

    def part_one_way(self, _proxy: Proxy) -> None:
        """What one proxy sends does not reach another one; what that one sends arrives."""
        sender, receiver = random.sample(range(len(self.proxies)), 2)
        self._closed([(self.ways[sender, receiver], Direction.UP), (self.ways[receiver, sender], Direction.DOWN)])

    def cut_off(self, proxy: Proxy) -> None:
        """One proxy is alone."""
        number = self.proxies.index(proxy)
        self._closed([(way, None) for pair, way in self.ways.items() if number in pair])

    def _closed(self, chosen: list[tuple[FaultProxy, Direction | None]]) -> None:
        for way, direction in chosen:
            way.stall(direction)
        time.sleep(random.uniform(0.2, 6.0))
        for way, _ in chosen:
            way.restore()
            delay(way)

    def cut(self, _proxy: Proxy) -> None:
        random.choice(list(self.ways.values())).cut()

    # processes

    def pause_peers(self, proxy: Proxy) -> None:
        self._stopped(proxy.children()["peers"])

    def pause_all(self, proxy: Proxy) -> None:
        """As when a machine is suspended."""
        assert proxy.process is not None
        self._stopped([proxy.process.pid, *(pid for pids in proxy.children().values() for pid in pids)])

    def _stopped(self, pids: list[int]) -> None:
        signalled(pids, signal.SIGSTOP)
        time.sleep(random.uniform(0.1, 4.0))
        signalled(pids, signal.SIGCONT)

    def kill_peers(self, proxy: Proxy) -> None:
        self._signal(proxy, "peers", signal.SIGKILL)

    # whole proxies

    def kill_all(self, proxy: Proxy) -> None:
        """The supervisor, whose children end with it."""
        self._restarts.ending(proxy)
        proxy.kill()
        time.sleep(random.uniform(0, 4.0))
        self._restarts.start(proxy)

    def restart_in_turn(self, _proxy: Proxy) -> None:
        for proxy in random.sample(self.proxies, len(self.proxies)):
            self._restart(proxy)

    def leave_and_come_back(self, _proxy: Proxy) -> None:
        """Its address stays in all lists, and nobody answers there."""
        self._end_spare()
        time.sleep(random.uniform(0, 8.0))
        self._restarts.start(self.proxies[-1])

    def leave_and_join(self, _proxy: Proxy) -> None:
        """It leaves all lists, and is in all of them again before it starts, without what it knew."""
        self._end_spare()
        for listed in (False, True):
            for proxy in self.proxies[:-1]:
                self._restart(proxy, self._list(proxy, listed))
        shutil.rmtree(self.proxies[-1].directory / "data")
        self._restarts.start(self.proxies[-1])

    def _end_spare(self) -> None:
        spare = self.proxies[-1]
        self._restarts.ending(spare)
        random.choice([spare.stop, spare.kill])()

    def _restart(self, proxy: Proxy, peers: str | None = None) -> None:
        self._restarts.ending(proxy)
        proxy.stop()
        if peers is not None:
            proxy.settings = {**proxy.settings, "PEERS": peers}
        self._restarts.start(proxy)

    def _list(self, proxy: Proxy, with_spare: bool) -> str:
        assert self._restarts.peers_of is not None
        return self._restarts.peers_of(self.proxies.index(proxy), with_spare)
