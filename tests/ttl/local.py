"""A dispatcher of TTL mode in the test's own process, over an embedded metastore in the same process: the server's
part, without connections.

Job: send requests the way a worker does, and say who answered and in how many turns of the loop. Must not know: how
decisions are made.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic_ns, perf_counter_ns

from hms_cache_proxy.methods.decision import ClientCall, Decision, Forward, Serve, Wait, Work
from hms_cache_proxy.wire.message import Header, parse_header
from tests.follower.stepping import Catalog
from tests.ttl.bench import Bench, opened


@dataclass
class Asked:
    """One call: its reply, who gave it (hit or the Forward's outcome), and how long each turn of the loop took."""

    reply: bytes = b""
    by: str = ""
    turns_ns: list[int] = field(default_factory=list)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """The block is one."""
        began_ns = perf_counter_ns()
        yield
        self.turns_ns.append(perf_counter_ns() - began_ns)


@dataclass
class LocalTtl(Bench):
    """The dispatcher, and the metastore."""

    catalog: Catalog = field(kw_only=True)

    def begin(self, message: bytes) -> Decision:
        """The first turn of a call."""
        header = parse_header(message)
        assert isinstance(header, Header)
        return self.dispatcher.decide(ClientCall.of(self.session, header, message, monotonic_ns(), patient=True))

    def ask(self, message: bytes) -> Asked:
        """Call a method."""
        asked = Asked()
        with asked.turn():
            decision = self.begin(message)
        while isinstance(decision, Work):
            with asked.turn():
                decision = decision.step() or decision
        assert not isinstance(decision, Wait), "nobody else loads anything"
        if isinstance(decision, Serve):
            asked.by = "hit"
            asked.reply = b"".join(self._pieces(asked, decision))
        else:
            asked.by = decision.outcome
            asked.reply = self._forward(asked, message, decision)
        return asked

    def _pieces(self, asked: Asked, served: Serve) -> Iterator[bytes]:
        """Each slice of a reply is a turn."""
        chunks = iter([served.chunks] if isinstance(served.chunks, bytes) else served.chunks)
        piece: bytes | None = b""
        while piece is not None:
            yield piece
            with asked.turn():
                piece = next(chunks, None)

    def _forward(self, asked: Asked, message: bytes, forward: Forward) -> bytes:
        pending, question = forward.pending, forward.ask
        while question is not None:
            pending.sending()
            reply = self.catalog.reply(question.message)
            with asked.turn():
                step = pending.answered(reply if len(reply) <= question.hold_bytes else None)
            if isinstance(step, bytes):
                return step
            question = step
        pending.sending()
        whole = self.catalog.reply(message)
        pending.reply_began(self.session, monotonic_ns())
        with asked.turn():
            pending.reply_done(self.session, whole if len(whole) <= forward.hold_bytes else None, monotonic_ns())
        return whole


@contextmanager
def answering(directory: Path, **settings: object) -> Iterator[LocalTtl]:
    """In a new directory, or one that was closed, as it was left."""
    with Catalog(directory) as catalog, opened(directory, settings) as bench:
        yield LocalTtl(bench.cache, bench.metrics, bench.dispatcher, bench.suspension, catalog=catalog)
