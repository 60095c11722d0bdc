"""HTTP/1.1 as clients of a metastore speak it: a request's body is one Thrift message, and so is a reply's.

Job: split bytes into heads, pieces of bodies and their ends, in order; make the heads and chunks of replies. The parser
is llhttp, used through httptools. It is strict, and takes 4 % of the time that a parser in Python (h11) takes. Must not
know: sockets, Thrift, users.
Invariants: what two readers could understand differently is refused. llhttp refuses a second Content-Length, one beside
Transfer-Encoding, folded lines, bare line feeds, and blanks before a colon; this module refuses other codings than
`chunked`, and a repeated header if it decides something. No more of a head, or of what is between or behind the pieces
of a body, is kept than HEAD_BYTES and one read from the socket. Nothing after an error is read: `next` raises the error
when everything before it has been taken. Owner: one connection.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import Enum
from http import HTTPStatus
from typing import Final

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser

from hms_cache_proxy.errors import WireError
from hms_cache_proxy.wire.http_again import KnownHead, known
from hms_cache_proxy.wire.http_head import CONTENT_TYPE

HEAD_BYTES: Final = 1 << 15  # a token that lists many groups has some 10 kB; Hive allows 6 kB
JOINED_BYTES: Final = 1 << 9  # pieces of a body up to this size are joined: a client may send chunks of one byte
CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
LAST_CHUNK: Final = b"0\r\n\r\n"
_LINE_BYTES: Final = 4  # `: ` and the end of a line
_KEPT_BYTES: Final = 1 << 10  # of memory for a head, beside its letters: a request may have no body, and 30 bytes
_ONCE: Final = frozenset(
    (b"host", b"content-length", b"transfer-encoding", b"expect", b"authorization", b"x-actor-username")
)
_VERSIONS: Final = ("1.0", "1.1")


class HttpError(WireError):
    """A request that is answered with a status other than 200. `detail`: what the log says beyond what the client is
    told. `closes`: the connection ends with this answer."""

    def __init__(self, status: HTTPStatus, why: str, *, detail: str = "", closes: bool = True) -> None:
        super().__init__(why)
        self.status = status
        self.detail = detail
        self.closes = closes


class BodyEnd(Enum):
    """What follows the last piece of a body."""

    BODY_END = "end"


BODY_END: Final = BodyEnd.BODY_END


@dataclass(frozen=True, slots=True)
class Head:
    """A request without its body. `headers`: by names in lower case, the first of each."""

    method: bytes
    path: bytes
    headers: dict[bytes, bytes]
    keeps: bool  # the client keeps the connection
    old: bool  # HTTP/1.0: it understands no chunks
    kept_bytes: int = 0  # of memory, about

    @property
    def length(self) -> int | None:
        """Of the body; None if it comes in chunks."""
        if b"transfer-encoding" in self.headers:
            return None
        return int(self.headers.get(b"content-length", b"0"))

    @property
    def expects(self) -> bool:
        """The client waits with the body until it is told to continue."""
        return b"expect" in self.headers and not self.old


class HttpReader:
    """The requests of one client. `waiting_bytes`: of heads and bodies that were not taken yet; `known_head`: that of a
    request by which the next one may be known (`again`)."""

    __slots__ = (
        "_events",
        "_fed_bytes",
        "_headers",
        "_in_head",
        "_in_message",
        "_known",
        "_parser",
        "_size",
        "_url",
        "known_head",
        "waiting_bytes",
    )

    def __init__(self) -> None:
        self._parser: HttpRequestParser | None = HttpRequestParser(self)  # None: nothing more is read
        self._events: deque[Head | bytes | BodyEnd | HttpError] = deque()
        self._in_head = self._in_message = False
        self._fed_bytes = 0  # since a head began, or a piece of a body ended; without the read in which it did
        self._known: KnownHead | None = None
        self.known_head: Head | None = None
        self.waiting_bytes = 0

    @property
    def empty(self) -> bool:
        """No byte of a further request has arrived."""
        return not self._events and not self._in_message

    @property
    def arriving(self) -> bool:
        """A request has begun, all that has arrived of it was taken, and its end is still to come."""
        return self._in_message and not self._events

    @property
    def in_head(self) -> bool:
        """A head has begun, and has not ended."""
        return self._in_head

    def feed(self, data: bytes) -> None:
        """Bytes from the client."""
        if self._parser is None:
            return
        clean = self.empty
        self._fed_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            found = error.__context__
            self._break(found if isinstance(found, HttpError) else HttpError(HTTPStatus.BAD_REQUEST, str(error)))
        if self._in_message and self._fed_bytes > HEAD_BYTES:  # the parser keeps a header's value until it ends
            self._break(_too_large())
        if clean:
            self._remember(data)

    def again(self, data: bytes) -> bytes | None:
        """The body, if nothing waits and these bytes are one request with `known_head`, but for its length. They are
        then not to be fed."""
        return self._known.body(data) if self._known is not None and self.empty else None

    def _remember(self, data: bytes) -> None:
        """The head of a whole request that came alone, with its body in one piece."""
        match self._events:
            case [Head() as head, bytes() as body, BodyEnd()] if head.length == len(body) and data.endswith(body):
                if head.keeps and not head.old and not head.expects:
                    self._known, self.known_head = known(data[: -len(body)]), head

    def next(self) -> Head | bytes | BodyEnd | None:
        """What comes next, if it has arrived. HttpError at the place where the client broke the protocol."""
        if not self._events:
            return None
        event = self._events[0]
        if isinstance(event, HttpError):
            raise event
        self._events.popleft()
        if isinstance(event, bytes):
            self.waiting_bytes -= len(event)
        elif isinstance(event, Head):
            self.waiting_bytes -= event.kept_bytes
        return event

    def close(self) -> None:
        """Forget everything."""
        self._parser = self._known = self.known_head = None
        self._events.clear()
        self._in_head = self._in_message = False
        self.waiting_bytes = 0

    def _break(self, error: HttpError) -> None:
        self._parser = None
        self._events.append(error)

    # called by the parser

    def on_message_begin(self) -> None:
        """A request begins."""
        self._in_head = self._in_message = True
        self._url = b""
        self._headers: dict[bytes, bytes] = {}
        self._size = self._fed_bytes = 0

    def on_url(self, part: bytes) -> None:
        """The path, or a part of it."""
        self._url += part
        self._grow(len(part))

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header, or one behind a body, which says nothing here."""
        self._grow(len(name) + len(value) + _LINE_BYTES)
        if not self._in_head:
            return
        name = name.lower()
        if name not in self._headers:
            self._headers[name] = value
        elif name in _ONCE:
            raise HttpError(HTTPStatus.BAD_REQUEST, f"the header {name.decode()} is there twice")

    def on_headers_complete(self) -> None:
        """The head ends."""
        parser = self._parser
        assert parser is not None
        version, headers = parser.get_http_version(), self._headers
        if version not in _VERSIONS:
            raise HttpError(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, f"HTTP/{version} is not supported")
        old = version == "1.0"
        if b"host" not in headers and not old:
            raise HttpError(HTTPStatus.BAD_REQUEST, "the header host is missing")
        coding = headers.get(b"transfer-encoding")
        if coding is not None and (old or coding.lower() != b"chunked"):
            raise HttpError(HTTPStatus.NOT_IMPLEMENTED, "a Transfer-Encoding other than chunked is not supported")
        if headers.get(b"expect", b"100-continue").lower() != b"100-continue":
            raise HttpError(HTTPStatus.EXPECTATION_FAILED, "only 100-continue can be expected")
        if parser.should_upgrade():  # the parser would take the body for another protocol
            raise HttpError(HTTPStatus.BAD_REQUEST, "Upgrade is not supported")
        self._in_head = False
        self._fed_bytes = 0
        kept_bytes = self._size + _KEPT_BYTES
        self.waiting_bytes += kept_bytes
        self._events.append(Head(parser.get_method(), self._url, headers, parser.should_keep_alive(), old, kept_bytes))

    def on_body(self, piece: bytes) -> None:
        """A piece of the body, without the lines between chunks."""
        self._fed_bytes = 0
        self.waiting_bytes += len(piece)
        last = self._events[-1] if self._events else None
        if isinstance(last, bytes) and len(last) + len(piece) <= JOINED_BYTES:
            self._events[-1] = last + piece
        else:
            self._events.append(piece)

    def on_message_complete(self) -> None:
        """The request ends."""
        self._in_message = False
        self._events.append(BODY_END)

    def _grow(self, size: int) -> None:
        self._size += size
        if self._size > HEAD_BYTES:
            raise _too_large()


def _too_large() -> HttpError:
    return HttpError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"a head of more than {HEAD_BYTES} bytes")


def reply_head(head: Head, size: int | None) -> bytes:
    """Before a Thrift message of this size; None: before its chunks."""
    length = b"Transfer-Encoding: chunked" if size is None else b"Content-Length: %d" % size
    return b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\n%b\r\n%b\r\n" % (CONTENT_TYPE, length, _connection(head))


def refusal(error: HttpError, head: Head | None) -> bytes:
    """The whole answer to a request that is refused."""
    status, text = error.status, str(error).encode("utf-8", "replace") + b"\n"
    bare = head is not None and head.method == b"HEAD" and not error.closes  # a body would be taken for an answer
    asks = b"WWW-Authenticate: Bearer\r\n" if status is HTTPStatus.UNAUTHORIZED else b""
    allow = b"Allow: POST\r\n" if status is HTTPStatus.METHOD_NOT_ALLOWED else b""
    connection = b"Connection: close\r\n" if error.closes or head is None else _connection(head)
    return b"HTTP/1.1 %d %b\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\n%b%b%b\r\n%b" % (
        status,
        status.phrase.encode(),
        len(text),
        asks,
        allow,
        connection,
        b"" if bare else text,
    )


def _connection(head: Head) -> bytes:
    if not head.keeps:
        return b"Connection: close\r\n"
    return b"Connection: keep-alive\r\n" if head.old else b""


def chunk(data: bytes) -> bytes:
    """One chunk, which must not be empty."""
    assert data, "an empty chunk would end the reply"
    return b"%x\r\n%b\r\n" % (len(data), data)
