"""HTTP from the client's side: messages become requests, answers become messages, errors say what was answered."""

from __future__ import annotations

import pytest

from hms_cache_proxy.errors import WireError
from hms_cache_proxy.wire.http_calls import HttpAnswerError, HttpCalls
from hms_cache_proxy.wire.http_head import request_head
from hms_cache_proxy.wire.message import MessageType, message_header
from tests.testbed.raw import encode_call

HEAD = request_head("/metastore/", "ms:9083", b"x-actor-username: alice\r\n")
CALL = encode_call("get_config_value", "a" * 300, "b", seqid=7)
REPLY = message_header(b"get_config_value", MessageType.REPLY, 7) + b"\x0b\0\0\0\0\0\x02ok\0"
OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-thrift\r\n"


def calls(asked: bytes = CALL) -> HttpCalls:
    """One call has been sent."""
    made = HttpCalls(lambda: HEAD)
    made.send(asked)
    return made


def whole(body: bytes, head: bytes = OK) -> bytes:
    return head + b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


def chunked(*pieces: bytes) -> bytes:
    body = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
    return OK + b"Transfer-Encoding: chunked\r\n\r\n" + body + b"0\r\n\r\n"


def received(made: HttpCalls, data: bytes, size: int) -> bytes:
    found = b""
    for at in range(0, len(data), size):
        found += b"".join(made.receive(data[at : at + size]))
    return found + b"".join(made.receive(b""))


def test_a_whole_message_has_a_length() -> None:
    assert HEAD.startswith(b"POST /metastore HTTP/1.1\r\nHost: ms:9083\r\n")
    assert HttpCalls(lambda: HEAD).send(CALL) == HEAD + b"Content-Length: %d\r\n\r\n" % len(CALL) + CALL
    assert HttpCalls(lambda: HEAD).send(CALL + CALL).count(b"POST ") == 2


@pytest.mark.parametrize("size", [1, 3, 50, 299])
def test_pieces_are_chunks(size: int) -> None:
    made = HttpCalls(lambda: HEAD)
    sent = b"".join(made.send(CALL[at : at + size]) for at in range(0, len(CALL), size))
    head, _, body = sent.partition(b"\r\n\r\n")
    assert head == HEAD + b"Transfer-Encoding: chunked"
    message = b""
    while (length := int(body.partition(b"\r\n")[0], 16)) > 0:
        body = body.partition(b"\r\n")[2]
        message, body = message + body[:length], body[length + 2 :]
    assert message == CALL and body == b"0\r\n\r\n"
    assert made.send(CALL).startswith(HEAD + b"Content-Length: ")


@pytest.mark.parametrize("size", [1, 7, 1 << 16])
@pytest.mark.parametrize(
    "answer",
    [whole(REPLY), chunked(REPLY), chunked(REPLY[:9], REPLY[9:20], REPLY[20:])],
    ids=["whole", "chunk", "chunks"],
)
def test_replies(answer: bytes, size: int) -> None:
    made = calls()
    for _ in range(2):
        assert received(made, answer, size) == REPLY
        assert not made.closes
        made.send(CALL)


def test_the_end_of_a_reply_comes_with_the_end_of_the_answer() -> None:
    """So whoever gets it may ask again, and knows whether the connection is kept."""
    made = calls()
    answer = chunked(REPLY)
    assert made.receive(answer[:-5]) == []
    assert made.receive(answer[-5:]) == [REPLY]
    made = calls()
    assert made.receive(whole(REPLY, OK + b"Connection: close\r\n")) == [REPLY] and made.closes


def test_a_body_that_ends_with_the_connection() -> None:
    made = calls()
    assert made.receive(OK + b"\r\n" + REPLY) == []
    assert made.end() == [REPLY]


def test_a_long_reply_passes_in_pieces() -> None:
    long = message_header(b"get_config_value", MessageType.REPLY, 7) + b"\x0b\0\0\0\x10\0\0" + b"x" * (1 << 20) + b"\0"
    made, found = calls(), b""
    sizes: list[int] = []
    answer = whole(long)
    for at in range(0, len(answer), 1 << 16):
        pieces = made.receive(answer[at : at + (1 << 16)])
        sizes += map(len, pieces)
        found += b"".join(pieces)
    assert found == long and max(sizes) <= 1 << 16


def test_a_call_without_a_reply() -> None:
    made = HttpCalls(lambda: HEAD)
    made.send(encode_call("shutdown", oneway=True) + CALL)
    assert made.receive(whole(b"", b"HTTP/1.1 200 OK\r\n") + whole(REPLY)) == [REPLY]


def test_the_method_decides_whether_there_is_a_reply() -> None:
    """Not the message's type, as in a metastore."""
    made = HttpCalls(lambda: HEAD)
    made.send(encode_call("shutdown") + encode_call("get_config_value", "a", "b", seqid=7, oneway=True))
    assert made.receive(whole(b"", b"HTTP/1.1 200 OK\r\n") + whole(REPLY)) == [REPLY]


@pytest.mark.parametrize(
    "status, refused",
    [
        (401, True),
        (403, True),
        (404, True),
        (405, True),
        (413, True),
        (302, False),
        (500, False),
        (502, False),
        (503, False),
    ],
)
def test_other_statuses(status: int, refused: bool) -> None:
    page = b"<html><style>p{}</style><body>\n<h2>Authentication\terror:</h2> &nbsp;no  token\x07</body></html>"
    answer = whole(page, b"HTTP/1.1 %d Nothing\r\nContent-Type: text/html\r\n" % status)
    for size in (1, 1 << 16):
        with pytest.raises(
            HttpAnswerError, match=rf"^HTTP status {status} .*Authentication error: &nbsp;no token$"
        ) as found:
            received(calls(), answer, size)
        assert found.value.refused is refused and found.value.status == status


def test_an_error_that_the_end_of_the_connection_cuts_off() -> None:
    made = calls()
    made.receive(b"HTTP/1.1 503 No\r\nContent-Length: 100\r\n\r\nlater")
    with pytest.raises(HttpAnswerError, match="HTTP status 503 Service Unavailable: later"):
        made.end()


@pytest.mark.parametrize(
    "answer, why",
    [
        (b"\x80\x01\0\x02\0\0\0\x04ping\0\0\0\0\0", "not an answer of HTTP"),
        (b"220 mail ESMTP\r\n", "not an answer of HTTP"),
        (
            whole(REPLY, b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=x\r\n"),
            "text/html instead of application/x-thrift",
        ),
        (whole(REPLY, OK + b"Content-Encoding: gzip\r\n"), "a coding instead of application/x-thrift"),
        (whole(REPLY[:-3]), "ends within the message"),
        (whole(b""), "ends within the message"),
        (whole(REPLY + b"\0"), "more than one message"),
        (chunked(REPLY, REPLY), "more than one message"),
        (whole(b"\0" * 40), "."),
        (OK + b"X: " + b"y" * 40_000 + b"\r\n\r\n", "head of an HTTP answer"),
    ],
)
def test_what_is_not_a_reply(answer: bytes, why: str) -> None:
    for size in (1, 1 << 16):
        with pytest.raises(WireError, match=why):
            received(calls(), answer, size)


def test_an_answer_nobody_asked_for() -> None:
    with pytest.raises(WireError, match="without a request"):
        HttpCalls(lambda: HEAD).receive(whole(REPLY))


def test_what_came_before_an_error_is_passed_on() -> None:
    made = calls()
    made.send(CALL)
    assert made.receive(whole(REPLY) + b"nonsense") == [REPLY]
    with pytest.raises(WireError, match="not an answer"):
        made.receive(b"")
    with pytest.raises(WireError, match="not an answer"):
        made.receive(whole(REPLY))
