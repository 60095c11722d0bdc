"""HTTP/1.1 as a metastore speaks it, from the client's side: a message is a POST, and its reply is the body of the
answer.

Job: turn messages into requests, and answers into messages, for one connection. Must not know: sockets, users, what a
message means. Messages and replies come in pieces of any size. A message in one piece is sent with a Content-Length, a
longer one in chunks. A call without a reply is answered with an empty body, which is not passed on.
Invariants: a body is exactly one message; the last piece of a reply is passed on when the answer has ended, so whoever
gets it may use or close the connection. An answer with another status than 200 is an HttpAnswerError, with the status
and the text of the body; bytes that are no answer are a WireError. Nothing after an error is read. Owner: one
connection.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from http import HTTPStatus
from typing import Final

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from hms_cache_proxy.errors import WireError
from hms_cache_proxy.wire.http import HEAD_BYTES, LAST_CHUNK, chunk
from hms_cache_proxy.wire.http_head import CONTENT_TYPE
from hms_cache_proxy.wire.message import NEED_MORE, UNLIMITED, is_answered
from hms_cache_proxy.wire.scan import MessageScanner

TOLD_BYTES: Final = 4096  # of the body of an answer that is an error
_TOLD_LETTERS: Final = 300
_REFUSALS: Final = frozenset((401, 403, 404, 405, 411, 413, 414, 415, 431))  # before the call is looked at


class HttpAnswerError(WireError):
    """The metastore, or something in front of it, answered with a status. `refused`: the call has not been done."""

    def __init__(self, status: int, text: str) -> None:
        try:
            phrase = f" {HTTPStatus(status).phrase}"
        except ValueError:
            phrase = ""
        super().__init__(f"HTTP status {status}{phrase}" + (f": {text}" if text else ""))
        self.status = status
        self.refused = status in _REFUSALS


class HttpCalls:
    """`head`: makes the head of a request, but for what says where its body ends (request_head)."""

    def __init__(self, head: Callable[[], bytes]) -> None:
        self._head = head
        self._sending: MessageScanner | None = None  # the message of which a part has been sent
        self._replied: deque[bool] = deque()  # for each answer that is outstanding: is there a reply in it?
        self._scanner = MessageScanner(UNLIMITED)
        self._last = b""  # the last piece of a reply that has ended, while its answer has not
        self._parser = HttpResponseParser(self)
        self._pieces: list[bytes] = []
        self._error: WireError | None = None
        self._told = b""  # of the body of an error
        self._head_bytes = 0
        self._status = 0  # of the present answer, from its head to its end
        self._media = b""
        self._coded = False
        self.closes = False
        """The metastore closes the connection after the answer that has ended last."""

    def send(self, piece: bytes) -> bytes:
        """What to send for a piece of messages. WireError if it is not Thrift."""
        sent, at = b"", 0
        while at < len(piece):
            whole = self._sending is None
            scanner = self._sending = self._sending or MessageScanner(UNLIMITED)
            end = scanner.feed(piece, at)
            part = piece[at:] if end is NEED_MORE else piece[at:end]
            at += len(part)
            if whole and end is not NEED_MORE:
                sent += b"%bContent-Length: %d\r\n\r\n%b" % (self._head(), len(part), part)
            else:
                sent += (b"%bTransfer-Encoding: chunked\r\n\r\n" % self._head() if whole else b"") + chunk(part)
            if end is not NEED_MORE:
                assert scanner.header is not None, "a whole message has a header"
                sent += b"" if whole else LAST_CHUNK
                self._replied.append(is_answered(scanner.header))
                self._sending = None
        return sent

    def receive(self, data: bytes) -> list[bytes]:
        """Pieces of replies. Raises at the place where an answer is an error; what came before it was passed on."""
        if data and self._error is None:
            try:
                self._parser.feed_data(data)
            except (HttpParserError, HttpParserUpgrade) as error:
                found = error.__context__
                self._error = found if isinstance(found, WireError) else _not_http(error)
        pieces, self._pieces = self._pieces, []
        if self._error is not None and not pieces:
            raise self._error
        return pieces

    def end(self) -> list[bytes]:
        """The metastore has closed the connection, which may be how it ends an answer. As `receive`."""
        if self._status > HTTPStatus.OK:
            raise HttpAnswerError(self._status, _text(self._told))
        last, self._last = self._last, b""
        return [last] if last else []

    # called by the parser

    def on_message_begin(self) -> None:
        """An answer begins."""
        self._head_bytes, self._media, self._told, self._coded = 0, b"", b"", False

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header, or one behind the body."""
        self._head_bytes += len(name) + len(value)
        if self._head_bytes > HEAD_BYTES:
            raise WireError(f"the head of an HTTP answer has more than {HEAD_BYTES} bytes")
        if name.lower() == b"content-type":
            self._media = value.partition(b";")[0].strip().lower()
        self._coded |= name.lower() == b"content-encoding"

    def on_headers_complete(self) -> None:
        """The head ends."""
        self._status = self._parser.get_status_code()
        if self._status < HTTPStatus.OK:
            return
        if not self._replied:
            raise WireError("an HTTP answer without a request")
        if self._status == HTTPStatus.OK and (self._coded or (self._media and self._media != CONTENT_TYPE)):
            what = "a coding" if self._coded else self._media.decode("ascii", "replace")
            raise WireError(f"an HTTP answer of {what} instead of {CONTENT_TYPE.decode()}: this is not a metastore")

    def on_body(self, piece: bytes) -> None:
        """A piece of the body."""
        if self._status != HTTPStatus.OK:
            self._told = (self._told + piece)[:TOLD_BYTES]
            return
        if not self._replied[0]:
            raise WireError("an HTTP answer with a body to a call without a reply")
        end = NEED_MORE if self._last else self._scanner.feed(piece)
        if self._last or end not in (NEED_MORE, len(piece)):
            raise WireError("an HTTP answer with more than one message")
        if end is NEED_MORE:
            self._pieces.append(piece)
        else:
            self._last = piece

    def on_message_complete(self) -> None:
        """The answer ends."""
        status, self._status = self._status, 0
        if status < HTTPStatus.OK:
            return
        if status != HTTPStatus.OK:
            raise HttpAnswerError(status, _text(self._told))
        if self._replied.popleft():
            if not self._last:
                raise WireError("an HTTP answer ends within the message")
            self._pieces.append(self._last)
            self._scanner, self._last = MessageScanner(UNLIMITED), b""
        self.closes = not self._parser.should_keep_alive()


def _not_http(error: Exception) -> WireError:
    return WireError(f"not an answer of HTTP: {error}")


def _text(body: bytes) -> str:
    """What the body of an error says, in one line, without markup."""
    text = re.sub(r"<(style|script).*?</\1>|<[^>]*>", " ", body.decode("utf-8", "replace"), flags=re.DOTALL)
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())[:_TOLD_LETTERS]
