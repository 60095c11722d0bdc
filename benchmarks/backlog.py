"""`python -m benchmarks.backlog [--rows 20000,90000,1000000]`: a follower that comes back to a long log.

The log of an embedded metastore is filled by SQL, in one transaction, with ADD_PARTITION rows as Hive writes them; then
one step follows it, in a process of its own whose peak memory is told. `same`: all rows name one partition; `new`: each
names another. Must not know: how a step works.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks import kept
from tests.follower.stepping import Catalog, Stepping

PARTITIONS = 2_000
KINDS = ("same", "new")


def child(directory: Path) -> None:
    """One step over what is there; prints what it took."""
    with Catalog(directory) as catalog, Stepping(directory / "data", catalog) as stepping:
        before = peak_bytes()
        began, cpu = time.monotonic(), time.process_time()
        outcome = stepping.step()
        took = {"seconds": time.monotonic() - began, "cpu_s": time.process_time() - cpu}
        reset = outcome.reset.value if outcome.reset else "followed"
        more_mb = (peak_bytes() - before) / 2**20
        print(json.dumps({**took, "peak_mb": more_mb, "rows": outcome.rows, "reset": reset}))


def peak_bytes() -> int:
    """The most memory that this process has had (getrusage also tells of the one that started it)."""
    status = Path("/proc/self/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))) << 10


def prepared(directory: Path, rows: int, kind: str) -> None:
    """A catalog, a cache of it, and the log."""
    with Catalog(directory) as catalog:
        catalog.table(b"t")
        for start in range(0, PARTITIONS, 1000):
            catalog.add(b"t", [b"%06d" % number for number in range(start, start + 1000)])
        with Stepping(directory / "data", catalog) as stepping:
            stepping.settle()
        catalog.add(b"t", [b"@"])
        message = catalog.newest_message()
        catalog.events(rows, plain(message) if kind == "new" else "")


def plain(message: str) -> str:
    """A packed message as it was before."""
    return gzip.decompress(base64.b64decode(message)).decode()


def measure(rows: int, kind: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="hms-bench-") as directory:
        prepared(Path(directory), rows, kind)
        command = [sys.executable, "-m", "benchmarks.backlog", "--child", directory]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=3600)
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.backlog", description=__doc__)
    parser.add_argument("--rows", default="20000,90000,1000000", help="lengths of the log")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    kept.option(parser)
    options = parser.parse_args()
    if options.child:
        child(options.child)
        return
    of = kept.origin()
    rows = []
    for number in map(int, options.rows.split(",")):
        for kind in KINDS:
            found = measure(number, kind)
            each_us = found["cpu_s"] / found["rows"] * 1e6 if found["rows"] else 0
            rows.append([f"{number:,} `{kind}`", found["reset"], found["seconds"], each_us, found["peak_mb"]])
            print(*rows[-1], sep="\t", flush=True)
    if options.keep:
        head = ["rows of the log", "what the step did", "seconds", "CPU us per row that was read", "MB more at most"]
        command = f"python -m benchmarks.backlog --rows {options.rows} --keep"
        kept.keep("single/backlog", kept.table("", head, rows, text=2), command=command, of=of)


if __name__ == "__main__":
    main()
