"""The states of a client connection: a type for each, with what is known in it and nothing else.

Job: `connection.py` moves from one to the next:

    Listening -> (WaitingForStep | Working ->) Serving | Relaying -> Listening

From each of them the way leads to Over. Must not know: when any of this happens. Owner: one ClientConnection.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hms_cache_proxy.methods.decision import Serve, Work
from hms_cache_proxy.server.inbox import Request


@dataclass(frozen=True, slots=True)
class Listening:
    """The next request is waited for."""


@dataclass(frozen=True, slots=True)
class WaitingForStep:
    """There is a request that the cache can answer in a moment."""

    request: Request
    arrived_ns: int
    until_ns: int


@dataclass(frozen=True, slots=True)
class Working:
    """The answer is being looked for, in slices."""

    request: Request
    arrived_ns: int
    work: Work


@dataclass(frozen=True, slots=True)
class Serving:
    """A reply is being built from slices."""

    request: Request
    arrived_ns: int
    serve: Serve
    slices: Iterator[bytes]


@dataclass(frozen=True, slots=True)
class Relaying:
    """The request is the exchange's."""


@dataclass(frozen=True, slots=True)
class Over:
    """The connection is closed, or about to be."""


ClientState = Listening | WaitingForStep | Working | Serving | Relaying | Over
