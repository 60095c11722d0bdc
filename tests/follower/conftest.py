"""Fixtures: followers over the shared Hive 4.2, and over metastores of a test's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.follower.harness import Followed
from tests.store.oracle import Oracle
from tests.testbed.bed import Bed
from tests.testbed.client import MetastoreClient
from tests.testbed.metastore import Metastore

Follow = Callable[..., Followed]


@pytest.fixture
def follow(tmp_path: Path) -> Iterator[Follow]:
    """follow(metastore, **settings): a started follower, reading as the account that may only SELECT (over Thrift where
    the metastore has no database of its own, or with store="thrift")."""
    with ExitStack() as stack:

        def start(metastore: Metastore, **settings: object) -> Followed:
            directory = tmp_path / f"data-{len(list(tmp_path.iterdir()))}"
            if metastore.database is not None:
                settings = {"store_url": metastore.database.reader_url, **settings}
            settings = {"upstream": metastore.uri, **settings}
            return stack.enter_context(Followed(directory, **settings))

        yield start


@pytest.fixture
def name(client42: MetastoreClient, unique_name: str) -> Iterator[str]:
    """A prefix for databases, which are dropped at the end."""
    yield unique_name
    for database in client42.get_databases(unique_name + "*"):
        client42.drop_database(database, True, True)


@pytest.fixture
def oracle(hms42: Metastore) -> Iterator[Oracle]:
    with Oracle(*hms42.address) as connection:
        yield connection


@pytest.fixture(scope="module")
def own(bed: Bed) -> Iterator[Metastore]:
    """A Hive 4.2 whose database may be tampered with, for the tests of a module one after the other."""
    metastore = bed.private_metastore("hive42")
    yield metastore
    bed.release(metastore)


@pytest.fixture(scope="module")
def own_embedded(bed: Bed) -> Iterator[Metastore]:
    """The same of an embedded metastore on SQLite."""
    metastore = bed.private_metastore("embedded")
    yield metastore
    bed.release(metastore)


@pytest.fixture
def own_client(own: Metastore) -> Iterator[MetastoreClient]:
    with MetastoreClient(*own.address) as client:
        yield client


@pytest.fixture
def own_oracle(own: Metastore) -> Iterator[Oracle]:
    with Oracle(*own.address) as connection:
        yield connection
