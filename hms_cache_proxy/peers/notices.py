"""Log lines about peers. A peer that does not belong here dials again every two seconds, and anybody can open the port.

Job: the same line about the same address is logged again only after SAME_NS, and another one about it after OTHER_NS;
the next line says how many were left out. Must not know: what is logged. Owner: the peers' process.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import structlog

SAME_NS: Final = 600 * 1_000_000_000
OTHER_NS: Final = 1_000_000_000
ADDRESSES: Final = 1000
"""Beyond so many, all are forgotten."""

log = structlog.get_logger()


@dataclass(slots=True)
class _Said:
    at_ns: int
    reason: str
    left_out: int = 0


class PeerNotices:
    """What was said of which address."""

    def __init__(self) -> None:
        self._said: dict[tuple[str, str], _Said] = {}

    def say(self, event: str, address: str, reason: str, now_ns: int) -> None:
        """Log a warning, or count that it is left out."""
        said = self._said.get((event, address))
        if said is not None and now_ns - said.at_ns < (SAME_NS if said.reason == reason else OTHER_NS):
            said.left_out += 1
            return
        if said is None and len(self._said) >= ADDRESSES:
            self._said.clear()
        self._said[event, address] = _Said(now_ns, reason)
        left_out = {"left_out": said.left_out} if said is not None and said.left_out else {}
        log.warning(event, address=address, reason=reason, **left_out)
