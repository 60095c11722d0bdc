"""The world that the reader tests ask about, once per metastore and run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hms_cache_proxy.metrics import WorkerMetrics
from tests.follower.harness import Followed
from tests.methods.filled import Filled
from tests.methods.local import Local, followed_over
from tests.methods.oracle import Oracle
from tests.methods.world import World
from tests.testbed.bed import Bed
from tests.testbed.embedded import EMBEDDED


def _world(bed: Bed, flavour: str) -> Iterator[World]:
    """A world, made; dropped only where the metastore outlives the run."""
    metastore = bed.shared(flavour)
    assert metastore.database is not None
    host, port = metastore.address
    hive2 = metastore.flavour.version.startswith("2.")
    world = World(f"{host}:{port}", metastore.database.reader_url, f"me{os.getpid()}_", hive2)
    world.create()
    yield world
    if metastore.detached:
        world.drop()


@pytest.fixture(scope="session")
def world42(bed: Bed) -> Iterator[World]:
    """The world on Hive 4.2.0."""
    yield from _world(bed, "hive42")


@pytest.fixture(scope="session")
def world40(bed: Bed) -> Iterator[World]:
    """The world on Hive 4.0.0, which still has the old methods."""
    yield from _world(bed, "hive40")


@pytest.fixture(scope="session")
def world31(bed: Bed) -> Iterator[World]:
    """The world on Hive 3.1.3."""
    yield from _world(bed, "hive31")


@pytest.fixture(scope="session")
def world23(bed: Bed) -> Iterator[World]:
    """The world on Hive 2.3.10."""
    yield from _world(bed, "hive23-postgresql")


@pytest.fixture(scope="session", params=EMBEDDED)
def world_embedded(request: pytest.FixtureRequest, bed: Bed) -> Iterator[World]:
    """The world on the embedded metastore, on each of its databases."""
    yield from _world(bed, request.param)


def _local(world: World, directory: Path, **settings: Any) -> Iterator[Local]:
    with followed_over(world, directory, list_order="name", **settings) as followed:
        followed.loaded()
        local = Local.connect(followed, world.address, WorkerMetrics())
        yield local
        local.close()


@pytest.fixture(scope="session")
def local42(world42: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    """A connection to a dispatcher over Hive 4.2.0."""
    yield from _local(world42, tmp_path_factory.mktemp("local42") / "data")


@pytest.fixture(scope="session")
def looking42(world42: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    """The same, where what proves nothing is answered after a look."""
    yield from _local(world42, tmp_path_factory.mktemp("looking42") / "data", transactional_reads="strict")


@pytest.fixture(scope="session")
def local_embedded(world_embedded: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    """A connection to a dispatcher over the embedded metastore."""
    yield from _local(world_embedded, tmp_path_factory.mktemp("local_embedded") / "data")


@pytest.fixture(scope="session")
def local31(world31: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    """A connection to a dispatcher over Hive 3.1.3."""
    yield from _local(world31, tmp_path_factory.mktemp("local31") / "data")


@pytest.fixture(scope="session")
def local23(world23: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    """A connection to a dispatcher over Hive 2.3.10."""
    yield from _local(world23, tmp_path_factory.mktemp("local23") / "data")


@pytest.fixture(scope="session")
def local40(world40: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    """The same over Hive 4.0.0, whose log stands still: its cache is filled once."""
    directory = tmp_path_factory.mktemp("local40") / "data"
    with Filled(directory, world40.store_url, world40.prefix.encode()) as filled:
        local = Local.connect(filled, world40.address, WorkerMetrics())
        yield local
        local.close()


@pytest.fixture(scope="module")
def followed(world42: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Followed]:
    """A cache of the module's own over Hive 4.2.0."""
    with followed_over(world42, tmp_path_factory.mktemp("followed") / "data") as running:
        running.loaded()
        yield running


@pytest.fixture
def local(followed: Followed, world42: World) -> Iterator[Local]:
    """A connection of the test's own to a dispatcher over it."""
    connection = Local.connect(followed, world42.address, WorkerMetrics())
    yield connection
    connection.close()


@pytest.fixture
def hms(world42: World) -> Iterator[Oracle]:
    """The metastore itself."""
    with Oracle(world42.address) as connection:
        yield connection
