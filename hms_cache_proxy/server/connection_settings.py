"""The settings that each client connection needs, in the units that it counts in.

Must not know: where they come from. Owner: the worker, which makes one for all connections.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hms_cache_proxy.server.spool import SpoolRoom
from hms_cache_proxy.wire.message import MessageLimits


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """The settings that a connection needs."""

    limits: MessageLimits
    idle_timeout_ns: int  # 0: never
    request_timeout_ns: int
    upstream_idle_ns: int = 0  # an upstream connection that is idle for this long is released; 0: never
    room: SpoolRoom = field(default_factory=SpoolRoom)  # for what is too large to be left in memory
