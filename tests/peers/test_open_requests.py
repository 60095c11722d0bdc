"""Questions of workers that come before the peers' process takes part."""

from __future__ import annotations

from hms_cache_proxy.peers.fleet import Fleet, OwnMember
from hms_cache_proxy.peers.open_requests import MOST_EARLY, WorkerDesk
from hms_cache_proxy.peers.protocol import FleetTimes, MayLeave
from hms_cache_proxy.peers.requests import PeerAsk, PeerRequest
from tests.peers.world import World

OWN = b"o" * 16
S = 10**9


class Worker:
    """Its end of the connection."""

    def __init__(self) -> None:
        self.answers: list[int] = []

    def answer(self, token: int) -> None:
        self.answers.append(token)


def test_early_questions_are_answered_and_do_not_pile_up() -> None:
    """The database may be away for days while the metastore is written through this proxy: workers then let writes
    leave by the state page, and tell of the end of each."""
    desk, worker = WorkerDesk(), Worker()
    for token in range(1, 5 * MOST_EARLY):
        desk.asked(worker, token, PeerRequest(PeerAsk.WRITE, token, (b"tx",)), 100 * S)
        if token < 4 * MOST_EARLY:
            desk.asked(worker, 0, PeerRequest(PeerAsk.OVER, token), 100 * S)
    assert len(desk._early) == MOST_EARLY
    proxy = World(0, 1).proxies[0]
    proxy.incarnation = OWN
    fleet = Fleet(OwnMember(OWN, "own:1", b"m", 0), proxy.records, FleetTimes(list_lag_ns=0))
    desk.open(fleet, 100 * S)
    fleet.listed([], 100 * S)
    for command in fleet.take():
        if isinstance(command, MayLeave):
            desk.may_leave(command.token)
    assert worker.answers == list(range(4 * MOST_EARLY, 5 * MOST_EARLY))
