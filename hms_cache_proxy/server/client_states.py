"""The states of a client connection: one type for each, with exactly what is known in that state.

Job: `connection.py` moves from one to the next:

    Listening -> (WaitingForLook | WaitingForStep | Working ->) Serving | (WaitingForPeers ->) Relaying -> Listening

Each state can be followed by Over. HotPathUse is all that the driver needs to know of the state.
Must not know: when any of this happens. Owner: one ClientConnection.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from hms_cache_proxy.methods.decision import Forward, Serve, Work
from hms_cache_proxy.server.inbox import Request


class HotPathUse:
    """Whether a chunk may be tried on the hot path. (Plain numbers, because to read a member of an enum costs twenty
    times as much as to read a constant.)"""

    GENERAL = 0
    HOT = 1
    HOT_FRAMED = 2


@dataclass(frozen=True, slots=True)
class Listening:
    """The connection waits for the next request."""


@dataclass(slots=True)
class WaitingForStep:
    """The cache can answer the request in a moment: after a step of the follower, or another read's reply."""

    request: Request
    arrived_ns: int
    until_ns: int


@dataclass(slots=True)
class WaitingForLook:
    """The hot path can answer the request in a moment. `data`: the request, which is what comes next in the inbox."""

    data: bytes
    arrived_ns: int
    until_ns: int


@dataclass(frozen=True, slots=True)
class Working:
    """The answer is being made, in slices."""

    request: Request
    arrived_ns: int
    work: Work


@dataclass(frozen=True, slots=True)
class Serving:
    """A reply is being sent, in slices."""

    request: Request
    arrived_ns: int
    serve: Serve
    slices: Iterator[bytes]


@dataclass(frozen=True, slots=True)
class WaitingForPeers:
    """The request may leave when other proxies know of it."""

    request: Request
    forward: Forward


@dataclass(frozen=True, slots=True)
class Relaying:
    """The exchange has the request."""


@dataclass(frozen=True, slots=True)
class Over:
    """The connection is closed, or about to be."""


LISTENING: Final = Listening()
RELAYING: Final = Relaying()

ClientState = Listening | WaitingForLook | WaitingForStep | Working | Serving | WaitingForPeers | Relaying | Over
