"""Writes results into the recording: new results are queued on the loop and written by a thread.

Job: leave out results that any worker has written already, limit the queue, and stop at the set time, at the set size,
or if the disk fails. Count what happens. Must not know: which calls are recorded, sessions.

Invariants: `put` never waits (a result costs a hash of its request and of itself). At most QUEUE_BYTES wait. A result
that is not written is counted, with a log line for the first one of each cause. If the process is killed, the queue is
lost, which has the results of at most FLUSH_INTERVAL_S. Owner: one per worker; `put` and `take` on its loop, `write` in
one thread at a time. Both use one dict, one flag and the time of `take`, each in single operations.
"""

from __future__ import annotations

import os
import time
from typing import Final, Literal

import structlog

from hms_cache_proxy.errors import ProxyError
from hms_cache_proxy.metrics import WorkerMetrics
from hms_cache_proxy.recording.file import Damage, RecordingFile
from hms_cache_proxy.recording.format import Record, RecordingState, digest, encode

QUEUE_BYTES: Final = 128 << 20
FLUSH_INTERVAL_S: Final = 0.1
REMEMBERED: Final = 200_000
"""Requests whose last result is known to be in the file. Beyond that, all are forgotten and written once more."""

log = structlog.get_logger()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class Writer:
    """Queues and writes results. `active`: recording goes on."""

    def __init__(self, path: str, max_bytes: int, metrics: WorkerMetrics) -> None:
        """Opens a recording that was begun. ConfigError if it is not a recording."""
        self._path = path
        self._max_bytes = max_bytes
        self._metrics = metrics
        self._file = RecordingFile.to_append(path)
        header = self._file.header()
        self._until_ms = header.until_ms
        self._read_to = header.end
        self._written: dict[bytes, int] = {}
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._taken_ms = _now_ms()
        self._said: set[str] = set()
        self.active = header.state is RecordingState.OPEN
        self._stop_if_over()

    def put(self, method: bytes, arguments: bytes, kind: int, result: bytes) -> None:
        """Queue the result of a call; `kind` is the type of its reply. A result after the set time is left out, even if
        `write` has not stopped yet."""
        now_ms = _now_ms()
        if not self.active or self._is_over(now_ms):
            return
        request, value = digest(method, arguments), hash(result)
        if self._written.get(request) == value:
            return
        size = len(arguments) + len(result)
        if self._waiting_bytes + size > QUEUE_BYTES:
            self.left_out("lost", "the disk is too slow for the calls")
            return
        if len(self._written) >= REMEMBERED:
            self._written.clear()
        self._written[request] = value
        self._waiting.append(encode(Record(now_ms, kind, method, arguments, result)))
        self._waiting_bytes += size

    def left_out(self, how: Literal["too_large", "lost"], why: str) -> None:
        """Count a result that is not recorded, and log the cause."""
        self._metrics.recorded(how)
        if why not in self._said:
            self._said.add(why)
            log.warning("a result was not recorded", file=self._path, why=why, later="further ones are only counted")

    def take(self) -> list[bytes]:
        """Take the queue, to be given to `write`."""
        self._taken_ms = _now_ms()
        waiting, self._waiting = self._waiting, []
        self._waiting_bytes = 0
        return waiting

    def write(self, waiting: list[bytes]) -> None:
        """Write these records, and check whether recording goes on."""
        if waiting and self.active:
            self._append(waiting)
        if self.active:
            self._learn()
        self._stop_if_over()

    def close(self) -> None:
        """Write the queue and close the file."""
        self.write(self.take())
        self._file.close()

    def _append(self, records: list[bytes]) -> None:
        try:
            written = self._file.append(records, self._max_bytes)
        except (OSError, ProxyError) as error:
            reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
            self._stop(f"it cannot be written: {reason}")
            written = 0
        self._metrics.recorded("kept", written)
        self._metrics.recorded("lost", len(records) - written)
        if self.active and written < len(records):
            self._stop("the file has reached record_max_bytes")

    def _learn(self) -> None:
        """Read what other workers have written: it need not be written again, and replaces what was the last result."""
        end = self._file.header().end
        for found in self._file.records(end, self._read_to):
            if isinstance(found, Damage):
                self._stop(str(found))
                return
            record = found.record
            request, value = digest(record.method, record.arguments), hash(record.result)
            if self._written.setdefault(request, value) != value:
                self._written.pop(request, None)
        self._read_to = end

    def _is_over(self, now_ms: int) -> bool:
        return 0 < self._until_ms <= now_ms

    def _stop_if_over(self) -> None:
        """Stop at the set time, after everything from before it was taken."""
        if self.active and self._is_over(self._taken_ms):
            self._stop("record_for is over")

    def _stop(self, why: str) -> None:
        self.active = False
        self._written.clear()
        log.warning("recording has stopped", file=self._path, why=why)
