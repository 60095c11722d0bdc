"""What readers may see, and whether they got it.

A register has a version that only grows: its writer (one at a time) notes `begin` before and `end` after each change.
A read through a port that began at t0 and ended at t1 must return at least
- the newest version whose write through the same proxy ended before t0 (read-your-writes for all clients of a proxy),
- what this connection has seen of the register before (monotonic reads),
- the newest version whose write anywhere ended before t0 - bound (bounded staleness),
- the newest version whose event id is not above one that the proxy had handed out before t0 (readers of the log),
- for the metastore's own port: the newest version that ended before t0;
and at most the newest version whose write began before t1.
Must not know: how versions are stored in a metastore.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from dataclasses import dataclass, field


@dataclass(slots=True)
class Write:
    version: int
    port: int
    began_ns: int
    ended_ns: int | None = None  # None: in flight, or its outcome is unknown for ever
    event_id: int | None = None  # a notification event id not below the write's own


@dataclass
class Checker:
    """Thread-safe; `direct` is the metastore's own port."""

    direct: int
    bound_ns: int
    writes: dict[str, list[Write]] = field(default_factory=lambda: defaultdict(list))
    handed_out: dict[int, int] = field(default_factory=dict)  # port -> largest event id seen through it
    violations: list[str] = field(default_factory=list)
    reads: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, register: str, version: int, port: int, now_ns: int) -> Write:
        write = Write(version, port, now_ns)
        with self._lock:
            self.writes[register].append(write)
        return write

    def end(self, write: Write, now_ns: int) -> None:
        write.ended_ns = now_ns

    def required(self, register: str, port: int, began_ns: int, *, strict: bool = False) -> int:
        """The oldest version that a read that begins now through this port may return; `strict`: it must see writes
        through any port."""
        floor = self.handed_out.get(port, 0)
        for write in reversed(self.writes.get(register, ())):  # versions ascend, and the last few nearly always decide
            if write.ended_ns is None:
                continue
            same = strict or write.port == port or port == self.direct
            known = write.event_id is not None and write.event_id <= floor
            if known or write.ended_ns < (began_ns if same else began_ns - self.bound_ns):
                return write.version
        return 0

    def hand_out(self, port: int, event_id: int) -> None:
        """A client has read this event id through the port."""
        with self._lock:
            self.handed_out[port] = max(self.handed_out.get(port, 0), event_id)

    def newest(self, register: str, ended_ns: int) -> int:
        """The newest version whose write had begun by then."""
        return next((w.version for w in reversed(self.writes.get(register, ())) if w.began_ns <= ended_ns), 0)

    def read(
        self, register: str, port: int, version: int, *, required: int, seen: int, ended_ns: int, how: str
    ) -> None:
        """Check one finished read; `required` was asked for before it began."""
        problem = None
        if version < required:
            problem = f"required {required} (a write through this proxy, or past the bound)"
        elif version < seen:
            problem = f"this connection saw {seen} before"
        elif version > self.newest(register, ended_ns):
            problem = "nobody has written that"
        with self._lock:
            self.reads += 1
        if problem is not None:
            self.violated(register, port, how, f"read {version}, {problem}")

    def violated(self, register: str, port: int, how: str, problem: str) -> None:
        """Note an answer that must not be."""
        where = "the metastore" if port == self.direct else f"port {port}"
        with self._lock:
            self.violations.append(f"{register} by {how} on {where}: {problem}")
