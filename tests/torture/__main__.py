"""`python -m tests.torture --seed 1 --minutes 10`: one run; the exit status is 1 if something was wrong or too slow.

`--only` takes some kinds of faults, `--planted` a bug of tests/history/planted in all processes of the proxies; the
logs of the proxies are kept where one of these is given or the run has failed.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
from pathlib import Path

from tests import figures
from tests.testbed.bed import Bed
from tests.torture.faults import every
from tests.torture.report import written
from tests.torture.run import Outcome, tortured
from tests.torture.schedule import planned
from tests.torture.world import world

FULL_MINUTES = 10.0
"""From here on floods are as large as they are meant to be, and each kind of fault strikes three times."""


def run(seed: int, minutes: float, only: str | None, planted: str | None) -> tuple[Outcome, Path]:
    """One run, and where the proxies' logs are."""
    kinds = every(only.split(",") if only else None)
    random.seed(seed)
    rounds = 3 if minutes >= FULL_MINUTES else 0
    plan = planned(seed, minutes * 60, {name: kind.seconds for name, kind in kinds.items()}, rounds=rounds)
    print(f"seed {seed}: {len(plan)} faults in {minutes:g} minutes", flush=True)
    directory = Path(tempfile.mkdtemp(prefix="torture-"))
    bed = Bed()
    try:
        with world(directory, bed, planted=planted) as there:
            there.scale = min(1.0, minutes / FULL_MINUTES)
            return tortured(there, plan, seconds=minutes * 60), directory
    finally:
        bed.close()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.torture")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(100_000))
    parser.add_argument("--minutes", type=float, default=FULL_MINUTES)
    parser.add_argument("--only", help="kinds of faults, separated by commas")
    parser.add_argument("--planted", help="a bug of tests/history/planted, in every process of the proxies")
    parser.add_argument("--figures", action="store_true", help="keep what was found in docs/figures/torture")
    given = parser.parse_args()
    of = figures.origin("hms_cache_proxy", "tests/torture")
    outcome, directory = run(given.seed, given.minutes, given.only, given.planted)
    print(outcome.summary())
    if given.figures:
        print(written(outcome, seed=given.seed, minutes=given.minutes, of=of))
    failed = bool(outcome.wrong or outcome.slow)
    if failed or given.only or given.planted:
        print(f"logs: {directory}")
    else:
        shutil.rmtree(directory)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
