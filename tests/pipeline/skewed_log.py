"""An access log whose right advice is known by construction.

1,000 reads of each of ten tables `sales.hot_NN` (1 MiB each), 50 of each of twenty `sales.warm_NN` (10 MiB each), one
of each of a hundred `tmp.scratch_NNN` (50 MiB each), 500 of `acid.ledger` that no cache can serve, 200 of the database
and 5 of many tables at once. So, of 11,805 reads, 11,305 can be hits; 90 % (10,625) need these 205, the hot ones
(10,000) and nine of the warm ones (450).

Job: write such files. Must not know: how they are read.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

MIB = 1 << 20
BEGIN = datetime(2026, 11, 22, 16, 0, tzinfo=UTC)
HOT = [f"hot_{number:02}" for number in range(10)]
WARM = [f"warm_{number:02}" for number in range(20)]
SCRATCH = [f"scratch_{number:03}" for number in range(100)]
NEVER = ["sales.forgotten", "old.a", "old.b"]
READS, SERVED, HITS, REACHED = 11_805, 11_305, 10_205, 10_655
DATABASE_BYTES = 700
LATE = '{"time":"9999-12-31T23:59:59Z","method":"get_table","outcome":"hit","reason":"","bytes":1,"us":1}'
BAD = ["", "  ", LATE, '{"time":"2026-11-22T16:00:0', "not json at all", '{"level":"info","event":"worker listens"}']


@dataclass
class Log:
    """Lines, spread over an hour."""

    sample: float = 1.0
    lines: list[str] = field(default_factory=list)

    def add(self, times: int, method: str, object: str | None, outcome: str = "hit", **more: Any) -> None:
        """So many equal calls; `minute`: all of them in this one."""
        minute = more.pop("minute", None)
        for number in range(times):
            place = minute if minute is not None else (len(self.lines) * 7 + number) % 60
            line = {
                "time": f"{BEGIN + timedelta(minutes=place, milliseconds=13 * number % 60_000):%Y-%m-%dT%H:%M:%S.000Z}",
                "method": method,
                "object": object,
                "outcome": outcome,
                "reason": "",
                "bytes": 1000,
                "us": 20 if outcome == "hit" else 4000,
                "client": f"10.0.0.{number % 4}:{40_000 + number}",
                "user": "etl",
                **more,
                **({"sample": self.sample} if self.sample < 1 else {}),
            }
            self.lines.append(json.dumps(line))

    def write(self, path: Path) -> None:
        text = "\n".join(self.lines) + "\n"
        if path.suffix == ".gz":
            path.write_bytes(gzip.compress(text.encode()))
        else:
            path.write_text(text, "utf-8")


def skewed() -> Log:
    """The log, without lines that are none."""
    log = Log()
    log.add(200, "get_database", "hive.sales", bytes=DATABASE_BYTES)
    for number, table in enumerate(HOT):
        name = f"hive.sales.{table}"
        # The size is the largest reply of each method: 4 + 1,020 KiB.
        log.add(600, "get_table", name, bytes=4096)
        log.add(1, "get_partitions", name, bytes=MIB - 4096)
        if number == 0:
            log.add(39, "get_partitions", name, bytes=MIB - 4096, user="bi", client="10.0.0.8:1")
            log.add(360, "get_table", name, bytes=4000)
        else:
            log.add(399, "get_table", name, bytes=4000)
    for table in WARM:
        log.add(50, "get_partitions_by_names", f"hive.sales.{table}", "miss", reason="not_loaded", bytes=10 * MIB)
    for table in SCRATCH:
        log.add(1, "get_table", f"hive.tmp.{table}", "miss", reason="full", bytes=50 * MIB)
    log.add(500, "get_table", "hive.acid.ledger", "miss", reason="no_write_id", bytes=3000)
    poller = {"user": "poller", "client": "10.0.0.9:5", "minute": 30}
    log.add(900, "get_current_notificationEventId", None, "relay", reason="events", **poller)
    log.add(30, "alter_table", "hive.sales.hot_01", "write")
    log.add(20, "get_table", "hive.sales.hot_01", "error", reason="no_upstream", bytes=60)
    log.add(5, "get_table_objects_by_name", "hive.sales", tables=40, bytes=90)
    return log


def catalogue() -> Iterator[str]:
    """All tables, those that nobody reads too."""
    yield from (f"sales.{table}" for table in HOT + WARM)
    yield from (f"tmp.{table}" for table in SCRATCH)
    yield "acid.ledger"
    yield from NEVER


def relayed_sample() -> Log:
    """A proxy without a cache, one call of five: 400 reads of `d.t` and 100 of `d.u`, which a cache would serve."""
    log = Log(sample=0.2)
    log.add(80, "get_table", "hive.d.t", "relay", reason="no_store", bytes=2 * MIB, user=None)
    log.add(20, "get_table", "hive.d.u", "relay", reason="no_store", bytes=2 * MIB, user=None)
    return log
