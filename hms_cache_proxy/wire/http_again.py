"""Recognizes a head that a client has sent before, so that the request need not be parsed.

Job: a client sends the same head with every request, except for the length of the body. If the parser has accepted a
head once, it would accept it again. Heads that are not recognized are parsed, so this only saves time. Must not know:
connections, users.
Invariant: bytes that are recognized are exactly one request, and the parser would return the same head for them, except
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
