"""One reply of a metastore as it arrives.

Job: find its end, check that it belongs to the request, and hold it back if this is requested and it is short enough.
Must not know: where it goes. Invariants: nothing is released before the header has been checked. At most `hold_bytes`
are held (of an exception, EXCEPTION_BYTES), and less if the worker's memory is used up.
Owner: one Exchange.
"""

from __future__ import annotations

from hms_cache_proxy.budget import Budget, Charge
from hms_cache_proxy.errors import WireError
from hms_cache_proxy.wire.message import NEED_MORE, UNLIMITED, Header, MessageLimits, MessageType, parse_header
from hms_cache_proxy.wire.scan import MessageScanner, end_of_struct

EXCEPTION_BYTES = 1 << 20  # a TApplicationException is a line of text; held to see whether it says UNKNOWN_METHOD

SMALL_BYTES = 64 << 10  # so much is not counted
REPLY_LIMITS = UNLIMITED  # replies of metastores are trusted

_EXCEPTION = MessageType.EXCEPTION
_FROM_METASTORES = (MessageType.REPLY, _EXCEPTION)


class Reply:
    """Call `take` until the reply is `complete`."""

    __slots__ = (
        "_asked",
        "_charge",
        "_for_write",
        "_hold_bytes",
        "_limits",
        "_memory",
        "_must",
        "_parts",
        "_scanner",
        "_size",
        "complete",
        "extra",
        "header",
    )

    def __init__(
        self,
        asked: Header,
        limits: MessageLimits,
        hold_bytes: int,
        memory: Budget,
        *,
        for_write: bool = False,
        must: bool = False,
    ) -> None:
        """`memory`, `for_write`, `must`: of the Charge for what is held, if that is more than SMALL_BYTES."""
        self._memory = memory
        self._for_write = for_write
        self._must = must
        self._charge: Charge | None = None
        self._asked = asked
        self._limits = limits
        self._hold_bytes = hold_bytes
        self._parts: list[bytes] = []  # held back
        self._scanner: MessageScanner | None = None
        self._size = 0
        self.header: Header | None = None
        self.complete = False
        self.extra = b""  # bytes after its end, which should not be there

    @property
    def seen(self) -> bool:
        """At least one byte has arrived."""
        return bool(self._size)

    @property
    def held(self) -> bytes | None:
        """The whole reply if none of it was released."""
        if not self.complete or not self._parts:
            return None
        if len(self._parts) > 1:
            self._parts = [b"".join(self._parts)]
        return self._parts[0]

    def take(self, data: bytes) -> list[bytes]:
        """Take bytes from the metastore. Returns bytes that need not be held back any more, in order.

        Raises WireError if they are not a reply to the request.
        """
        end = self._scan(data)
        if end < len(data):
            self.extra = data[end:]
            data = data[:end]
        self._size += len(data)
        if self._hold_bytes < 0:
            return [data] if data else []
        if data:
            self._parts.append(data)
        header = self.header
        if header is None or (self.complete and len(self._parts) == 1):
            return []
        limit = EXCEPTION_BYTES if header.type is _EXCEPTION else self._hold_bytes
        if self._size <= limit and self._may_hold():
            return []
        if self._charge is not None:
            self._charge.close()
        parts, self._parts, self._hold_bytes = self._parts, [], -1
        return parts

    def _may_hold(self) -> bool:
        """Is there memory for all that has arrived?"""
        if self._size <= SMALL_BYTES:
            return True
        if self._charge is None:
            self._charge = Charge(self._memory, for_write=self._for_write, must=self._must)
        return self._charge.grow(self._size - self._charge.size)

    def _scan(self, data: bytes) -> int:
        """The end of the reply in data; the length of data if the reply goes on."""
        if self._scanner is None:
            header = parse_header(data, 0, self._limits)
            if header is not NEED_MORE:
                self._check(header)
                end = end_of_struct(data, header.body, self._limits)
                if end is not NEED_MORE:
                    self.complete = True
                    return end
            self._scanner = MessageScanner(self._limits)
        found = self._scanner.feed(data)
        if self.header is None and self._scanner.header is not None:
            self._check(self._scanner.header)
        if found is NEED_MORE:
            return len(data)
        self.complete = True
        return found

    def _check(self, header: Header) -> None:
        if header.type not in _FROM_METASTORES:
            raise WireError(f"a message of type {header.type.name} from a metastore")
        if header.name != _echoed(self._asked.name) or header.seqid != self._asked.seqid:
            raise WireError(
                f"the reply to {self._asked.name!r} {self._asked.seqid} is one to {header.name!r} {header.seqid}"
            )
        self.header = header


def _echoed(name: bytes) -> bytes:
    """A method's name as a metastore repeats it: Java reads it as UTF-8, with U+FFFD for invalid bytes."""
    return name if name.isascii() else name.decode("utf-8", "replace").encode()
