"""A dispatcher over a real cache with one table, its fences and its page; the test plays the follower."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from hms_cache_proxy.cache import targets
from hms_cache_proxy.cache.changes import Changes
from hms_cache_proxy.cache.reader import CacheReader
from hms_cache_proxy.cache.state import MODE_SERVE, Slot, StatePage
from hms_cache_proxy.cache.writer import CacheWriter
from hms_cache_proxy.config import load
from hms_cache_proxy.consistency.fences import FenceStore
from hms_cache_proxy.methods.decision import ClientCall, ClientSession, Serve
from hms_cache_proxy.methods.dispatch import CacheDispatcher, SharedState, WorkerLinks
from hms_cache_proxy.methods.effects import Peers
from hms_cache_proxy.methods.hot import Sampled, Told
from hms_cache_proxy.methods.learned import dispatcher
from hms_cache_proxy.metrics import WorkerMetrics
from hms_cache_proxy.wire.message import Header, parse_header
from tests.cache.records import DATABASE, IDENTITY, TABLE, database, table
from tests.follower.harness import LONG_MS
from tests.testbed.raw import encode_call

TARGET = targets.table(*TABLE)


def request(seqid: int = 7) -> bytes:
    return encode_call("get_table", DATABASE[1].decode(), TABLE[2].decode(), seqid=seqid)


@dataclass
class Bench:
    """A cache with one table, its fences, and a dispatcher."""

    page: StatePage
    writer: CacheWriter
    reader: CacheReader
    fences: FenceStore
    dispatcher: CacheDispatcher
    metrics: WorkerMetrics
    woken: list[int]  # when the dispatcher has woken the follower, time.monotonic_ns()
    samples: deque[Sampled]  # of the hot path's answers
    session: ClientSession = field(default_factory=ClientSession)
    cursor: int = 10

    def step(self, changes: Changes | None = None, *, tickets: bool = True) -> None:
        """What the follower does: take tickets, commit, publish."""
        began_ns = self.page[Slot.LOOKING_NS] = time.monotonic_ns()
        last, _ = self.fences.pending_tickets()
        if changes is not None or last > self.writer.meta.done_ticket:
            new = changes or Changes(cursor=self.cursor)
            self.cursor = new.cursor
            if tickets:
                new.done_ticket = last
            self.writer.commit(new)
        self.page[Slot.BEGAN_NS] = began_ns
        if tickets:
            self.fences.done(last)

    def hot(self, message: bytes | None = None) -> bytes | None:
        return self.dispatcher.hot(self.session, message or request(), time.monotonic_ns())

    def decide(self, message: bytes | None = None, session: ClientSession | None = None) -> bytes:
        """The long way, which must answer from the cache."""
        whole = message or request()
        header = parse_header(whole)
        assert isinstance(header, Header)
        decision = self.dispatcher.decide(ClientCall.of(session or self.session, header, whole, time.monotonic_ns()))
        assert isinstance(decision, Serve) and isinstance(decision.chunks, bytes), decision
        return decision.chunks


class Listening(NamedTuple):
    """Who else hears of the calls: other proxies, and those who are told of the hot path's answers."""

    peers: Peers | None = None
    told: tuple[Told, ...] = ()


NOBODY = Listening()


@contextmanager
def opened(directory: Path, listening: Listening = NOBODY, /, **settings: object) -> Iterator[Bench]:
    """A bench in this directory. Nothing confirms its cache but the test's steps, however long they take."""
    given: dict[str, object] = {"upstream": "thrift://127.0.0.1:1", "max_unconfirmed_ms": LONG_MS, **settings}
    config = load(cli={"data_dir": str(directory), **given})
    with StatePage(directory / "state", create=True) as page:
        writer = CacheWriter.open(directory / "cache", page, IDENTITY)
        reader = CacheReader(directory / "cache", page, directory / "uses")
        fences = FenceStore(directory / "fences", page, fleet=bool(config.peers))
        metrics = WorkerMetrics()
        woken: list[int] = []
        state = SharedState(page, reader, fences)
        links = WorkerLinks(lambda: woken.append(time.monotonic_ns()), peers=listening.peers, told=listening.told)
        chosen = dispatcher(config, state, metrics, links)
        bench = Bench(page, writer, reader, fences, chosen, metrics, woken, links.samples)
        complete = {targets.databases(b"hive"), targets.tables(*DATABASE)}
        bench.step(Changes(cursor=10, databases={DATABASE: database()}, tables={TABLE: table()}, complete=complete))
        page[Slot.SERVE_MODE] = MODE_SERVE
        yield bench
        fences.close()
        reader.close()
        writer.close()
