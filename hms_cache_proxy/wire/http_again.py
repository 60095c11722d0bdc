"""A head that a client has sent before, and by which its next request is known without parsing.

Job: a client sends the same head with every request, but for the length of the body. What the parser has read once, and
found right, it would read again. Must not know: connections, users. What is not known again is parsed, so this only
saves time.
Invariant: bytes that are known again are exactly one request, and the parser would return the same head for them, but
for the length, and the same body. Owner: one HttpReader.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

KEPT_BYTES: Final = 1 << 12  # of a head; longer ones are parsed each time
_LENGTH: Final = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,9})\r\n", re.IGNORECASE)
"""In a head that the parser has accepted this is a header: it refuses lines that continue another one, and a second
length."""


class KnownHead(NamedTuple):
    """The bytes before and behind the digits of its length."""

    before: bytes
    behind: bytes

    def body(self, data: bytes) -> bytes | None:
        """The body, if these bytes are one more request with this head, and nothing else."""
        if not data.startswith(self.before):
            return None
        begin = len(self.before)
        end = data.find(b"\r", begin, begin + 10)
        digits = data[begin:end]
        if end < 0 or not digits.isdigit() or not data.startswith(self.behind, end):
            return None
        body = data[end + len(self.behind) :]
        return body if len(body) == int(digits) > 0 else None


def known(head: bytes) -> KnownHead | None:
    """Of the bytes of a head that was parsed; None if it is not kept."""
    found = _LENGTH.search(head) if len(head) <= KEPT_BYTES else None
    return None if found is None else KnownHead(head[: found.start(1)], head[found.end(1) :])
