"""A metastore with content of every shape, and the stores that read it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from hms_cache_proxy.store.protocol import DatabaseKey, RawStore, Snapshot
from tests.store.content import Content
from tests.store.oracle import Oracle
from tests.store.stores import FACTORIES
from tests.testbed.bed import Bed
from tests.testbed.mariadb import MariaDatabase
from tests.testbed.metastore import Metastore


@dataclass(frozen=True, slots=True)
class World:
    """A metastore, a connection to it and what was put there."""

    metastore: Metastore
    oracle: Oracle
    content: Content

    def keys(self, snapshot: Snapshot) -> list[DatabaseKey]:
        """The databases of this content."""
        return [key for key in snapshot.database_names() if key[1].startswith(self.content.prefix.encode())]


def make_world(metastore: Metastore, prefix: str) -> World:
    """Fill a metastore."""
    version = metastore.flavour.version
    oracle = Oracle(*metastore.address, version)
    on_mariadb = isinstance(metastore.database, MariaDatabase)
    if isinstance(metastore.database, MariaDatabase):
        metastore.database.widen()
    content = Content(oracle, prefix, metastore.warehouse.as_uri(), version, latin1_names=on_mariadb)
    content.create()
    return World(metastore, oracle, content)


@pytest.fixture(scope="session")
def worlds(bed: Bed) -> Iterator[Callable[[str], World]]:
    """Filled once per metastore, in whatever order the tests of several parameters come."""
    made: dict[str, World] = {}

    def get(flavour: str) -> World:
        if flavour not in made:
            made[flavour] = make_world(bed.shared(flavour), f"st_{os.getpid()}_")
        return made[flavour]

    yield get
    for world in made.values():
        world.oracle.close()


FLAVOURS = ("embedded", "embedded-postgresql", "hive42", "hive40", "hive31", "hive23-postgresql", "hive42-mariadb")
"""The embedded metastore runs what Hive 4.2 runs, on both its databases, but for: test_direct_sql and what
test_write_ids has of time-outs and compaction (Hive's settings and threads, which it has not); test_schema,
test_sql_open, test_sql_large and test_encode (databases without a metastore), test_mysql_names, test_mysql_open
(MySQL); test_sql_log and test_statements (statements that are counted on their way to PostgreSQL)."""


@pytest.fixture(scope="session", params=FLAVOURS)
def world(request: pytest.FixtureRequest, worlds: Callable[[str], World]) -> World:
    """Content that no test changes, in each version."""
    return worlds(request.param)


@pytest.fixture(scope="session", params=sorted(FACTORIES))
def store(request: pytest.FixtureRequest, world: World) -> Iterator[RawStore]:
    """Each RawStore over that metastore."""
    opened = FACTORIES[request.param](world.metastore)
    yield opened
    opened.close()
