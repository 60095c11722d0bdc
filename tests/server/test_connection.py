"""Playbooks of connection logic: events in, commands out, and the order of the dispatcher's hooks. No sockets."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace

import pytest

from hms_cache_proxy.errors import CacheError
from hms_cache_proxy.methods.decision import Forward, Serve, Session, Wait
from hms_cache_proxy.server.commands import (
    Again,
    Await,
    Close,
    CloseUpstream,
    Command,
    Observe,
    OpenUpstream,
    Reading,
    ReadingUpstream,
    Send,
    SendUpstream,
    UpstreamTrouble,
    Why,
)
from hms_cache_proxy.server.connection import ClientConnection, Mode, Settings
from hms_cache_proxy.upstream.endpoints import Endpoints
from hms_cache_proxy.wire.message import Header, Limits
from tests.testbed.raw import encode_call

SECOND = 1_000_000_000
READ = encode_call("get_all_databases", seqid=5)
RELAY = Forward(label="get_all_databases", outcome="relay")


class Recorder:
    """A dispatcher that does as it is told and notes the hooks, and how many bytes had left at each."""

    def __init__(self) -> None:
        self.decision: Serve | Forward | Wait = RELAY
        self.patience: list[bool] = []
        self.hooks: list[tuple[object, ...]] = []
        self.seen: list[bytes] = []
        self.broken = False

    def hot(self, session: Session, data: bytes, now_ns: int) -> bytes | None:
        return None

    def moved(self) -> int:
        return 0

    def decide(
        self,
        session: Session,
        header: Header,
        message: bytes,
        now_ns: int,
        *,
        complete: bool = True,
        patient: bool = False,
    ) -> Serve | Forward | Wait:
        self.seen.append(message)
        self.patience.append(patient)
        return self.decision

    def sending(self, session: Session, forward: Forward) -> None:
        if self.broken:
            raise CacheError("disk full")
        self.hooks.append(("sending",))

    def reply_began(self, session: Session, forward: Forward, now_ns: int) -> None:
        self.hooks.append(("began",))

    def reply_done(self, session: Session, forward: Forward, reply: bytes | None, now_ns: int) -> None:
        self.hooks.append(("done", reply))

    def failed(self, session: Session, forward: Forward, sent: bool) -> None:
        self.hooks.append(("failed", sent))


class Playbook:
    """A connection, its dispatcher, and a clock that is moved by hand."""

    def __init__(self, *, upstreams: int = 2, idle_s: int = 60) -> None:
        self.now = SECOND
        self.decider = Recorder()
        self.endpoints = Endpoints([("one", 1), ("two", 2)][:upstreams])
        settings = Settings(limits=Limits(), idle_timeout_ns=idle_s * SECOND, request_timeout_ns=10 * SECOND)
        self.core = ClientConnection(
            decider=self.decider, endpoints=self.endpoints, settings=settings, peer="", now_ns=self.now
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


REPLY = reply_to(READ)


def test_a_relayed_call() -> None:
    book = Playbook()
    assert kinds(book.received(READ)) == [OpenUpstream]
    assert book.decider.hooks == []
    assert book.opened() == [SendUpstream(READ)]
    assert book.decider.hooks == [("sending",)]
    assert book.upstream(REPLY) == [Send(REPLY), Observe("get_all_databases", "relay", "", SECOND)]
    assert book.decider.hooks == [("sending",), ("began",), ("done", None)]
    assert book.core.mode == Mode.HOT
    assert book.received(READ) == [SendUpstream(READ)]


def test_the_mode_is_hot_only_when_nothing_is_pending() -> None:
    book = Playbook()
    assert book.core.mode == Mode.GENERAL
    book.decider.decision = Serve(b"answer", "get_table")
    assert book.received(READ)[0] == Send(b"answer")
    assert book.core.mode == Mode.HOT
    book.received(READ[:5])
    assert book.core.mode == Mode.GENERAL
    book.received(READ[5:])
    assert book.core.mode == Mode.HOT
    book.core.client_blocked()
    assert book.core.mode == Mode.GENERAL
    book.core.client_writable(book.now)
    assert book.core.mode == Mode.HOT
    book.core.drain(book.now)
    assert book.core.mode == Mode.GENERAL


def test_a_framed_connection_is_hot_too_and_its_replies_are_framed() -> None:
    book = Playbook()
    book.decider.decision = Serve(b"answer", "get_table")
    assert sent(book.received(framed(READ))) == framed(b"answer")
    assert book.core.mode == Mode.HOT_FRAMED
    assert book.decider.seen == [READ]


@pytest.mark.parametrize("wrap", [bytes, framed], ids=["unframed", "framed"])
def test_requests_wait_for_the_reply_of_the_one_before(wrap: type[bytes]) -> None:
    book = Playbook()
    requests = [encode_call("get_all_databases", seqid=seqid) for seqid in range(3)]
    book.received(b"".join(wrap(one) for one in requests))
    assert book.opened() == [SendUpstream(requests[0])]
    commands = book.upstream(reply_to(requests[0]))
    assert sent(commands) == wrap(reply_to(requests[0]))
    assert commands[-1] == SendUpstream(requests[1])
    commands = book.upstream(reply_to(requests[1]))
    assert commands[-1] == SendUpstream(requests[2])
    assert sent(book.upstream(reply_to(requests[2]))) == wrap(reply_to(requests[2]))


def test_a_client_that_pipelines_too_much_is_not_read_from() -> None:
    book = Playbook()
    book.relaying()
    flood = encode_call("get_database", "x" * 100_000, seqid=1)
    assert book.received(flood) == []
    assert book.received(flood) == []
    assert book.received(flood) == [Reading(False)]
    assert book.upstream(REPLY)[-2:] == [SendUpstream(flood), Reading(True)]  # two of the three still wait


def test_other_connections_come_between_many_hits_of_one_packet() -> None:
    book = Playbook()
    book.decider.decision = Serve(b"x", "get_table")
    commands = book.received(READ * 70)
    assert kinds(commands).count(Send) == 32
    assert kinds(commands)[-1] in (Again, Reading)
    assert kinds(book.core.turn(book.now)).count(Send) == 32
    assert kinds(book.core.turn(book.now)).count(Send) == 6
    assert book.core.mode == Mode.HOT


def test_a_held_reply_leaves_after_it_was_looked_at() -> None:
    book = Playbook()
    book.decider.decision = replace(RELAY, hold_bytes=1000)
    book.relaying()
    assert book.upstream(REPLY[:20]) == []
    assert book.upstream(REPLY[20:-1]) == []
    assert book.decider.hooks[-1] == ("began",)
    assert sent(book.upstream(REPLY[-1:])) == REPLY
    assert book.decider.hooks[-1] == ("done", REPLY)


def test_a_reply_too_long_to_be_held_is_said_so_before_its_first_byte_leaves() -> None:
    book = Playbook()
    book.decider.decision = replace(RELAY, hold_bytes=100)
    book.relaying()
    reply = reply_to(READ, size=200)
    assert book.upstream(reply[:90]) == []
    assert book.decider.hooks == [("sending",), ("began",)]
    assert sent(book.upstream(reply[90:150])) == reply[:150]
    assert book.decider.hooks == [("sending",), ("began",), ("done", None)]
    assert sent(book.upstream(reply[150:])) == reply[150:]
    assert book.decider.hooks == [("sending",), ("began",), ("done", None)]


def test_a_long_reply_in_one_piece_is_not_held() -> None:
    book = Playbook()
    book.decider.decision = replace(RELAY, hold_bytes=10)
    book.relaying()
    assert sent(book.upstream(REPLY)) == REPLY
    assert book.decider.hooks[-1] == ("done", None)


def test_nothing_leaves_before_the_header_is_known() -> None:
    book = Playbook()
    book.relaying()
    for byte in REPLY[:10]:
        assert book.upstream(bytes([byte])) == []
    assert book.decider.hooks == [("sending",)]
    assert sent(book.upstream(REPLY[10:])) == REPLY


def test_the_metastore_is_not_read_from_while_the_client_is_slow() -> None:
    book = Playbook()
    book.relaying()
    reply = reply_to(READ, size=1000)
    assert sent(book.upstream(reply[:500])) == reply[:500]
    assert book.core.client_blocked() == [ReadingUpstream(False)]
    assert sent(book.upstream(reply[500:600])) == reply[500:600]  # was already on its way
    assert book.core.client_writable(book.now) == [ReadingUpstream(True)]
    assert sent(book.upstream(reply[600:])) == reply[600:]


def test_a_framed_reply_is_spooled_until_its_length_is_known() -> None:
    book = Playbook()
    book.relaying(framed(READ))
    reply = reply_to(READ, size=1000)
    assert book.upstream(reply[:500]) == []
    assert sent(book.upstream(reply[500:])) == framed(reply)


def slices(pieces: list[bytes], turns: list[int]) -> Iterator[bytes]:
    for number, piece in enumerate(pieces):
        turns.append(number)
        yield piece


def test_slices_one_a_turn() -> None:
    book = Playbook()
    turns: list[int] = []
    book.decider.decision = Serve(slices([b"a", b"b", b"c"], turns), "get_partitions")
    assert book.received(READ) == [Send(b"a"), Again()]
    assert turns == [0]
    assert book.core.turn(book.now) == [Send(b"b"), Again()]
    assert book.core.turn(book.now) == [Send(b"c"), Again()]
    assert book.core.turn(book.now) == [Observe("get_partitions", "hit", "", SECOND)]


def test_slices_are_finished_into_the_spool_while_the_client_is_slow() -> None:
    book = Playbook()
    turns: list[int] = []
    book.decider.decision = Serve(slices([b"a", b"b", b"c"], turns), "get_partitions")
    assert book.received(READ + READ)[0] == Send(b"a")
    book.core.client_blocked()
    for _ in range(3):
        assert sent(book.core.turn(book.now)) == b""
    assert turns == [0, 1, 2]  # the iterator is done: no snapshot is held for the client's sake
    book.decider.decision = Serve(b"next", "get_table")
    commands = book.core.client_writable(book.now)
    assert sent(commands) == b"bcnext"  # the next request waited for the spool


def test_slices_for_a_framed_client() -> None:
    book = Playbook()
    book.decider.decision = Serve(iter([b"a", b"b"]), "get_partitions")
    book.received(framed(READ))
    book.core.turn(book.now)
    assert sent(book.core.turn(book.now)) == framed(b"ab")


def exception_in(commands: list[Command]) -> bytes:
    data = sent(commands)
    assert data[3] == 3, data
    return data


def test_no_upstream_at_all() -> None:
    book = Playbook()
    first = book.received(READ)[0]
    assert isinstance(first, OpenUpstream) and first.endpoint.host == "one"
    commands = book.core.upstream_refused("refused", book.now)
    assert kinds(commands) == [UpstreamTrouble, OpenUpstream]
    commands = book.core.upstream_refused("refused", book.now)
    assert b"no metastore can be reached: thrift://one:1: refused; thrift://two:2: refused" in exception_in(commands)
    assert commands[-1] == Observe("get_all_databases", "error", "no_upstream", SECOND)
    assert book.decider.hooks == [("failed", False)]
    assert book.core.mode == Mode.HOT


def test_a_write_whose_connection_dies() -> None:
    book = Playbook()
    book.relaying()
    commands = book.core.upstream_lost("reset", book.now)
    assert kinds(commands) == [UpstreamTrouble, CloseUpstream, Observe, Send] or exception_in(commands)
    assert book.decider.hooks == [("sending",), ("failed", True)]
    assert OpenUpstream in kinds(book.received(READ))


def test_a_read_is_sent_again_once() -> None:
    book = Playbook()
    book.decider.decision = replace(RELAY, retry=True)
    book.relaying()
    assert kinds(book.core.upstream_lost("reset", book.now)) == [UpstreamTrouble, CloseUpstream, OpenUpstream]
    assert book.opened() == [SendUpstream(READ)]
    assert exception_in(book.core.upstream_lost("reset", book.now))
    assert book.decider.hooks == [("sending",), ("sending",), ("failed", True)]


def test_a_read_of_which_a_byte_was_seen_is_not_sent_again() -> None:
    book = Playbook()
    book.decider.decision = replace(RELAY, retry=True)
    book.relaying()
    book.upstream(REPLY[:1])
    assert exception_in(book.core.upstream_lost("reset", book.now))


def test_a_reply_cut_in_the_middle_closes_the_client() -> None:
    book = Playbook()
    book.relaying()
    book.upstream(reply_to(READ, size=1000)[:500])
    commands = book.core.upstream_lost("reset", book.now)
    close = commands[-1]
    assert isinstance(close, Close) and close.why is Why.UPSTREAM
    assert sent(commands) == b""
    assert book.decider.hooks == [("sending",), ("began",), ("failed", True)]
    assert book.core.closed


def test_an_idle_upstream_connection_that_ends_is_nobodys_trouble() -> None:
    book = Playbook()
    book.relaying()
    book.upstream(REPLY)
    assert book.core.upstream_lost("closed", book.now) == [CloseUpstream()]
    assert kinds(book.received(READ)) == [OpenUpstream]


def test_session_calls_are_repeated_first() -> None:
    book = Playbook()
    login = encode_call("set_ugi", "alice", ["g"], seqid=1)
    accepted = reply_to(login)
    book.decider.decision = replace(RELAY, replay=True)
    book.relaying(login)
    book.upstream(accepted)
    book.core.upstream_lost("closed", book.now)
    book.decider.decision = RELAY
    book.received(READ)
    assert book.opened() == [SendUpstream(login)]
    assert book.upstream(accepted) == [SendUpstream(READ)]


def test_a_refused_session_call_closes_the_client() -> None:
    book = Playbook()
    login = encode_call("set_ugi", "alice", ["g"], seqid=1)
    book.decider.decision = replace(RELAY, replay=True)
    book.relaying(login)
    book.upstream(reply_to(login))
    book.core.upstream_lost("closed", book.now)
    book.decider.decision = RELAY
    book.received(READ)
    book.opened()
    commands = book.upstream(reply_to(login).replace(b"\x0b\0\0", b"\x0c\0\1\x0b\0\0", 1) + b"\0")
    assert isinstance(commands[-1], Close) and commands[-1].why is Why.SESSION
    assert SendUpstream not in kinds(commands)
    assert book.decider.hooks[-1] == ("failed", False)


def test_a_session_call_of_unknown_outcome_closes_the_client() -> None:
    book = Playbook()
    book.decider.decision = replace(RELAY, replay=True)
    book.relaying(encode_call("set_ugi", "alice", ["g"], seqid=1))
    close = book.core.upstream_lost("reset", book.now)[-1]
    assert isinstance(close, Close) and close.why is Why.SESSION


def test_a_write_that_cannot_be_fenced_does_not_leave() -> None:
    book = Playbook()
    book.relaying()
    book.upstream(REPLY)
    book.decider.broken = True
    commands = book.received(READ)
    assert b"cannot be kept apart from the cache: disk full" in exception_in(commands)
    assert SendUpstream not in kinds(commands)
    assert book.decider.hooks[-1] == ("failed", False)


def test_time_out_of_the_metastore() -> None:
    book = Playbook()
    book.relaying()
    book.now += 9 * SECOND
    assert book.core.expire(book.now) == []
    book.now += 2 * SECOND
    assert exception_in(book.core.expire(book.now))
    assert book.decider.hooks[-1] == ("failed", True)


def test_a_slow_client_is_not_the_metastores_time_out() -> None:
    book = Playbook()
    book.relaying()
    book.upstream(reply_to(READ, size=1000)[:500])
    book.core.client_blocked()
    book.now += 50 * SECOND
    assert book.core.expire(book.now) == []
    book.now += 20 * SECOND
    close = book.core.expire(book.now)[-1]
    assert isinstance(close, Close) and close.why is Why.IDLE


def test_an_idle_client() -> None:
    book = Playbook()
    book.now += 59 * SECOND
    assert book.core.expire(book.now) == []
    book.now += 2 * SECOND
    (close,) = book.core.expire(book.now)
    assert isinstance(close, Close) and close.why is Why.IDLE


def test_a_write_goes_on_without_its_client_and_a_read_does_not() -> None:
    book = Playbook()
    book.relaying()
    assert book.core.gone(book.now) == [ReadingUpstream(True)]
    assert not book.core.closed
    commands = book.upstream(REPLY)
    assert sent(commands) == b"" and CloseUpstream in kinds(commands)
    assert book.decider.hooks == [("sending",), ("began",), ("done", None)]
    assert book.core.closed

    book = Playbook()
    book.decider.decision = replace(RELAY, retry=True)
    book.relaying()
    assert book.core.gone(book.now) == [CloseUpstream()]
    assert book.core.closed


def test_drain() -> None:
    idle = Playbook()
    assert idle.core.drain(idle.now) == [Close(Why.FINISHED)]
    busy = Playbook()
    busy.relaying()
    assert busy.core.drain(busy.now) == []
    assert kinds(busy.upstream(REPLY)) == [Send, Observe, CloseUpstream, Close]
    halfway = Playbook()
    halfway.received(READ[:10])
    assert halfway.core.drain(halfway.now) == []
    halfway.decider.decision = Serve(b"x", "get_table")
    assert kinds(halfway.received(READ[10:])) == [Send, Observe, Close]


def test_a_oneway_call_has_an_unknown_outcome_and_no_reply() -> None:
    book = Playbook()
    book.relaying()
    book.upstream(REPLY)
    book.decider.hooks.clear()
    assert kinds(book.received(encode_call("shutdown", oneway=True))) == [SendUpstream, Observe]
    assert book.decider.hooks == [("sending",), ("failed", True)]
    assert book.received(READ) == [SendUpstream(READ)]


def test_an_unknown_oneway_call_leaves_its_connection_behind() -> None:
    book = Playbook()
    unknown = READ.replace(b"get_all_databases", b"get_all_databasez")
    book.relaying()
    book.upstream(REPLY)
    commands = book.received(unknown[:3] + b"\4" + unknown[4:])
    assert kinds(commands) == [SendUpstream, CloseUpstream, Observe]


def test_a_method_that_the_metastore_lacks_is_asked_by_its_twin_and_remembered() -> None:
    book = Playbook(upstreams=1)
    request = encode_call("get_table", "db", "t", seqid=7)
    unknown = exception(request, 1, b"Invalid method name: 'get_table'")
    book.decider.decision = replace(RELAY, hold_bytes=1000, retry=True)
    book.relaying(request)
    (again,) = book.upstream(unknown)
    assert isinstance(again, SendUpstream) and b"get_table_req" in again.data
    assert ("began",) not in book.decider.hooks
    table = b"\x0c\0\1" + b"\x0b\0\1\0\0\0\1t" + b"\0"
    twin_reply = reply_to(again.data)[: again.data.index(b"get_table_req") + 17]
    commands = book.upstream(twin_reply + b"\x0c\0\0" + table + b"\0\0")
    expected = reply_to(request)[: request.index(b"get_table") + 13] + b"\x0c\0\0" + table[3:] + b"\0"
    assert sent(commands) == expected
    assert book.decider.hooks[-1] == ("done", expected)
    (straight,) = book.received(request)
    assert isinstance(straight, SendUpstream) and b"get_table_req" in straight.data


def exception(request: bytes, kind: int, text: bytes) -> bytes:
    """A TApplicationException in answer."""
    head = reply_to(request, kind=3)[:-18]
    return head + struct.pack(">Bhi", 11, 1, len(text)) + text + struct.pack(">Bhi", 8, 2, kind) + b"\0"


def test_after_close_no_command_follows() -> None:
    book = Playbook()
    (close,) = book.received(b"GET / HTTP/1.1\r\n")
    assert isinstance(close, Close) and close.why is Why.TRANSPORT and close.key == "http"
    assert book.received(READ) == []
    assert book.core.turn(book.now) == []
    assert book.core.expire(book.now + 1000 * SECOND) == []
    assert book.core.gone(book.now) == []


def test_a_request_waits_for_the_cache() -> None:
    """Wait: asked again when the cache has moved, without patience at the end; later requests keep their order."""
    play = Playbook()
    play.decider.decision = Wait(seen=7, until_ns=play.now + SECOND)
    assert kinds(play.received(READ)) == [Await]
    assert play.received(READ) == []
    play.now += SECOND // 2
    assert kinds(play.core.moved(play.now)) == [Await]
    play.now += SECOND
    play.decider.decision = Serve(b"answer", "get_table")
    assert [one.data for one in play.core.moved(play.now) if isinstance(one, Send)] == [b"answer", b"answer"]
    assert play.decider.patience == [True, True, False, True]


def test_a_client_that_leaves_while_it_waits() -> None:
    play = Playbook()
    play.decider.decision = Wait(seen=7, until_ns=play.now + SECOND)
    play.received(READ)
    play.core.gone(play.now)
    assert play.core.moved(play.now) == [] and play.core.closed
