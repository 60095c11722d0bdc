"""A dispatcher in the test's own process, over a real cache that a real follower process keeps, with the real metastore
behind it: the server's part, without connections.

Job: send requests the way a worker does and say who answered. Must not know: how decisions are made.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from hms_cache_proxy.cache.reader import CacheReader
from hms_cache_proxy.cache.state import StatePage
from hms_cache_proxy.config import Config, paths
from hms_cache_proxy.consistency.fences import FenceStore
from hms_cache_proxy.methods.decision import ClientCall, ClientSession, Forward, Serve, Wait, Work
from hms_cache_proxy.methods.dispatch import CacheDispatcher, SharedState, WorkerLinks
from hms_cache_proxy.metrics import WorkerMetrics
from hms_cache_proxy.server.waker import Waker
from hms_cache_proxy.wire.message import Header, parse_header
from tests.follower.harness import Followed
from tests.methods.oracle import Oracle, Reply, parsed, request, seqid_of
from tests.methods.world import World


@dataclass(frozen=True, slots=True)
class Asked:
    """One call: its reply, who gave it (hot, hit or the Forward's outcome) and why."""

    reply: Reply
    by: str
    reason: str


def followed_over(world: World, directory: Path, **settings: Any) -> Followed:
    """A data directory that a follower keeps with what belongs to a world. Settings are the defaults, except that reads
    of transactional tables without a proof are relayed, so that a test sees which they are."""
    given = {
        "store_url": world.store_url,
        "upstream": f"thrift://{world.address}",
        "include": [f"{world.prefix}*.*"],
        "transactional_reads": "passthrough",
    }
    return Followed(directory, **{**given, **settings})


class Opened(Protocol):
    """What a worker opens; Followed and Filled have it."""

    config: Config
    page: StatePage
    fences: FenceStore
    reader: CacheReader


class Local:
    """One client connection to a dispatcher."""

    def __init__(self, followed: Opened, oracle: Oracle, dispatcher: CacheDispatcher, waker: Waker) -> None:
        self.followed: Any = followed  # Followed, or Filled: tests know which
        self.oracle = oracle
        self.dispatcher = dispatcher
        self.waker = waker
        self.session = ClientSession()
        self._seqid = 100

    @classmethod
    def connect(cls, followed: Opened, address: str, metrics: WorkerMetrics) -> Local:
        config, page = followed.config, followed.page
        waker = Waker(paths.follower_socket(config))
        shared = SharedState(page, followed.reader, followed.fences)
        dispatcher = CacheDispatcher(config, shared, metrics, WorkerLinks(waker.wake))
        return cls(followed, Oracle(address), dispatcher, waker)

    def with_settings(self, **settings: Any) -> Local:
        """A connection to a dispatcher of its own, over the same cache."""
        followed = self.followed
        shared = SharedState(followed.page, followed.reader, followed.fences)
        config = replace(followed.config, **settings)
        dispatcher = CacheDispatcher(config, shared, WorkerMetrics(), WorkerLinks(self.waker.wake))
        return Local(followed, self.oracle, dispatcher, self.waker)

    def another(self) -> Local:
        """A second connection to the same dispatcher."""
        return Local(self.followed, self.oracle, self.dispatcher, self.waker)

    def close(self) -> None:
        """Close the connection to the metastore, and the waker."""
        self.oracle.close()
        self.waker.close()

    def ask(self, method: str, **arguments: Any) -> Asked:
        """Call a method."""
        self._seqid += 1
        message = request(method, arguments, self._seqid)
        now_ns = time.monotonic_ns()
        hot = self.dispatcher.hot(self.session, message, now_ns)
        if hot is not None:
            return Asked(self._parsed(method, hot), "hot", "")
        header = parse_header(message)
        assert isinstance(header, Header)
        decision = self._decided(header, message, now_ns)
        if isinstance(decision, Serve):
            whole = decision.chunks if isinstance(decision.chunks, bytes) else b"".join(decision.chunks)
            return Asked(self._parsed(method, whole), "hit", decision.reason)
        return self._forward(method, message, decision)

    def _decided(self, header: Header, message: bytes, arrived_ns: int) -> Serve | Forward:
        """As a server asks: one that has to wait is asked about again when the follower has moved, or in the end."""
        dispatcher, session = self.dispatcher, self.session
        decision = dispatcher.decide(ClientCall.of(session, header, message, arrived_ns, patient=True))
        while isinstance(decision, Wait):
            patient = True
            while dispatcher.moved() == decision.seen and patient:
                time.sleep(0.0005)
                patient = time.monotonic_ns() < decision.until_ns
            decision = dispatcher.decide(ClientCall.of(session, header, message, arrived_ns, patient=patient))
        if not isinstance(decision, Work):
            return decision
        found = decision.step()
        while found is None:
            found = decision.step()
        assert isinstance(found, Serve | Forward)
        return found

    def _forward(self, method: str, message: bytes, forward: Forward) -> Asked:
        session = self.session
        forward.pending.sending()
        whole = (self.oracle.call_again if forward.retry else self.oracle.call)(message)
        forward.pending.reply_began(session, time.monotonic_ns())
        held = whole if 0 < len(whole) <= forward.hold_bytes else None
        forward.pending.reply_done(session, held, time.monotonic_ns())
        return Asked(self._parsed(method, whole), forward.outcome, forward.reason)

    def _parsed(self, method: str, message: bytes) -> Reply:
        assert seqid_of(message) == self._seqid
        return parsed(method, message)
