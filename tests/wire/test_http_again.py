"""HTTP heads that are known again: what is not parsed is what the parser would have read."""

from __future__ import annotations

import os
from dataclasses import replace
from random import Random

import pytest

from hms_cache_proxy.wire.http import BODY_END, Head, HttpReader
from hms_cache_proxy.wire.http_again import KEPT_BYTES
from tests.chance import chance
from tests.lengths import by_tier
from tests.wire.test_http import CHUNKED, POST, events, read

PAIRS = int(os.environ.get("FUZZ_HEADS", by_tier(test=10_000, all=20_000, every=200_000)))
LENGTHS = (
    b"Content-Length: %d",
    b"Content-Length:%d",
    b"content-length: \t%d",
    b"CONTENT-LENGTH: %d ",
    b"Content-Length: 0%d",
)
LINES = (
    b"Content-Length: %d",
    b"X: Content-Length: %d",
    b"X-Content-Length: %d",
    b"Expect: 100-continue",
    b"Connection: close",
    b"Connection: keep-alive",
    b"Transfer-Encoding: chunked",
    b"Authorization: Bearer x.y.z",
    b"Host: y",
    b" x",
)


def request_of(body: bytes, *lines: bytes) -> bytes:
    return POST + b"Content-Length: %d\r\n%b\r\n%b" % (len(body), b"".join(lines), body)


def after(data: bytes) -> HttpReader:
    """A reader of which all was taken."""
    reader = HttpReader()
    reader.feed(data)
    events(reader)
    return reader


def test_the_same_head_with_another_body() -> None:
    reader = after(request_of(b"ABCD"))
    for body in (b"ABCD", b"EFGH", b"x" * 12345):
        assert reader.again(request_of(body)) == body
    for other in (
        request_of(b"ABCD") + b"P",
        request_of(b"ABCD")[:-1],
        request_of(b"ABCD", b"X: y\r\n"),
        request_of(b""),
        request_of(b"ABCD").replace(b"Length: 4", b"Length: +4"),
        request_of(b"ABCD").replace(b"Length: 4", b"Length: "),
    ):
        assert reader.again(other) is None


@pytest.mark.parametrize(
    "data",
    [
        request_of(b"ABCD", b"Connection: close\r\n"),
        request_of(b"ABCD", b"Expect: 100-continue\r\n"),
        request_of(b"ABCD", b"X: %b\r\n" % (b"x" * KEPT_BYTES)),
        request_of(b"ABCD").replace(b"HTTP/1.1", b"HTTP/1.0"),
        request_of(b"ABCD") * 2,
        CHUNKED,
    ],
    ids=["close", "expect", "long", "old", "two", "chunks"],
)
def test_a_head_that_is_parsed_each_time(data: bytes) -> None:
    assert after(data).again(data) is None


def test_not_while_something_waits() -> None:
    data = request_of(b"ABCD")
    reader = after(data)
    reader.feed(data[:5])
    assert reader.again(data) is None, "a head has begun"
    reader.feed(data[5:])
    assert reader.again(data) is None, "a request was not taken yet"
    events(reader)
    assert reader.again(data) == b"ABCD"
    reader.close()
    assert reader.again(data) is None


def some_request(random: Random) -> bytes:
    """Mostly with a length that is right."""
    body = random.randbytes(random.choice((1, 4, 99, 1000)))
    lines = random.sample(LINES, random.choice((0, 0, 1, 2)))
    lines.insert(random.randrange(len(lines) + 1), random.choice(LENGTHS))
    said = [line % len(body) if b"%d" in line else line for line in lines]
    return b"\r\n".join([random.choice((b"", b"\r\n")) + POST[:-2], *said]) + b"\r\n\r\n" + body


def another(random: Random, data: bytes) -> bytes:
    """The same request again, or with another body and length, and sometimes with a few other bytes."""
    head, _, body = data.partition(b"\r\n\r\n")
    if random.random() < 0.7:
        longer = random.randbytes(random.choice((1, 5, 10, 99, 100, 12345)))
        head, body = head.replace(b"%d" % len(body), b"%d" % len(longer)), longer
    changed = bytearray(head + b"\r\n\r\n" + body)
    for _ in range(random.choice((0, 0, 0, 1, 2))):
        at = random.randrange(min(len(changed), len(head) + 8))
        changed[at : at + random.randrange(3)] = random.choice((b"", b"0", b"9", b"\r", b"\r\n", b" ", b":", b"c"))
    return bytes(changed)


def test_what_is_known_again_is_what_the_parser_reads() -> None:
    random, found = chance("http again"), 0
    for _ in range(PAIRS):
        data = some_request(random)
        reader = after(data)
        following = another(random, data)
        body = reader.again(following)
        if body is None:
            continue
        found += 1
        head = reader.known_head
        assert head is not None
        parsed, *rest = read(following)
        assert rest == [body, BODY_END] and isinstance(parsed, Head), following
        expected = {**head.headers, b"content-length": parsed.headers[b"content-length"]}
        assert parsed == replace(head, headers=expected, kept_bytes=parsed.kept_bytes), following
        assert parsed.length == len(body)
    assert PAIRS / 10 < found < PAIRS
