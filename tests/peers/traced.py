"""A simulated fleet whose events are written down, as tests/history/planted/fleet_trace.py does it for real ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from hms_cache_proxy.cache.targets import Target
from hms_cache_proxy.consistency.peer_fences import Origin
from hms_cache_proxy.server.peers_link import PeersLink
from tests.history.planted.fleet_trace import Watch
from tests.peers import calm, scenarios, sim_workers, test_rules, world
from tests.peers.pair_replay import Event, Replay
from tests.peers.sim_fleet import SimFleet
from tests.peers.sim_records import REQUEST_TIMEOUT_NS, SimRecords
from tests.peers.world import SimProxy, SimWrite, World


class Recorder:
    """The events of all worlds that are made under `patch`; `replay` looks at those of the last one."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.events: list[Event] = []
        self.proxies: dict[str, SimProxy] = {}
        self.world: World | None = None
        say, recorder = self.say, self

        class TracedFleet(SimFleet):
            pass

        class TracedLink(PeersLink):
            pass

        class TracedRecords(SimRecords):
            def begin(self, targets: tuple[Target, ...]) -> int:
                number = super().begin(targets)
                say(self._proxy.incarnation.hex(), "raised", [number])
                return number

            def hold(self, via: bytes, origin: Origin, targets: Sequence[Target]) -> None:
                say(self._proxy.incarnation.hex(), "holds", [via.hex(), origin.incarnation.hex(), origin.number])
                super().hold(via, origin, targets)

            def release(self, via: bytes, origin: Origin, *, executed: bool = True) -> None:
                say(self._proxy.incarnation.hex(), "releases", [via.hex(), origin.incarnation.hex(), origin.number])
                super().release(via, origin, executed=executed)

            def finish(self, number: int, *, silent: bool) -> None:
                say(self._proxy.incarnation.hex(), "over", [number])
                super().finish(number, silent=silent)

            def expire(self, now_ns: int) -> None:
                before = {key for key, fence in self.fences.items() if fence.ticket is None}
                super().expire(now_ns)
                for key in before:
                    if self.fences[key].ticket is not None:
                        say(self._proxy.incarnation.hex(), "expires", plain(key))

            def missed(self, via: bytes) -> None:
                before = {key for key, fence in self.fences.items() if fence.ticket is None}
                super().missed(via)
                for key in before:
                    if self.fences[key].ticket is not None:
                        say(self._proxy.incarnation.hex(), "expires", plain(key))

        class TracedProxy(SimProxy):
            def start_peers(self) -> None:
                recorder.proxies[self.incarnation.hex()] = self
                recorder.clocks[self.incarnation.hex()] = (self.offset_ns, self.rate)
                super().start_peers()

        class TracedWorld(World):
            def __init__(self, *arguments: Any, **named: Any) -> None:
                recorder.events.clear()
                recorder.world = self
                super().__init__(*arguments, **named)

            def begin_step(self, proxy: SimProxy) -> None:
                super().begin_step(proxy)
                say(proxy.incarnation.hex(), "step_begins", [])

            def end_step(self, proxy: SimProxy) -> None:
                before = set(proxy.records.fences)
                super().end_step(proxy)
                gone = before - set(proxy.records.fences)
                say(proxy.incarnation.hex(), "step_ends", [plain(key) for key in sorted(gone)])

            def leave(self, write: SimWrite) -> None:
                say(write.incarnation.hex(), "goes", [write.number])  # also one whose worker has not asked
                super().leave(write)

            def crash(self, proxy: SimProxy) -> None:
                say(proxy.incarnation.hex(), "crashes", [])
                super().crash(proxy)

            def stop(self, proxy: SimProxy) -> None:
                super().stop(proxy)
                say(proxy.incarnation.hex(), "crashes", [])

        self.clocks: dict[str, tuple[int, float]] = {}
        watch = Watch(say)
        watch.fleet(TracedFleet)
        watch.link(TracedLink, lambda link: link._clock_ns.__self__.incarnation.hex())
        patch.setattr(world, "SimFleet", TracedFleet)
        patch.setattr(world, "SimRecords", TracedRecords)
        patch.setattr(world, "SimProxy", TracedProxy)
        patch.setattr(sim_workers, "PeersLink", TracedLink)
        for module in (calm, scenarios, test_rules):
            patch.setattr(module, "World", TracedWorld)

    def say(self, who: str, kind: str, arguments: list[Any]) -> None:
        assert self.world is not None
        self.events.append((self.world.now_ns, who, kind, arguments))

    def clock(self, who: str, at: int) -> int:
        offset_ns, rate = self.clocks[who]
        return offset_ns + int(at * rate)

    def replay(self, *, fixed: bool) -> Replay:
        """`fixed`: everybody is in everybody's list from the beginning."""
        assert self.world is not None
        times = self.world.times
        replay = Replay(
            hold=REQUEST_TIMEOUT_NS,
            write_age=times.write_age_ns if fixed else -(10**18),
            outlasted=times.outlasted,
            clock=self.clock,
            steps=True,
        )
        replay.run(self.events)
        return replay


def plain(key: tuple[bytes, Origin]) -> list[Any]:
    """A fence's key, as it is written down."""
    via, origin = key
    return [via.hex(), origin.incarnation.hex(), origin.number]
