"""How a request on a client's connection ends, whether the proxy or a metastore answers it.

Job: what the two sides of a connection (own_replies.py, exchange.py) return to connection.py. Must not know: replies.
Owner: none; no state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hms_cache_proxy.server.commands import Why


@dataclass(frozen=True, slots=True)
class Finished:
    """The request has ended; the client has its answer, unless it is gone or expects none."""


@dataclass(frozen=True, slots=True)
class MustClose:
    """The request has ended, and the client's connection has to be closed."""

    why: Why
    detail: str


FINISHED: Final = Finished()
ReplyEnding = Finished | MustClose
