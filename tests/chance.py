"""Chance in tests: new in each run, the same again with the run's SEED.

Job: seeds and generators that come from SEED (tests/tiers_plugin.py makes and prints it), and hypothesis set up to take
its examples from it. The `random` module is seeded in each test by the same; what is here is for generators that tests
hand on, and for what modules draw.
Must not know: what is drawn.
"""

from __future__ import annotations

import os
import random

import hypothesis
import pytest


def run_seed() -> int:
    """The run's. KeyError outside of a run of tests."""
    return int(os.environ["SEED"])


def chance(*names: object) -> random.Random:
    """A generator of its own for these names."""
    return random.Random(" ".join(map(str, (run_seed(), *names))))


def for_hypothesis(config: pytest.Config) -> None:
    """Its examples come from the run's seed, too, where CI is set as well (its own profile there draws the same in
    each run); a busy machine is no fault of an example."""
    hypothesis.settings.register_profile(
        "run",
        derandomize=False,
        database=None,
        deadline=None,
        print_blob=True,
        suppress_health_check=[hypothesis.HealthCheck.too_slow],
    )
    hypothesis.settings.load_profile("run")
    config.option.hypothesis_seed = str(run_seed())


def told(message: str) -> str:
    """The message of a failure, with what repeats it."""
    return f"{message}\n(SEED={run_seed()} draws the same again)"
