"""A playbook of connection logic: events in, commands out, and the order of the dispatcher's hooks. No sockets."""

from __future__ import annotations

import struct
from dataclasses import replace

from hms_cache_proxy.methods.decision import (
    BaseDispatcher,
    ClientCall,
    ClientSession,
    Forward,
    Pending,
    Serve,
    Wait,
    Work,
)
from hms_cache_proxy.metrics import Outcome
from hms_cache_proxy.peers.requests import PeerRequest
from hms_cache_proxy.server.commands import (
    Command,
    Observe,
    OpenUpstream,
    Send,
    SendUpstream,
)
from hms_cache_proxy.server.connection import ClientConnection
from hms_cache_proxy.server.connection_settings import ConnectionSettings
from hms_cache_proxy.server.inbox import Request
from hms_cache_proxy.server.spool import SpoolRoom
from hms_cache_proxy.upstream.endpoints import Endpoints
from hms_cache_proxy.wire.message import Header, MessageLimits, parse_header
from tests.testbed.raw import encode_call

SECOND = 1_000_000_000
READ = encode_call("get_all_databases", seqid=5)
RELAY = Forward(label="get_all_databases", outcome="relay")


def over(label: str, outcome: Outcome, reason: str, reply_bytes: int) -> Observe:
    """What is told of a call that began when the book did. (Which request it was does not count when compared.)"""
    header = parse_header(READ)
    assert isinstance(header, Header)
    return Observe(label, outcome, reason, SECOND, reply_bytes, Request(header, READ))


class Recorder(BaseDispatcher, Pending):
    """A dispatcher that does as it is told and notes what it hears of a forwarded call."""

    def __init__(self) -> None:
        self.decision: Serve | Forward | Wait | Work = RELAY
        self.patience: list[bool] = []
        self.hooks: list[tuple[object, ...]] = []
        self.seen: list[bytes] = []
        self.asks: PeerRequest | None = None
        self.passing: PeerRequest | None = None

    def decide(self, call: ClientCall) -> Serve | Forward | Wait | Work:
        self.seen.append(call.message)
        self.patience.append(call.patient)
        decision = self.decision
        return replace(decision, pending=self) if isinstance(decision, Forward) else decision

    def leaving(self) -> PeerRequest | None:
        return self.asks

    def sending(self) -> None:
        self.hooks.append(("sending",))

    def reply_began(self, session: ClientSession, now_ns: int) -> None:
        self.hooks.append(("began",))

    def reply_done(self, session: ClientSession, reply: bytes | None, now_ns: int) -> None:
        session.passing = self.passing
        self.hooks.append(("done", reply))

    def failed(self, sent: bool) -> None:
        self.hooks.append(("failed", sent))


class Playbook:
    """A connection, its dispatcher, and a clock that is moved by hand."""

    def __init__(
        self, *, upstreams: int = 2, idle_s: int = 60, request_s: int = 10, room: SpoolRoom | None = None
    ) -> None:
        self.now = SECOND
        self.dispatcher = Recorder()
        self.endpoints = Endpoints([("one", 1), ("two", 2)][:upstreams])
        settings = ConnectionSettings(
            limits=MessageLimits(),
            idle_timeout_ns=idle_s * SECOND,
            request_timeout_ns=request_s * SECOND,
            room=room or SpoolRoom(),
        )
        self.core = ClientConnection(
            dispatcher=self.dispatcher, endpoints=self.endpoints, settings=settings, peer="", now_ns=self.now
        )

    def received(self, data: bytes) -> list[Command]:
        return self.core.received(data, self.now)

    def opened(self) -> list[Command]:
        return self.core.upstream_opened(self.now)

    def upstream(self, data: bytes) -> list[Command]:
        return self.core.upstream_received(data, self.now)

    def relaying(self, request: bytes = READ) -> None:
        """Go to where the request is out."""
        commands = self.received(request)
        if OpenUpstream in kinds(commands):
            commands = self.opened()
        assert kinds(commands)[-1] is SendUpstream


def kinds(commands: list[Command]) -> list[type]:
    return [type(command) for command in commands]


def sent(commands: list[Command]) -> bytes:
    """What goes to the client."""
    return b"".join(command.data for command in commands if isinstance(command, Send))


def reply_to(request: bytes, *, size: int = 10, kind: int = 2) -> bytes:
    """A reply that holds one string."""
    (length,) = struct.unpack_from(">i", request, 4)
    head = request[:3] + bytes([kind]) + request[4 : 12 + length]
    return head + struct.pack(">Bhi", 11, 0, size) + b"x" * size + b"\0"


def framed(message: bytes) -> bytes:
    return struct.pack(">i", len(message)) + message


def exception(request: bytes, kind: int, text: bytes) -> bytes:
    """A TApplicationException in answer."""
    head = reply_to(request, kind=3)[:-18]
    return head + struct.pack(">Bhi", 11, 1, len(text)) + text + struct.pack(">Bhi", 8, 2, kind) + b"\0"


def exception_in(commands: list[Command]) -> bytes:
    """The client got one as its whole answer."""
    data = sent(commands)
    assert data[3] == 3, data
    return data


REPLY = reply_to(READ)
