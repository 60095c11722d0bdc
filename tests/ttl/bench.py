"""A dispatcher of TTL mode without a server: requests are decided on, and replies are handed to what was decided."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic_ns

from hms_cache_proxy.cache.state import StatePage
from hms_cache_proxy.cache.ttl import TtlCache, bounds_of
from hms_cache_proxy.config import load
from hms_cache_proxy.consistency.processes import started
from hms_cache_proxy.consistency.suspension import Suspension
from hms_cache_proxy.methods.decision import ClientCall, ClientSession, Forward, Serve, Wait, Work
from hms_cache_proxy.methods.ttl.dispatcher import LoadingDispatcher
from hms_cache_proxy.metrics import WorkerMetrics
from hms_cache_proxy.wire import spec
from hms_cache_proxy.wire.message import Header, MessageType, message_header, parse_header

PAGE_BYTES = 4096
GIVEN = {"store": "none", "ttl.enabled": True, "ttl.ttl": "1h", "read_methods": "get_vendor_facts, get_more"}


def call(method: str, **arguments: object) -> tuple[Header, bytes]:
    message = message_header(method.encode(), MessageType.CALL, 7) + spec.encode(spec.args(method)(**arguments))
    header = parse_header(message)
    assert isinstance(header, Header)
    return header, message


def reply(method: str, success: object) -> bytes:
    return message_header(method.encode(), MessageType.REPLY, 7) + spec.encode(spec.result(method)(success=success))


def listing(names: list[bytes]) -> bytes:
    """The reply to the call that `Bench.decide` makes."""
    return reply("get_all_tables", names)


@dataclass
class Bench:
    """The dispatcher, and what it works on."""

    cache: TtlCache
    metrics: WorkerMetrics
    dispatcher: LoadingDispatcher
    suspension: Suspension
    session: ClientSession = field(default_factory=ClientSession)

    def asked(self, session: ClientSession, method: str, **arguments: object) -> Serve | Forward | Wait:
        header, message = call(method, **arguments)
        decision = self.dispatcher.decide(ClientCall.of(session, header, message, monotonic_ns()))
        while isinstance(decision, Work):
            decision = decision.step() or decision
        return decision

    def decide(self) -> object:
        return self.asked(self.session, "get_all_tables", db_name=b"d")

    def fill_the_disk(self) -> None:
        """LMDB has no room for another page."""
        env = self.cache._env
        env.set_mapsize((env.info()["last_pgno"] + 1) * PAGE_BYTES)

    def make_room(self) -> None:
        """There is room again."""
        self.cache._env.set_mapsize(1 << 30)

    @property
    def errors(self) -> float:
        return self.metrics.registry.get_sample_value("hms_proxy_internal_errors_total", {"where": "ttl"}) or 0


@contextmanager
def opened(directory: Path, settings: Mapping[str, object] = GIVEN) -> Iterator[Bench]:
    """In a new directory, or one that was closed, as it was left. `settings`: besides, or instead of, GIVEN."""
    config = load(cli={**GIVEN, **settings})
    there = (directory / "ttl").exists()
    cache = (TtlCache if there else TtlCache.create)(directory / "ttl", bounds_of(config.ttl), started)
    metrics = WorkerMetrics()
    with StatePage(directory / "state", create=not there) as page:
        suspension = Suspension(page)
        yield Bench(cache, metrics, LoadingDispatcher(config, cache, metrics, lambda: None, suspension), suspension)
        suspension.close()
    cache.close()
