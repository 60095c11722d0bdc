"""A snapshot that was brought up to date from the log has the records of one that is built in full. No Spark."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from hms_cache_proxy.pipeline import increment as increments
from hms_cache_proxy.pipeline import publish
from hms_cache_proxy.pipeline.increment import NoIncrement
from hms_cache_proxy.pipeline.progress import LineReport
from hms_cache_proxy.pipeline.session import in_process
from hms_cache_proxy.snapshots import layers, rows
from hms_cache_proxy.snapshots.difference import SnapshotDifference, difference
from hms_cache_proxy.snapshots.manifest import Manifest
from hms_cache_proxy.snapshots.place import Place, newest
from tests.follower.harness import Comparison
from tests.pipeline.conftest import Follow, World
from tests.pipeline.test_bootstrap import same

ROUNDS = 4
CHANGES = 25


@dataclass
class Published:
    """A directory of snapshots of a world."""

    world: World
    directory: Path
    told: list[str]

    def full(self, name: str = "", *, keep: int = 100) -> str:
        """A full snapshot, in this directory or beside it; returns its URI."""
        uri = self.directory.with_name(f"{self.directory.name}{name}").as_uri()
        return publish.publish(in_process, self.world.config, uri, keep, 2, LineReport(self.told.append))[0]

    def increment(self, *, keep: int = 100) -> str:
        """Bring the newest up to date; returns the new one's URI."""
        report = LineReport(self.told.append)
        return publish.increment(self.world.config, self.directory.as_uri(), keep, report)[0]

    @property
    def names(self) -> list[str]:
        return sorted(path.name for path in self.directory.iterdir())


@pytest.fixture
def published(embedded_world: World, tmp_path: Path) -> Published:
    return Published(embedded_world, tmp_path / "published", [])


def manifest_of(uri: str) -> Manifest:
    found = Place(uri).manifest()
    assert found is not None
    return found


def contents(uri: str) -> dict[Any, Any]:
    """Every record of a snapshot, as a reader sees them."""
    place, made = Place(uri), manifest_of(uri)
    found: dict[Any, Any] = {"event": (made.before, made.after, made.fingerprint, made.marks)}
    for file in made.of_kind(rows.DATABASES):
        found |= {(one.catalog, one.name): one for one in rows.databases(place.read(file))}
    tables = [row for file in made.of_kind(rows.TABLES) for row in rows.tables(place.read(file))]
    assert len(tables) == made.counts[rows.TABLES]
    runs = layers.Runs(
        (run for file in made.of_kind(rows.PARTITIONS) for run in rows.partitions(place.read(file))),
        layers.read(place, made),
    )
    for row in tables:
        key = row.catalog, row.database, row.name
        found[key] = row
        some, unfit = [], None
        for run in runs.of(row.table_id):
            unfit = unfit or run.unfit
            some += [] if unfit else run.records()
        names = [record.name for record in some]
        assert names == sorted(set(names)), "each once, in order"
        found |= {(*key, record.name): record for record in some}
        found[*key, "unfit"] = unfit
    assert runs.table_id is None, "every partition has its table"
    return found


def equal(published: Published, uri: str) -> int:
    """An increment and a full build; returns the number of records."""
    full = published.full("-full")
    left, right = contents(uri), contents(full)
    wrong = [key for key in {**left, **right} if left.get(key) != right.get(key)]
    assert not wrong, [(key, left.get(key), right.get(key)) for key in wrong[:3]]
    assert difference(newest(uri), newest(full)) == SnapshotDifference()
    return len(left)


def test_increments_equal_full_builds(published: Published, follow: Follow) -> None:
    """Increments over increments, after random changes of every kind; and what a proxy takes from the last one."""
    world = published.world
    published.full()
    for _ in range(ROUNDS):
        for _ in range(CHANGES):
            world.changes.one()
        uri = published.increment()
        assert equal(published, uri) > 300
    made = manifest_of(uri)
    assert len(made.elsewhere) > 1 and made.counts["changes"] > 0
    filled, prewarmed = (follow(world.metastore, bootstrap=uri), follow(world.metastore))
    same(prewarmed, filled)
    assert filled.report()["bootstrap"]["event_id"] == made.before and filled.report()["last_reset"] is None
    Comparison(filled, world.oracle, "random_").all()


def test_nothing_has_changed(published: Published) -> None:
    published.full()
    uri = published.increment()
    assert manifest_of(uri).counts["changes"] == 0
    assert equal(published, uri) > 300


def test_what_an_increment_needs_is_kept(published: Published) -> None:
    """The full snapshot stays as long as an increment over it is kept, and goes with it."""
    made = [published.full()]
    for _ in range(2):
        while manifest_of(made[-1]).counts.get("changes", 0) < len(made):
            published.world.changes.one()
            made.append(published.increment())
    made.append(published.increment(keep=1))
    needed = manifest_of(made[-1]).elsewhere
    assert made[0].rpartition("/")[2] in needed and published.names == sorted({*needed, made[-1].rpartition("/")[2]})
    assert equal(published, made[-1]) > 300
    last = published.full(keep=1)
    assert published.names == [last.rpartition("/")[2]]


def test_a_damaged_file_that_is_read_late(published: Published, follow: Follow) -> None:
    """What was loaded before it goes, and everything is loaded from the database."""
    world, uri = published.world, published.full()
    place, made = Path(Place(uri).uri.removeprefix("file://")), manifest_of(uri)
    path = place / made.of_kind(rows.PARTITIONS)[-1].name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    followed = follow(world.metastore, bootstrap=uri, follower__prewarm_chunk=7)
    followed.loaded()
    assert "the checksum of partitions/" in followed.report()["bootstrap"]["refused"]
    assert followed.report()["last_reset"]["reason"] == "first_start"
    Comparison(followed, world.oracle, "random_").all()


def test_files_of_partitions_name_their_tables(published: Published) -> None:
    uri = published.full()
    for file in manifest_of(uri).of_kind(rows.PARTITIONS):
        ids = [run.table_id for run in rows.partitions(Place(uri).read(file))]
        assert (file.first, file.last) == (ids[0], ids[-1])


def refused(published: Published, words: str) -> None:
    before = published.names
    with pytest.raises(NoIncrement, match=words):
        published.increment()
    assert published.names == before, "nothing was written"


def test_too_much_has_changed(published: Published, monkeypatch: pytest.MonkeyPatch) -> None:
    published.full()
    while manifest_of(published.increment()).counts["changes"] < 2:
        published.world.changes.one()
    monkeypatch.setattr(increments, "MOST_ROWS", 1)
    refused(published, "changes over the last full snapshot; the most are 1")


def test_another_scope(published: Published) -> None:
    published.full()
    published.world = replace(published.world)
    with pytest.raises(NoIncrement, match="include and exclude"):
        narrow = replace(published.world.config, include=("random_*.*",))
        publish.increment(narrow, published.directory.as_uri(), 9, LineReport(print))


def test_no_snapshot_yet(published: Published) -> None:
    published.directory.mkdir()
    refused(published, "has no snapshot")


def test_the_log_was_purged(published: Published) -> None:
    full = published.full()
    published.world.changes.one()
    database = published.world.metastore.database
    assert database is not None
    with database.connect() as connection, connection.cursor() as cursor:
        cursor.execute('CREATE TABLE kept AS SELECT * FROM "NOTIFICATION_LOG"')
        cursor.execute(f'DELETE FROM "NOTIFICATION_LOG" WHERE "EVENT_ID" <= {manifest_of(full).before}')
    try:
        refused(published, "the log does not continue from event")
    finally:
        with database.connect() as connection, connection.cursor() as cursor:
            cursor.execute('DELETE FROM "NOTIFICATION_LOG"')
            cursor.execute('INSERT INTO "NOTIFICATION_LOG" SELECT * FROM kept')
            cursor.execute("DROP TABLE kept")
