"""One Spark for the run, a metastore of these tests' own with contents of every shape, and an object store."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hms_cache_proxy.config import Config, load
from hms_cache_proxy.pipeline.build import Build
from hms_cache_proxy.pipeline.progress import LineReport
from hms_cache_proxy.pipeline.session import on, session
from hms_cache_proxy.snapshots import s3
from hms_cache_proxy.snapshots.manifest import Manifest
from tests.differential import contents
from tests.differential.changes import Changes
from tests.follower.conftest import Follow, follow
from tests.store.content import Content
from tests.store.oracle import Oracle
from tests.testbed.bed import Bed
from tests.testbed.client import MetastoreClient
from tests.testbed.http_faults import HttpFaults
from tests.testbed.mariadb import MariaDatabase
from tests.testbed.metastore import Metastore
from tests.testbed.packages import required
from tests.testbed.s3 import S3Server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Follow", "follow"]

SMALL = {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2"}
"""A Spark for small things."""

UNLOGGED = ("change_truncate",)
"""Changes that leave no event: behind a proxy's back nobody can follow them."""


@dataclass
class World:
    """A metastore with contents, and what changes them."""

    metastore: Metastore
    oracle: Oracle
    client: MetastoreClient
    changes: Changes
    told: list[str] = field(default_factory=list)

    @property
    def config(self) -> Config:
        assert self.metastore.database is not None
        return load(cli={"store_url": self.metastore.database.reader_url})

    def build(
        self, spark: SparkSession, place: Path, *, resume: bool = False, tell: Callable[[str], None] | None = None
    ) -> Manifest:
        """A snapshot of it; `tell` is called with each line about it."""
        return Build(on(spark), self.config, place.as_uri(), 2, LineReport(tell or self.told.append), resume).run()

    def rows(self, statement: str) -> None:
        """Tamper with the database."""
        assert self.metastore.database is not None
        with self.metastore.database.connect() as connection, connection.cursor() as cursor:
            cursor.execute(statement)


def make_world(metastore: Metastore, stack: list[Callable[[], None]]) -> World:
    """Fill a metastore."""
    client, oracle = MetastoreClient(*metastore.address), Oracle(*metastore.address)
    stack += [client.close, oracle.close]
    client.get_metastore_db_uuid()  # made when it is first asked for
    latin1 = isinstance(metastore.database, MariaDatabase)
    if isinstance(metastore.database, MariaDatabase):
        metastore.database.widen()
    Content(oracle, "shapes_", metastore.warehouse.as_uri(), latin1_names=latin1).create()
    world = contents.fill(client, "random_", random.randrange(10**6), databases=3, partitions=6, latin1=latin1)
    changes = Changes(world, client)
    changes._makers = [name for name in changes._makers if name not in UNLOGGED]
    for _ in range(40):
        changes.one()
    for name in ("change_table_statistics", "change_partition_statistics") * 3:
        changes.one(name)
    return World(metastore, oracle, client, changes)


@contextmanager
def filled(bed: Bed, flavour: str) -> Iterator[World]:
    metastore, closing = bed.private_metastore(flavour), list[Callable[[], None]]()
    yield make_world(metastore, closing)
    for close in closing:
        close()
    bed.release(metastore)


@pytest.fixture(scope="session")
def world(bed: Bed) -> Iterator[World]:
    """A Hive 4.2 on PostgreSQL of these tests' own. What begins with `shapes_` is never changed."""
    with filled(bed, "hive42") as made:
        yield made


@pytest.fixture(scope="module")
def embedded_world(bed: Bed) -> Iterator[World]:
    """An embedded metastore, on SQLite, of a module's own."""
    with filled(bed, "embedded") as made:
        yield made


@pytest.fixture
def mariadb_world(bed: Bed) -> Iterator[World]:
    """The same on MariaDB."""
    with filled(bed, "hive42-mariadb") as made:
        yield made


@pytest.fixture(scope="session")
def pipeline_extra() -> None:
    """What the extra `pipeline` installs."""
    required("pyspark", "matplotlib")


@pytest.fixture(scope="session")
def spark(pipeline_extra: None) -> Iterator[SparkSession]:
    """Local Spark on two cores."""
    with session("local[2]", SMALL) as started:
        yield started


@pytest.fixture(scope="session")
def built(world: World, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Manifest]:
    """A snapshot of the world at rest."""
    place = tmp_path_factory.mktemp("snapshots") / "one"
    return place, world.build(spark, place)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """An object store of a module's own."""
    with S3Server(tmp_path_factory.mktemp("s3") / "server") as server:
        yield server


@pytest.fixture
def faults(store: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[HttpFaults]:
    """The proxy before the store, whose address is in the environment, with the store's account."""
    with HttpFaults(store.port) as proxy:
        for name in ("AWS_ENDPOINT_URL_S3", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION"):
            monkeypatch.delenv(name, raising=False)
        for name in (s3.CHECKSUMS, s3.NO_INSTANCE):
            monkeypatch.setenv(name, "")  # so that it is restored
            monkeypatch.delenv(name)
        for name, value in store.environment(proxy.port).items():
            monkeypatch.setenv(name, value)
        yield proxy


@pytest.fixture
def bucket(store: S3Server, unique_name: str) -> str:
    """The URI of an empty one."""
    return store.bucket(unique_name.replace("_", "-").lower())
