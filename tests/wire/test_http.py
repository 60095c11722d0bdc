"""HTTP: what is read, whole and byte by byte, what is refused with which status, and anything at all."""

from __future__ import annotations

import os
from http import HTTPStatus
from random import Random

import pytest

from hms_cache_proxy.wire.http import (
    BODY_END,
    HEAD_BYTES,
    BodyEnd,
    Head,
    HttpError,
    HttpReader,
    chunk,
    refusal,
    reply_head,
)
from tests.chance import chance
from tests.lengths import by_tier

HEADS = int(os.environ.get("FUZZ_HEADS", by_tier(test=10_000, all=10_000, every=100_000)))
POST = b"POST /metastore/* HTTP/1.1\r\nHost: localhost\r\nAccept: application/x-thrift\r\n"
READ = POST + b"Content-Length: 4\r\n\r\nABCD"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n3;x=y\r\nABC\r\n1\r\nD\r\n0\r\nTrailer: x\r\n\r\n"

Event = Head | bytes | BodyEnd | tuple[HTTPStatus, str]


def events(reader: HttpReader) -> list[Event]:
    """All that has arrived; pieces of a body are joined."""
    found: list[Event] = []
    try:
        while (event := reader.next()) is not None:
            last = found[-1] if found else None
            if isinstance(event, bytes) and isinstance(last, bytes):
                found[-1] = last + event
            else:
                found.append(event)
    except HttpError as error:
        found.append((error.status, str(error)))
    return found


def read(data: bytes, size: int = 0) -> list[Event]:
    """What is read of these bytes, in pieces of this size."""
    reader = HttpReader()
    for at in range(0, len(data), size or len(data)):
        reader.feed(data[at : at + (size or len(data))])
    return events(reader)


def test_small_chunks_are_joined() -> None:
    """Else each would cost a worker as much time and memory as a large one."""
    reader, letters = HttpReader(), bytes(range(256)) * 40
    chunks = b"".join(chunk(letters[at : at + 1]) for at in range(len(letters)))
    reader.feed(POST + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n")
    pieces: list[bytes] = []
    assert isinstance(reader.next(), Head) and reader.waiting_bytes == len(letters)
    while isinstance(event := reader.next(), bytes):
        pieces.append(event)
    assert event is BODY_END and reader.waiting_bytes == 0
    assert b"".join(pieces) == letters and len(pieces) <= len(letters) / 100


@pytest.mark.parametrize("size", [0, 1, 7])
@pytest.mark.parametrize("request_bytes", [READ, CHUNKED], ids=["length", "chunks"])
def test_a_request(request_bytes: bytes, size: int) -> None:
    head, *rest = read(request_bytes, size)
    assert isinstance(head, Head)
    assert (head.method, head.path, head.keeps, head.old, head.expects) == (
        b"POST",
        b"/metastore/*",
        True,
        False,
        False,
    )
    assert head.length == (4 if request_bytes is READ else None)
    assert head.headers[b"accept"] == b"application/x-thrift"
    assert rest == [b"ABCD", BODY_END]


def test_requests_one_behind_the_other() -> None:
    reader = HttpReader()
    reader.feed(READ * 2 + READ[:-3])
    assert reader.waiting_bytes > 2 * len(READ) and not reader.empty, "heads count, too"
    assert [type(event) for event in events(reader)] == [Head, bytes, BodyEnd] * 2 + [Head, bytes]
    assert reader.waiting_bytes == 0 and not reader.empty and not reader.in_head
    reader.feed(READ[-3:])
    assert events(reader) == [READ[-3:], BODY_END] and reader.empty


def test_old_clients_and_those_that_close() -> None:
    (old, *_) = read(b"POST /m HTTP/1.0\r\nContent-Length: 0\r\n\r\n")
    (kept, *_) = read(b"POST /m HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n")
    (closing, *_) = read(POST + b"Connection: close\r\nContent-Length: 0\r\n\r\n")
    assert isinstance(old, Head) and isinstance(kept, Head) and isinstance(closing, Head)
    assert (old.keeps, kept.keeps, closing.keeps) == (False, True, False)
    assert b"Connection: close\r\n" in reply_head(old, 5) and b"keep-alive" in reply_head(kept, 5)
    assert b"Connection: close\r\n" in reply_head(closing, None)


BAD = HTTPStatus.BAD_REQUEST


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        (b"Content-Length: 4\r\nContent-Length: 4\r\n", BAD),
        (b"Content-Length: 4\r\nContent-Length: 5\r\n", BAD),
        (b"Content-Length: 4, 4\r\n", BAD),
        (b"Content-Length: +4\r\n", BAD),
        (b"Content-Length: -4\r\n", BAD),
        (b"Content-Length: 0x4\r\n", BAD),
        (b"Content-Length: 99999999999999999999999\r\n", BAD),
        (b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", BAD),
        (b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n", BAD),
        (b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", BAD),
        (b"Transfer-Encoding: identity, chunked\r\n", HTTPStatus.NOT_IMPLEMENTED),
        (b"Transfer-Encoding: gzip\r\n", HTTPStatus.NOT_IMPLEMENTED),
        (b"Transfer-Encoding: xchunked\r\n", HTTPStatus.NOT_IMPLEMENTED),
        (b"Transfer-Encoding : chunked\r\n", BAD),
        (b"Content-Length : 4\r\n", BAD),
        (b"Content-Length: 4\r\nX: a\r\n b\r\n", BAD),
        (b"Content-Length: 4\nX: a\r\n", BAD),
        (b"Content-Length: 4\r\nX: a\rTransfer-Encoding: chunked\r\n", BAD),
        (b"Content-Length: 4\r\nX: a\0b\r\n", BAD),
        (b": x\r\nContent-Length: 4\r\n", BAD),
        (b"Host: other\r\nContent-Length: 4\r\n", BAD),
        (b"Authorization: Bearer a\r\nauthorization: Bearer b\r\nContent-Length: 4\r\n", BAD),
        (b"X-Actor-Username: a\r\nx-actor-username: a\r\nContent-Length: 4\r\n", BAD),
        (b"Connection: upgrade\r\nUpgrade: websocket\r\nContent-Length: 4\r\n", BAD),
        (b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n", BAD),
        (b"Expect: something\r\nContent-Length: 4\r\n", HTTPStatus.EXPECTATION_FAILED),
        (b"X: " + b"x" * HEAD_BYTES + b"\r\n", HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE),
        (b"X: x\r\n" * HEAD_BYTES, HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE),
    ],
)
@pytest.mark.parametrize("size", [0, 1000])
def test_heads_that_are_refused(lines: bytes, status: HTTPStatus, size: int) -> None:
    found = read(READ + POST + lines + b"\r\nABCD" + READ, size)
    assert found[1:3] == [b"ABCD", BODY_END], "the request before it is read"
    assert [event[0] if isinstance(event, tuple) else event for event in found[3:]] == [status]


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"POST /m HTTP/1.1\r\nContent-Length: 4\r\n\r\nABCD", BAD),  # no Host
        (b"POST /m HTTP/2.0\r\nHost: x\r\n\r\n", HTTPStatus.HTTP_VERSION_NOT_SUPPORTED),
        (b"POST /m HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", HTTPStatus.NOT_IMPLEMENTED),
        (b"CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n", BAD),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", BAD),
        (b"POST /m\r\n\r\n", HTTPStatus.HTTP_VERSION_NOT_SUPPORTED),
        (b"\x80\x01\x00\x01", BAD),
        (b"POST /" + b"x" * 2 * HEAD_BYTES, HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE),
    ],
)
def test_beginnings_that_are_refused(data: bytes, status: HTTPStatus) -> None:
    assert [event[0] for event in read(data, 1000) if isinstance(event, tuple)] == [status]


@pytest.mark.parametrize(
    "body", [b"x\r\nA\r\n", b"-1\r\nA\r\n", b"2\r\nABC\r\n", b"1\nA\r\n", b"fffffffffffffffff1\r\nA"]
)
def test_chunks_that_are_refused(body: bytes) -> None:
    assert read(POST + b"Transfer-Encoding: chunked\r\n\r\n" + body)[-1][0] is BAD  # type: ignore[index]


def test_a_value_that_never_ends_is_not_kept() -> None:
    reader = HttpReader()
    reader.feed(POST + b"X: ")
    for _ in range(HEAD_BYTES // 1000 + 1):
        reader.feed(b"x" * 1000)
    assert events(reader)[-1][0] is HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE  # type: ignore[index]


@pytest.mark.parametrize("begin", [b"0\r\nX: ", b"0\r\n", b"3;x="], ids=["trailer", "its name", "chunk extension"])
def test_what_is_no_body_does_not_go_on_for_ever(begin: bytes) -> None:
    """The parser would keep all of a header behind the body, which counts nowhere."""
    reader = HttpReader()
    reader.feed(POST + b"Transfer-Encoding: chunked\r\n\r\n1\r\nA\r\n" + begin)
    for _ in range(HEAD_BYTES // 1000 + 1):
        assert reader.in_head is False
        reader.feed(b"x" * 1000)
    assert events(reader)[-1] == (HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"a head of more than {HEAD_BYTES} bytes")


def test_replies() -> None:
    (head, *_) = read(READ)
    assert isinstance(head, Head)
    whole = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-thrift\r\n"
    assert reply_head(head, 12) == whole + b"Content-Length: 12\r\n\r\n"
    assert reply_head(head, None) == whole + b"Transfer-Encoding: chunked\r\n\r\n"
    assert chunk(b"x" * 17) == b"11\r\n" + b"x" * 17 + b"\r\n"
    said = refusal(HttpError(HTTPStatus.UNAUTHORIZED, "who?", closes=False), head)
    assert said.startswith(b"HTTP/1.1 401 Unauthorized\r\n") and said.endswith(b"\r\n\r\nwho?\n")
    assert b"WWW-Authenticate: Bearer\r\n" in said and b"Connection" not in said
    assert b"Connection: close\r\n" in refusal(HttpError(BAD, "no"), None)


def test_an_answer_to_head_has_no_body() -> None:
    """The client would read the body as the beginning of the next answer."""
    (head, *_) = read(b"HEAD" + READ[4:])
    assert isinstance(head, Head)
    said = refusal(HttpError(HTTPStatus.METHOD_NOT_ALLOWED, "only POST is supported", closes=False), head)
    assert b"Content-Length: 23\r\n" in said and said.endswith(b"\r\n\r\n")


LINES = [
    *(
        b"Content-Length: 4",
        b"Content-Length: 5",
        b"Transfer-Encoding: chunked",
        b"Connection: close",
        b"Host: y",
        b" x",
    ),
    *(
        b"Expect: 100-continue",
        b"Authorization: Bearer x.y.z",
        b"x-actor-username: hive",
        b"X: \xff\xfe",
        b"",
        b"Upgrade: h2c",
    ),
]


def without_reason(found: list[Event]) -> list[Event | None]:
    """Which fault of several is found first depends on the pieces."""
    return [None if isinstance(event, tuple) else event for event in found]


def some_head(random: Random) -> bytes:
    """A head that may be right, and mostly is not."""
    lines = [random.choice((b"POST /metastore HTTP/1.1", b"GET / HTTP/1.0", b"POST /m HTTP/1.1"))]
    if random.random() < 0.8:
        lines.append(b"Host: x")
    lines += random.sample(LINES, random.randrange(5))
    data = bytearray(random.choice((b"\r\n", b"\r\n", b"\r\n", b"\n")).join(lines) + b"\r\n\r\n4\r\nABCD\r\n0\r\n\r\n")
    for _ in range(random.choice((0, 0, 1, 3))):
        at = random.randrange(len(data))
        data[at : at + random.randrange(3)] = random.randbytes(random.randrange(3))
    return bytes(data)


def test_any_bytes_give_requests_or_one_error_however_they_arrive() -> None:
    random, right = chance("http"), 0
    for _ in range(HEADS):
        data = some_head(random)
        whole = read(data)
        assert without_reason(whole) == without_reason(read(data, random.randint(1, 40))), data
        assert all(isinstance(event, Head | bytes | BodyEnd) for event in whole[:-1])
        right += isinstance(whole[0], Head) if whole else 0
    assert HEADS / 10 < right < HEADS
