"""Passes cancelled tokens between the file that the workers share and the Fleet.

Job: keep what peers have told until it is in the file, and read from the file what to tell them. Must not know:
messages, connections. Records of tokens that have expired, or that end later than any token can, are left out, so peers
cannot make the file grow beyond its usual bound. `exchange` may wait for the disk, so it is called in a thread.
Owner: the peers' process.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hms_cache_proxy.config.tokens import LONGEST_S
from hms_cache_proxy.security.cancelled_tokens import MOST, CancelledTokens, packed, unpacked


class PeerCancellations:
    """`waiting`: what peers have told, and is not in the file yet."""

    def __init__(self, file: CancelledTokens) -> None:
        self._file = file
        self._shown: Mapping[bytes, int] = {}
        self.waiting: dict[bytes, int] = {}

    def told(self, records: Iterable[bytes], now_ms: int) -> None:
        """A peer has told of these. With more than fit into the file, `exchange` says that there was no room."""
        for digest, until_ms in unpacked(records).items():
            if now_ms <= until_ms <= now_ms + 1000 * LONGEST_S and len(self.waiting) <= MOST:
                self.waiting[digest] = until_ms

    def take(self) -> dict[bytes, int]:
        """What is waiting, which waits no more."""
        taken, self.waiting = self.waiting, {}
        return taken

    def put_back(self, taken: dict[bytes, int]) -> None:
        """It could not be written."""
        self.waiting = {**taken, **self.waiting}

    def exchange(self, taken: Mapping[bytes, int], now_ms: int) -> tuple[tuple[bytes, ...] | None, bool]:
        """Write these into the file. Returns the records that are there then (None: the same as last time), and whether
        there was room. OSError."""
        fitted = not taken or self._file.add_all(taken, now_ms)
        found = self._file.all()
        if found is self._shown:
            return None, fitted
        self._shown = found
        return packed(one for one in found.items() if one[1] >= now_ms), fitted
