"""What a long job shows: a bar on a terminal, lines elsewhere; and at its end a line about the snapshot."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import threading
from dataclasses import dataclass, replace

from hms_cache_proxy.pipeline.build import summary
from hms_cache_proxy.pipeline.progress import LineReport, reported
from hms_cache_proxy.snapshots.manifest import File
from tests.snapshots.test_manifest import MADE

SCRIPT = """
from hms_cache_proxy.pipeline.progress import reporting
with reporting() as report:
    report.at("partitions", 0, 20_000)
    report.tell("tables: 1.5 s")
    report.at("partitions", 5_000, 20_000)
    report.at("partitions", 20_000, 20_000)
    report.tell("[over]")
"""


def test_lines_where_there_is_no_terminal() -> None:
    ended = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=300, check=True)
    assert ended.stderr.splitlines() == ["tables: 1.5 s", "partitions: 5,000 of 20,000", "[over]"]
    assert not ended.stdout


@dataclass
class Some:
    """Objects."""

    size: int


def test_rounds() -> None:
    """What is done is told before each of them, and at the end."""
    told = list[str]()

    class Every(LineReport):
        def at(self, name: str, done: int, total: int) -> None:
            told.append(f"{name} {done} {total}")

    for some in reported(Every(told.append), "tables", [[Some(2), Some(3)], [Some(4)]]):
        told.append(str(len(some)))
    assert told == ["tables 0 9", "2", "tables 5 9", "1", "tables 9 9"]


def test_a_bar_on_a_terminal() -> None:
    ours, theirs = pty.openpty()
    seen = bytearray()

    def read() -> None:
        try:
            while data := os.read(ours, 4096):
                seen.extend(data)
        except OSError:  # Linux says so when nobody holds the other end any more
            return

    reader = threading.Thread(target=read)
    reader.start()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    try:
        subprocess.run([sys.executable, "-c", SCRIPT], stderr=theirs, env=environment, timeout=300, check=True)
    finally:
        os.close(theirs)
        reader.join()
        os.close(ours)
    text = seen.decode()
    assert "partitions" in text and "━" in text and "0/20000" in text
    assert "tables: 1.5 s" in text and "[over]" in text


def test_the_line_about_a_snapshot() -> None:
    full = replace(
        MADE, counts={"databases": 1, "tables": 2, "partitions": 3_000}, files=(File("tables", "t", 2, 9, ""),)
    )
    assert summary(full) == "1 database, 2 tables, 3,000 partitions as of events 17 to 18; 1 file, 9 bytes"
    increment = replace(full, before=18, counts={**full.counts, "changes": 1})
    said = (
        "1 database, 2 tables, 3,000 partitions of the last full snapshot with 1 change as of event 18; 1 file, 9 bytes"
    )
    assert summary(increment) == said
    assert "3,000 partitions as of" in summary(replace(increment, counts={**full.counts, "changes": 0}))
