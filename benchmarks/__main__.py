"""`python -m benchmarks [--seconds S] [--vast N] [--no-report]`: measure everything in one run.

`--only PART[,PART]` measures these parts instead (parts.py), each on servers of its own.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

from benchmarks import kept, parts
from benchmarks.report import write
from benchmarks.run import VAST, Runner
from benchmarks.servers import stage


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0, help="for each figure")
    parser.add_argument(
        "--vast", type=int, default=VAST, help="partitions more for prewarm and restart; 0: leave these out"
    )
    parser.add_argument("--no-report", action="store_true", help="print only")
    parser.add_argument("--only", metavar="PART[,PART]", help=f"of {', '.join(parts.PARTS)}; instead of the run")
    options = parser.parse_args()
    if options.only:
        chosen = options.only.split(",")
        if unknown := set(chosen).difference(parts.PARTS):
            parser.error(f"no such part: {', '.join(sorted(unknown))}")
        return parts.run(chosen, keep=not options.no_report)
    of = kept.origin()
    with tempfile.TemporaryDirectory(prefix="hms-bench-") as directory, stage(Path(directory)) as bench:
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its bytecode: a start must not
        os.environ["PYTHONPYCACHEPREFIX"] = f"{directory}/bytecode"  # compile it, nor leave any in the source tree
        run = Runner(bench, seconds=options.seconds, vast=options.vast).all()
    if not options.no_report:
        write(run, of)


if __name__ == "__main__":
    main()
