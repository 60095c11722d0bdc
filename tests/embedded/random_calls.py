"""`python -m tests.embedded.random_calls`: long runs of random calls, on Hive 4.2 and on the embedded metastore.

Job: start both, run seeds, print what differs and how to repeat it. Must not know: how calls are drawn and compared.
"""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import ExitStack

from tests.embedded.random_run import Difference, Run
from tests.testbed.bed import Bed
from tests.testbed.embedded import EMBEDDED
from tests.testbed.metastore import Metastore

AS_HIVE = {"METASTORE_DELETE_SHARED_DIRECTORIES": "true"}
"""Without the guard over directories that others live in, which Hive does not have."""


def described(seed: int, overlapping: bool, difference: Difference) -> str:
    """One difference, and how to see it again."""
    method, arguments = difference.step
    again = f"SEED={seed} python -m tests.embedded.random_calls --steps {difference.number}"
    again += "" if overlapping else " --apart"
    return f"seed {seed}, step {difference.number}: {difference.what}\n  {method} {arguments!r}\n  again: {again}"


def compared(hive: Metastore, ours: Metastore, name: str, seed: int, steps: int, *, overlapping: bool) -> str:
    """One run; its difference, described, or nothing."""
    run = Run(hive, ours, name, seed, overlapping=overlapping)
    try:
        difference = run.run(steps)
    finally:
        run.close()
    return "" if difference is None else described(seed, overlapping, difference)


def main() -> int:
    """The command line; 1 if anything differed."""
    parser = argparse.ArgumentParser(prog="python -m tests.embedded.random_calls", description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=int(os.environ.get("SEED", "1")), help="the first one (SEED)")
    parser.add_argument("--runs", type=int, default=1, help="seeds from there on")
    parser.add_argument("--steps", type=int, default=int(os.environ.get("STEPS", "500")), help="of each run (STEPS)")
    parser.add_argument("--flavour", choices=sorted(EMBEDDED), default="embedded")
    parser.add_argument("--apart", action="store_true", help="no object shares a directory with another")
    options = parser.parse_args()
    different = 0
    with ExitStack() as stack:
        bed = Bed()
        stack.callback(bed.close)
        hive = bed.shared("hive42")
        ours = bed.private_metastore(options.flavour, settings=AS_HIVE)
        for seed in range(options.seed, options.seed + options.runs):
            found = compared(hive, ours, f"random_{seed}", seed, options.steps, overlapping=not options.apart)
            different += bool(found)
            print(found or f"seed {seed}: {options.steps} steps, no difference", flush=True)
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
