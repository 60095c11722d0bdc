"""Fixtures: an embedded metastore on SQLite or PostgreSQL, one for each test or one for a module."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.embedded.process import Embedded
from tests.testbed.bed import Bed
from tests.testbed.postgres import SUPERUSER

_numbers = itertools.count(1)
BACKENDS = ("sqlite", "postgresql")


def new_database(bed: Bed) -> str:
    """The URL of an empty PostgreSQL database."""
    name = f"embedded_{next(_numbers)}"
    postgres = bed.postgres
    postgres.execute(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C'")
    return f"postgresql+psycopg2://{SUPERUSER}:{SUPERUSER}@{postgres.host}:{postgres.port}/{name}"


@pytest.fixture
def new_embedded(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., Embedded]]:
    """new_embedded("sqlite" | "postgresql"): a metastore of the test's own, started."""
    with ExitStack() as stack:

        def make(backend: str = "sqlite", **options: object) -> Embedded:
            url = new_database(request.getfixturevalue("bed")) if backend == "postgresql" else ""
            directory = tmp_path / f"metastore-{next(_numbers)}"
            metastore = Embedded(directory, url, **options)  # type: ignore[arg-type]  # passed on as given
            stack.callback(metastore.close)
            return metastore.start()

        yield make


@pytest.fixture(scope="module", params=BACKENDS)
def embedded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    """One metastore for a module's tests, on each kind of database."""
    url = new_database(request.getfixturevalue("bed")) if request.param == "postgresql" else ""
    metastore = Embedded(tmp_path_factory.mktemp("metastore"), url).start()
    yield metastore
    metastore.close()
