"""A dispatcher of TTL mode in the test's own process, over an embedded metastore in the same process: the server's
part, without connections.

Job: send requests the way a worker does, and say who answered and in how many turns of the loop. Must not know: how
decisions are made.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hms_cache_proxy.cache.state import StatePage
from hms_cache_proxy.cache.ttl import TtlCache, bounds_of
from hms_cache_proxy.config import load, paths
from hms_cache_proxy.consistency.processes import started
from hms_cache_proxy.consistency.suspension import Suspension
from hms_cache_proxy.methods.decision import Ask, ClientSession, Decision, Forward, Serve, Work
from hms_cache_proxy.methods.ttl.dispatcher import LoadingDispatcher
from hms_cache_proxy.metrics import WorkerMetrics
from hms_cache_proxy.wire import spec
from hms_cache_proxy.wire.message import Header, MessageType, message_header, parse_header
from tests.follower.stepping import Catalog
from tests.testbed.closing import Closing


def call(name: str, /, **arguments: Any) -> bytes:
    """A request."""
    return message_header(name.encode(), MessageType.CALL, 7) + spec.encode(spec.args(name)(**arguments))


@dataclass
class Asked:
    """One call: its reply, who gave it (hit or the Forward's outcome), and how long each turn of the loop took."""

    reply: bytes
    by: str
    turns_ns: list[int] = field(default_factory=list)


class TtlBench(Closing):
    """A data directory, the dispatcher of one worker, and a client of it. A directory that was closed is opened again
    as it was left."""

    def __init__(self, directory: Path, **settings: object) -> None:
        directory.mkdir(exist_ok=True)
        self.catalog = Catalog(directory)
        given = {"data_dir": str(directory), "store": "none", "upstream": "thrift://127.0.0.1:1", "ttl.enabled": True}
        config = load(cli={**given, **settings})
        there = paths.ttl(config).exists()
        self.page = StatePage(paths.state(config), create=not there)
        self.suspension = Suspension(self.page)
        opened = TtlCache if there else TtlCache.create
        self.cache = opened(paths.ttl(config), bounds_of(config.ttl), started)
        self.dispatcher = LoadingDispatcher(config, self.cache, WorkerMetrics(), lambda: None, self.suspension)
        self.session = ClientSession()

    def close(self) -> None:
        self.cache.close()
        self.suspension.close()
        self.page.close()
        self.catalog.close()

    def ask(self, message: bytes) -> Asked:
        """Call a method."""
        header = parse_header(message)
        assert isinstance(header, Header)
        asked = Asked(b"", "")
        decision: Decision | None = Work(
            lambda: self.dispatcher.decide(self.session, header, message, time.monotonic_ns(), patient=True)
        )
        while isinstance(decision, Work):
            work = decision
            with timed(asked):
                decision = work.step() or work
        if isinstance(decision, Serve):
            asked.by = "hit"
            asked.reply = b"".join(self._pieces(asked, decision))
        else:
            assert isinstance(decision, Forward), decision
            asked.by = decision.outcome
            asked.reply = self._forward(asked, message, decision)
        return asked

    def _pieces(self, asked: Asked, served: Serve) -> Iterator[bytes]:
        """Each slice of a reply is a turn."""
        if isinstance(served.chunks, bytes):
            yield served.chunks
            return
        chunks = iter(served.chunks)
        while True:
            with timed(asked):
                piece = next(chunks, None)
            if piece is None:
                return
            yield piece

    def _forward(self, asked: Asked, message: bytes, forward: Forward) -> bytes:
        pending, session, question = forward.pending, self.session, forward.ask
        assert pending.leaving() is None, "no peers"
        while question is not None:
            pending.sending()
            reply = self.catalog.reply(question.message)
            with timed(asked):
                step = pending.answered(reply if len(reply) <= question.hold_bytes else None)
            if isinstance(step, bytes):
                return step
            assert step is None or isinstance(step, Ask)
            question = step
        pending.sending()
        whole = self.catalog.reply(message)
        pending.reply_began(session, time.monotonic_ns())
        with timed(asked):
            pending.reply_done(session, whole if len(whole) <= forward.hold_bytes else None, time.monotonic_ns())
        return whole


@contextmanager
def timed(asked: Asked) -> Iterator[None]:
    """Adds the time of its block to the turns of a call."""
    began_ns = time.perf_counter_ns()
    yield
    asked.turns_ns.append(time.perf_counter_ns() - began_ns)
