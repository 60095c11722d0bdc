"""Cuts the bytes of one HTTP client into requests, and finds each one's user.

Job: turn heads into users (`admit` decides) and bodies into messages. Must not know: how a user is proved, what a
request means.
Invariants: no part of a body is kept before its head has been admitted. A body is exactly one message; otherwise a
second message in it would go unnoticed. If a request is refused, a short body is read to its end, so that the
connection can be used further; otherwise the connection ends. Owner: one HttpConnection.
"""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Final, TypeVar

from hms_cache_proxy.errors import LimitError, WireError
from hms_cache_proxy.security.mechanism import Admitted
from hms_cache_proxy.server.commands import Command, Send
from hms_cache_proxy.server.inbox import Inbox, Partial, Request
from hms_cache_proxy.server.spool import SpoolRoom
from hms_cache_proxy.wire.http import BODY_END, CONTINUE, Head, HttpError, HttpReader
from hms_cache_proxy.wire.message import NEED_MORE, MessageLimits, MessageType, parse_header
from hms_cache_proxy.wire.scan import end_of_struct

SKIPPED_BYTES: Final = 1 << 20  # of the body of a request that is refused; most calls are shorter


Result = TypeVar("Result")


Admit = Callable[[Head], Admitted]
"""HttpError if the request is refused."""


class HttpInbox(Inbox):
    """Bytes in, requests out. `head` and `sender` belong to the request that was returned last."""

    __slots__ = ("_admit", "_commands", "_message", "_reader", "_refused", "_request", "head", "sender")

    def __init__(self, commands: list[Command], admit: Admit, limits: MessageLimits, room: SpoolRoom) -> None:
        super().__init__(limits, room)
        self._commands = commands
        self._admit = admit
        self._reader = HttpReader()
        self._message = b""  # the whole body, if it came in one piece
        self._request: Request | None = None  # of a body that came in several
        self._refused: HttpError | None = None
        self.head: Head | None = None
        self.sender: Admitted | None = None

    @property
    def waiting_bytes(self) -> int:
        return self._reader.waiting_bytes

    @property
    def empty(self) -> bool:
        return self._reader.empty

    @property
    def arriving(self) -> bool:
        """The rest of a request is still to come, and nothing else is to be done."""
        return self._reader.arriving

    @property
    def in_head(self) -> bool:
        """A head has begun, and has not ended."""
        return self._reader.in_head

    def add(self, data: bytes) -> None:
        self._reader.feed(data)

    def again(self, data: bytes) -> tuple[Head, bytes] | None:
        """A head that was read before and the body, if these bytes are one more request with this head and nothing of
        another one is here. They are not kept. The body may be anything."""
        body, head = self._reader.again(data), self._reader.known_head
        return None if body is None or head is None else (head, body)

    def next(self) -> Request | None:
        """The next complete request. HttpError if it is refused; then the next call goes on, unless `closes`."""
        while True:
            event = self._reader.next()
            if event is None:
                return None
            if isinstance(event, Head):
                self._begin(event)
            elif event is BODY_END:
                return self._end()
            elif self._refused is None:
                assert isinstance(event, bytes)
                self._take(event)

    def close(self) -> None:
        super().close()
        self._reader.close()
        self._message = b""
        if self._request is not None:
            self._request.close()
            self._request = None

    def _begin(self, head: Head) -> None:
        self.head, self._refused = head, None
        length = head.length
        try:
            self.sender = self._admit(head)
            if length is not None and length > self._limits.message_bytes:
                raise HttpError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a message of {length} bytes")
        except HttpError as error:
            if head.expects or length is None or length > SKIPPED_BYTES:
                error.closes = True
                raise
            self._refused = error
        if head.expects and not self._reader.waiting_bytes:
            self._commands.append(Send(CONTINUE))

    def _take(self, piece: bytes) -> None:
        assert self.head is not None
        if self._partial is None and self.head.length == len(piece):
            self._message = piece
            return
        if self._request is not None:
            raise _not_one()
        if self._partial is None:
            self._partial = Partial(self._limits, self._room)
        end = _checked(self._partial.take, piece)
        if end is NEED_MORE:
            return
        if end != len(piece):
            raise _not_one()
        self._request, self._partial = self._partial.request(), None

    def _end(self) -> Request:
        refused, self._refused = self._refused, None
        if refused is not None:
            raise refused
        message, self._message = self._message, b""
        request, self._request = self._request, None
        if message:
            request = _checked(self._only, message)
        if request is None:
            raise _not_one()
        if request.header.type not in (MessageType.CALL, MessageType.ONEWAY):
            request.close()
            raise HttpError(HTTPStatus.BAD_REQUEST, f"a message of type {request.header.type.name} from a client")
        return request

    def _only(self, message: bytes) -> Request | None:
        """The message that is all of these bytes."""
        header = parse_header(message, 0, self._limits)
        if header is NEED_MORE or end_of_struct(message, header.body, self._limits) != len(message):
            return None
        return Request(header, message)


def _not_one() -> HttpError:
    return HttpError(HTTPStatus.BAD_REQUEST, "the body is not exactly one message of the Thrift binary protocol")


def _checked(read: Callable[[bytes], Result], data: bytes) -> Result:
    try:
        return read(data)
    except LimitError as error:
        raise HttpError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, str(error)) from error
    except WireError as error:
        raise HttpError(HTTPStatus.BAD_REQUEST, str(error)) from error
