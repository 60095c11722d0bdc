"""`python -m tests.torture --seed 1 --minutes 10`: one run; the exit status is 1 if something was wrong or too slow."""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from pathlib import Path

from tests.testbed.bed import Bed
from tests.torture.faults import every
from tests.torture.run import tortured
from tests.torture.schedule import planned
from tests.torture.world import world

ROUNDS_FROM_MINUTES = 10


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.torture")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(100_000))
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--only", help="kinds of faults, separated by commas")
    parser.add_argument("--planted", help="a bug of tests/history/planted, in every process of the proxies")
    given = parser.parse_args()
    kinds = every(given.only.split(",") if given.only else None)
    random.seed(given.seed)
    rounds = 3 if given.minutes >= ROUNDS_FROM_MINUTES else 0
    plan = planned(given.seed, given.minutes * 60, {name: kind.seconds for name, kind in kinds.items()}, rounds=rounds)
    print(f"seed {given.seed}: {len(plan)} faults in {given.minutes:g} minutes", flush=True)
    bed = Bed()
    try:
        directory = Path(tempfile.mkdtemp(prefix="torture-"))
        print(directory)
        with world(directory, bed, planted=given.planted) as there:
            there.scale = min(1.0, given.minutes / ROUNDS_FROM_MINUTES)
            outcome = tortured(there, plan, seconds=given.minutes * 60)
    finally:
        bed.close()
    print(outcome.counts, outcome.failures, dict(outcome.kinds))
    for line in [*outcome.wrong[:20], *outcome.slow]:
        print(line)
    return int(bool(outcome.wrong or outcome.slow))


if __name__ == "__main__":
    sys.exit(main())
