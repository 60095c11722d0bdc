"""A database that becomes a replica while it is followed, as the old primary of a switchover does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hms_cache_proxy.cache.mode import ModeReason
from hms_cache_proxy.cache.state import MODE_RELAY_ONLY, MODE_SERVE, Slot
from tests.follower.harness import Followed
from tests.follower.stepped import Stepped
from tests.testbed import objects
from tests.testbed.client import MetastoreClient
from tests.testbed.metastore import Metastore

pytestmark = pytest.mark.real


@contextmanager
def read_only(metastore: Metastore) -> Iterator[None]:
    """As a tool that switches over leaves the old primary."""
    assert metastore.database is not None
    with metastore.database.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET GLOBAL read_only = 1")
        try:
            yield
        finally:
            cursor.execute("SET GLOBAL read_only = 0")


def test_an_old_primary_confirms_nothing(
    hms42_mariadb: Metastore, follow: Callable[..., Followed], unique_name: str
) -> None:
    """The connection that the follower has stays open all the time."""
    followed = follow(hms42_mariadb, include=[f"{unique_name}*.*"])
    page = followed.page
    with MetastoreClient(*hms42_mariadb.address) as client:
        objects.create_database(client, unique_name)
        followed.loaded()
        followed.until(lambda: page[Slot.SERVE_MODE] == MODE_SERVE)
        generation = page[Slot.GENERATION]
        with read_only(hms42_mariadb):
            followed.until(lambda: page[Slot.MODE_REASON] == ModeReason.REPLICA)
            assert page[Slot.SERVE_MODE] == MODE_RELAY_ONLY
            followed.until(lambda: page[Slot.BEGAN_NS] == 0)
            cursor = page[Slot.CURSOR]
            followed.until(lambda: bool(followed.report()))
            assert (page[Slot.BEGAN_NS], page[Slot.CURSOR]) == (0, cursor)
        followed.until(lambda: page[Slot.SERVE_MODE] == MODE_SERVE)
        followed.loaded()
        assert page[Slot.GENERATION] > generation, "it was not followed for a time"
        objects.create_table(client, objects.table(unique_name, "t"))
        followed.confirmed()
        with followed.reader.snapshot() as cache:
            tables = cache.table_list(b"hive", unique_name.encode())
        assert tables is not None and [name for name, *_ in tables] == [b"t"]


def test_a_step_on_a_replica_changes_nothing(own_embedded: Metastore, tmp_path: Path, unique_name: str) -> None:
    with MetastoreClient(*own_embedded.address) as client, Stepped(tmp_path / "data", own_embedded) as stepped:
        stepped.caught_up()
        objects.create_database(client, unique_name)
        before = bytes(stepped.page.words[: Slot.SERVE_MODE])
        stepped.store.is_replica = True
        assert stepped.step().replica and stepped.cycle.peek().replica
        assert bytes(stepped.page.words[: Slot.SERVE_MODE]) == before
        stepped.store.is_replica = False
        assert not stepped.cycle.peek().replica
        outcome = stepped.step()
        assert not outcome.replica and outcome.rows == 1 and stepped.page[Slot.CURSOR] == outcome.event_id
