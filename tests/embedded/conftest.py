"""Fixtures: the embedded metastore on SQLite and PostgreSQL, and one in the test's own process, each for a module."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from tests.embedded.within import Within, metastore_in
from tests.testbed.bed import Bed
from tests.testbed.embedded import EMBEDDED
from tests.testbed.metastore import Metastore
from tests.testbed.postgres import MetastoreDatabase

_numbers = itertools.count(1)
BACKENDS = tuple(EMBEDDED)


def new_database(bed: Bed) -> MetastoreDatabase:
    """An empty PostgreSQL database."""
    return bed.postgres.create_empty_database(f"embedded_{next(_numbers)}")


@pytest.fixture(scope="module", params=BACKENDS)
def embedded(request: pytest.FixtureRequest, bed: Bed) -> Iterator[Metastore]:
    """One metastore for a module's tests, on each kind of database."""
    metastore = bed.private_metastore(request.param)
    yield metastore
    bed.release(metastore)


@pytest.fixture(scope="module")
def within(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Within]:
    """One metastore for a module's tests, on SQLite, in their own process."""
    with metastore_in(tmp_path_factory.mktemp("metastore")) as one:
        yield one
