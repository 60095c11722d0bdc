"""Random calls on Hive 4.2.0 and on the embedded metastore: replies, file trees, and all that both keep.

Long runs: `python -m tests.embedded.random_calls --seed 1 --runs 10 --steps 500`. `SEED` and `STEPS` change what the
ordinary tests run.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.chance import run_seed
from tests.embedded.conftest import BACKENDS
from tests.embedded.random_calls import AS_HIVE, compared
from tests.embedded.random_guard import Guarded
from tests.testbed.bed import Bed
from tests.testbed.metastore import Metastore

SEED = run_seed()
STEPS = int(os.environ.get("STEPS", "60"))


@pytest.fixture(scope="module", params=BACKENDS)
def as_hive(request: pytest.FixtureRequest, bed: Bed) -> Iterator[Metastore]:
    """One that removes directories which other objects live in, as Hive does."""
    metastore = bed.private_metastore(request.param, settings=AS_HIVE)
    yield metastore
    bed.release(metastore)


@pytest.mark.real
def test_apart(hms42: Metastore, as_hive: Metastore, unique_name: str) -> None:
    """Objects that have their directories for themselves: parameters, statistics, columns, files."""
    found = compared(hms42, as_hive, unique_name, SEED, STEPS, overlapping=False)
    assert not found, found


@pytest.mark.real
def test_overlapping(hms42: Metastore, as_hive: Metastore, unique_name: str) -> None:
    """Objects that share directories or lie in each other's."""
    found = compared(hms42, as_hive, unique_name, SEED, STEPS, overlapping=True)
    assert not found, found


@pytest.mark.real
def test_guard(embedded: Metastore, unique_name: str) -> None:
    """With the guard, no call takes files away from an object that it does not name."""
    run = Guarded(embedded, unique_name, SEED)
    try:
        found = run.run(STEPS)
    finally:
        run.close()
    assert not found, found
