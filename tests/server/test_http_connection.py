"""Playbooks of HTTP connections: users and upstream connections, replies in pieces to clients fast and slow."""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus
from http.client import HTTPResponse
from io import BytesIO

import pytest

from hms_cache_proxy.methods.decision import ClientSession, Serve
from hms_cache_proxy.security.mechanism import Admitted
from hms_cache_proxy.server.commands import (
    Again,
    Close,
    CloseUpstream,
    Command,
    LoggedIn,
    OpenUpstream,
    RequestRefused,
    Send,
    SendUpstream,
    SetReading,
)
from hms_cache_proxy.server.connection_settings import ConnectionSettings
from hms_cache_proxy.server.http_connection import HttpConnection, HttpSide
from hms_cache_proxy.upstream.replay import naming
from hms_cache_proxy.wire.http import Head, HttpError
from hms_cache_proxy.wire.message import MessageLimits
from tests.server.playbook import READ, REPLY, SECOND, Playbook, Recorder, kinds, reply_to, sent

ROOM = b"POST /metastore HTTP/1.%d\r\nHost: x\r\nx-actor-username: %b\r\nContent-Length: %d\r\n\r\n%b"

DISTRUSTED: set[str] = set()
"""Users who are not believed any more."""


def admit(head: Head, address: str) -> Admitted:
    """By the header alone."""
    user = head.headers[b"x-actor-username"].decode()
    if user == "nobody" or user in DISTRUSTED:
        raise HttpError(HTTPStatus.UNAUTHORIZED, "who?", closes=False)
    return Admitted(user, "header")


def post(user: bytes = b"alice", message: bytes = READ, minor: int = 1) -> bytes:
    return ROOM % (minor, user, len(message), message)


class HotRecorder(Recorder):
    """Has hot answers, by whole messages."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: dict[bytes, bytes] = {}

    def hot(self, session: ClientSession, data: bytes, now_ns: int) -> bytes | None:
        return self.answers.get(data)


class HttpBook(Playbook):
    """A Playbook of an HTTP connection; requests time out after 10 s, heads after 2."""

    def __init__(self) -> None:
        super().__init__()
        self.dispatcher = self.hot = HotRecorder()
        settings = ConnectionSettings(
            limits=MessageLimits(), idle_timeout_ns=60 * SECOND, request_timeout_ns=10 * SECOND
        )
        self.core = HttpConnection(
            side=HttpSide(admit, 2 * SECOND),
            dispatcher=self.dispatcher,
            endpoints=self.endpoints,
            settings=settings,
            peer="127.0.0.1:5",
            now_ns=self.now,
        )


class _Bytes:
    def __init__(self, data: bytes) -> None:
        self._file = BytesIO(data)

    def makefile(self, mode: str) -> BytesIO:
        return self._file


def body(data: bytes) -> bytes:
    """Of a whole answer; what follows it is an error."""
    source = _Bytes(data)
    answer = HTTPResponse(source)  # type: ignore[arg-type]
    answer.begin()
    assert answer.status == 200
    found = answer.read()
    assert source.makefile("rb").closed or not source.makefile("rb").read()
    return found


def test_another_user_gets_another_upstream_connection() -> None:
    book = HttpBook()
    alice, bob = (naming(user).call[1] for user in ("alice", "bob"))
    assert [command for command in book.received(post()) if isinstance(command, LoggedIn)] == [
        LoggedIn("alice", "header")
    ]
    assert book.opened() == [SendUpstream(alice)]
    assert book.upstream(reply_to(alice)) == [SendUpstream(READ)]
    assert body(sent(book.upstream(REPLY))) == REPLY
    assert book.received(post()) == [SendUpstream(READ)], "of the same user"
    book.upstream(REPLY)
    assert book.core.session.identity == naming("alice").identity
    book.core.session.relay_for_good = True
    commands = book.received(post(b"bob"))
    assert kinds(commands) == [CloseUpstream, LoggedIn, OpenUpstream]
    assert book.core.session.identity == naming("bob").identity and not book.core.session.relay_for_good
    assert book.opened() == [SendUpstream(bob)]


def test_a_user_that_the_metastore_refuses_is_told_and_asked_again() -> None:
    book = HttpBook()
    book.received(post())
    book.opened()
    commands = book.upstream(reply_to(naming("alice").call[1], kind=3))
    assert CloseUpstream in kinds(commands) and Close not in kinds(commands)
    assert body(sent(commands))[3] == 3
    assert kinds(book.received(post())) == [OpenUpstream]
    assert book.opened() == [SendUpstream(naming("alice").call[1])], "it is not forgotten"


def test_a_refused_request_touches_nothing() -> None:
    book = HttpBook()
    book.received(post())
    commands = book.received(post(b"nobody"))
    assert commands == [], "the one before it is not answered"
    book.opened()
    commands = book.upstream(reply_to(naming("alice").call[1])) + book.upstream(REPLY)
    assert RequestRefused(401, "who?", "") in commands and CloseUpstream not in kinds(commands)
    assert sent(commands).count(b"HTTP/1.1 ") == 2 and Close not in kinds(commands)


@pytest.mark.parametrize("minor", [1, 0])
@pytest.mark.parametrize("blocked_after", [0, 1, 2, 5])
def test_a_reply_in_pieces(minor: int, blocked_after: int) -> None:
    book = HttpBook()
    pieces = [bytes([letter]) * 100_000 for letter in b"abcde"]

    def slices() -> Iterator[bytes]:
        yield from pieces

    book.dispatcher.decision = Serve(slices(), "get_table")
    commands = book.received(post(minor=minor))
    said: list[Command] = list(commands)
    for turn in range(50):
        if turn == blocked_after:
            said += book.core.client_blocked()
        if turn == blocked_after + 20:
            said += book.core.client_writable(book.now)
        said += book.core.turn(book.now)
    data = sent(said)
    assert body(data) == b"".join(pieces)
    chunked = b"Transfer-Encoding: chunked" in data.partition(b"\r\n\r\n")[0]
    assert chunked == (minor == 1)
    assert (Close in kinds(said)) == (minor == 0)


def test_a_reply_that_breaks_off_is_not_taken_for_a_whole_one() -> None:
    book = HttpBook()
    book.received(post())
    book.opened()
    book.upstream(reply_to(naming("alice").call[1]))
    long = reply_to(READ, size=1_000_000)
    commands = book.upstream(long[:500_000])
    commands += book.core.upstream_lost("gone", book.now)
    data = sent(commands)
    assert b"chunked" in data and not data.endswith(b"0\r\n\r\n")
    assert kinds(commands)[-1] is Close


def test_heads_and_bodies_have_their_time() -> None:
    for size in (10, len(post()) - 4):
        book = HttpBook()
        book.received(post()[:size])
        book.now += SECOND
        assert not book.core.expire(book.now)
        book.now += 2 * SECOND
        assert sent(book.core.expire(book.now)).startswith(b"HTTP/1.1 408 ")
        assert book.core.closed
    book = HttpBook()
    book.received(post())
    book.now += 5 * SECOND
    assert Send not in kinds(book.core.expire(book.now)), "it is the metastore's time"
    assert Again not in kinds(book.core.expire(book.now))


def test_a_client_that_was_never_let_in_keeps_no_place() -> None:
    """It could keep many, for as long as an idle client may."""
    book = HttpBook()
    book.received(post(b"nobody"))
    book.now += SECOND
    assert not book.core.expire(book.now)
    book.received(post(b"nobody"))
    book.now += 3 * SECOND
    (closing,) = book.core.expire(book.now)
    assert isinstance(closing, Close) and closing.key == "handshake_timeout_s" and book.core.closed
    book = HttpBook()
    book.received(post())
    book.opened()
    book.upstream(reply_to(naming("alice").call[1]))
    book.upstream(REPLY)
    book.received(post(b"nobody"))
    book.now += 3 * SECOND
    assert Close not in kinds(book.core.expire(book.now)), "it was let in once"


def test_a_client_that_reads_no_answers_is_not_read_from() -> None:
    """Requests without a body, which are refused: their heads take memory."""
    book = HttpBook()
    one = b"GET / HTTP/1.1\r\nHost: x\r\nx-actor-username: nobody\r\n\r\n"
    assert RequestRefused in kinds(book.received(one))
    book.core.client_blocked()
    assert book.received(one * 100) == []
    assert book.received(one * 200) == [SetReading(False)]
    commands = book.core.client_writable(book.now)
    while SetReading(True) not in commands:
        assert Again() in commands, "the next turn goes on"
        commands = book.core.turn(book.now)


def hot_book() -> HttpBook:
    """Its user has had one answer, so the head is known."""
    book = HttpBook()
    book.hot.answers[READ] = REPLY
    commands = book.received(post())
    assert kinds(commands) == [LoggedIn, Send] and body(sent(commands)) == REPLY
    return book


def test_a_request_with_the_head_of_an_earlier_one() -> None:
    book = hot_book()
    for _ in range(3):
        commands = book.received(post())
        assert kinds(commands) == [Send] and body(sent(commands)) == REPLY
    assert not book.dispatcher.seen, "by the hot path alone"
    commands = book.received(post(message=READ[:-1] + b"x"))
    assert kinds(commands) == [RequestRefused, Send, Close], "it is no message, and is read as any other"


def test_a_known_head_of_another_user() -> None:
    book = hot_book()
    commands = book.received(post(b"carol"))
    assert kinds(commands) == [LoggedIn, Send] and commands[0] == LoggedIn("carol", "header")
    assert [command for command in book.received(post()) if isinstance(command, LoggedIn)] == [
        LoggedIn("alice", "header")
    ]


def test_a_known_head_that_is_not_believed_any_more() -> None:
    book = hot_book()
    DISTRUSTED.add("alice")
    try:
        commands = book.received(post())
    finally:
        DISTRUSTED.clear()
    assert kinds(commands) == [RequestRefused, Send] and b" 401 " in sent(commands)
    assert body(sent(book.received(post()))) == REPLY


@pytest.mark.parametrize("blocked", [False, True])
def test_a_known_head_while_there_is_something_to_do(blocked: bool) -> None:
    """Behind a request that is being relayed, and while the client reads nothing."""
    book = hot_book()
    if blocked:
        book.core.client_blocked()
    else:
        book.hot.answers.clear()
        book.received(post())
        book.hot.answers[READ] = b"must wait"
    assert Send not in kinds(book.received(post()))
