"""A cache that is filled from a snapshot is the one that a follower prewarms from the database, object by object."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hms_cache_proxy.cache.state import Slot
from hms_cache_proxy.errors import AuditError
from hms_cache_proxy.pipeline.audit import Audit
from hms_cache_proxy.pipeline.audit_plan import AuditPlan
from hms_cache_proxy.pipeline.progress import LineReport
from hms_cache_proxy.pipeline.session import on
from hms_cache_proxy.snapshots import manifest
from hms_cache_proxy.snapshots.manifest import Manifest
from tests.follower.harness import Comparison, Followed
from tests.pipeline.conftest import World
from tests.pipeline.dump import differences, dump
from tests.pipeline.test_audit import plant
from tests.pipeline.test_audit_sqlite import kinds
from tests.proxy import Proxy
from tests.testbed.client import MetastoreClient

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.real, pytest.mark.filterwarnings("ignore::ResourceWarning")]
Follow = Callable[..., Followed]
EVENTS_IN_A_PART = 10


def same(one: Followed, other: Followed) -> int:
    """Both caches at the same event, and all that they say; gives how much that is."""
    for followed in (one, other):
        followed.loaded()
    left, right = dump(one.reader, changed=True), dump(other.reader, changed=True)
    wrong = differences(left, right)
    assert not wrong, [(key, left.get(key), right.get(key)) for key in wrong[:3]]
    return len(right)


def equal(world: World, one: Followed, other: Followed) -> int:
    """... and what the metastore says."""
    number = same(one, other)
    Comparison(other, world.oracle, "random_").all()
    return number


def bootstrapped(followed: Followed) -> dict[str, Any]:
    found: dict[str, Any] = followed.report()["bootstrap"]
    return found


@pytest.mark.parametrize("chunk", [10_000, 7])
def test_equal_to_a_prewarm(world: World, built: tuple[Path, Manifest], follow: Follow, chunk: int) -> None:
    """`chunk` 7: most tables are loaded in chunks."""
    place, made = built
    filled = follow(world.metastore, bootstrap=place.as_uri(), follower__prewarm_chunk=chunk)
    assert equal(world, follow(world.metastore), filled) > 500
    assert bootstrapped(filled)["event_id"] == made.before == made.after
    assert bootstrapped(filled)["partitions"] == made.counts["partitions"] > 100
    assert filled.report()["last_reset"] is None, "it went on from the snapshot's event"


def built_under_changes(world: World, spark: SparkSession, place: Path) -> Manifest:
    """... of which each part of the build sees some more: it waits for them."""
    over, failed = threading.Event(), list[BaseException]()

    def change() -> None:
        try:
            while not over.is_set():
                world.changes.one()
        except BaseException as error:
            failed.append(error)

    def more(_line: str) -> None:
        until = client.get_current_notificationEventId().eventId + EVENTS_IN_A_PART
        while client.get_current_notificationEventId().eventId < until and not failed:
            time.sleep(0.02)

    thread = threading.Thread(target=change)
    with MetastoreClient(*world.metastore.address) as client:
        thread.start()
        try:
            made = world.build(spark, place, tell=more)
        finally:
            over.set()
            thread.join()
    assert not failed, failed
    return made


def test_changes_while_it_is_built(world: World, spark: SparkSession, follow: Follow, tmp_path: Path) -> None:
    """One state whatever happens meanwhile; what happened is replayed."""
    made = built_under_changes(world, spark, tmp_path / "s")
    filled, prewarmed = follow(world.metastore, bootstrap=str(tmp_path / "s")), follow(world.metastore)
    equal(world, prewarmed, filled)
    assert made.exact and made.before == made.after
    assert filled.page[Slot.CURSOR] > made.before + 20, "there were changes"
    assert bootstrapped(filled)["event_id"] == made.before and filled.report()["last_reset"] is None


def test_changes_while_it_is_built_on_mariadb(
    mariadb_world: World, spark: SparkSession, follow: Follow, tmp_path: Path
) -> None:
    """Every task saw another state: what happened between them is replayed. An audit of the cache that was filled so
    finds nothing, and then each of the differences that are planted in it."""
    world = mariadb_world
    made = built_under_changes(world, spark, tmp_path / "s")
    filled, prewarmed = follow(world.metastore, bootstrap=str(tmp_path / "s")), follow(world.metastore)
    same(prewarmed, filled)
    assert not made.exact and made.before < made.after
    assert bootstrapped(filled)["event_id"] == made.before and filled.report()["last_reset"] is None
    with pytest.raises(AuditError, match="only PostgreSQL can show one state to several connections"):
        Audit(AuditPlan(filled.config), 2, LineReport(print), on(spark)).run()
    found = Audit(AuditPlan(filled.config), 1, LineReport(print)).run()
    assert not found.differences and found.compared["partitions"] > 100, found
    assert not list(Path(filled.config.data_dir).glob("audit-*"))
    filled.kill()
    planted = Counter(plant(world, filled))
    assert kinds(Audit(AuditPlan(filled.config), 1, LineReport(print)).run()) == planted


def test_only_what_is_included(world: World, built: tuple[Path, Manifest], follow: Follow) -> None:
    settings = {"include": "shapes_*.*", "exclude": "re:.*part.*"}
    filled, prewarmed = (
        follow(world.metastore, bootstrap=str(built[0]), **settings),
        follow(world.metastore, **settings),
    )
    same(prewarmed, filled)
    assert 0 < bootstrapped(filled)["tables"] < built[1].counts["tables"]


# Refused


def refused(world: World, follow: Follow, place: Path, reason: str) -> None:
    """The snapshot is not used, the reason is told, and the ordinary prewarm runs."""
    followed = follow(world.metastore, bootstrap=str(place))
    followed.loaded()
    assert reason in bootstrapped(followed)["refused"]
    assert reason in followed.log.read_text()
    assert followed.report()["last_reset"]["reason"] == "first_start"
    Comparison(followed, world.oracle, "random_").all()


@pytest.fixture
def copy(built: tuple[Path, Manifest], tmp_path: Path) -> Path:
    """A snapshot to damage."""
    place = tmp_path / "copy"
    shutil.copytree(built[0], place)
    return place


def test_a_corrupt_file(world: World, follow: Follow, copy: Path) -> None:
    file = next((copy / "partitions").rglob("part-*"))
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    refused(world, follow, copy, f"the checksum of {file.relative_to(copy)}")


def test_a_missing_file(world: World, follow: Follow, copy: Path) -> None:
    next((copy / "tables").rglob("part-*")).unlink()
    refused(world, follow, copy, "cannot be read")


@pytest.mark.parametrize(
    ("words", "change"),
    [
        ("another metastore database", lambda found: found["identity"].update(database_uuid="another")),
        ("another schema version", lambda found: found["identity"].update(schema_version="4.0.0")),
        ("format is version 99", lambda found: found.update(format=99)),
        ("another or a restored database", lambda found: found.update(fingerprint="00" * 32)),
        ("the database is older than the snapshot", lambda found: found["events"].update(after=10**9)),
        ("include = ['x.*']", lambda found: found["scope"].update(include=["x.*"])),
    ],
)
def test_another_snapshot(
    world: World, follow: Follow, copy: Path, words: str, change: Callable[[dict[str, Any]], None]
) -> None:
    path = copy / manifest.NAME
    found = json.loads(path.read_text())
    change(found)
    path.write_text(json.dumps(found))
    refused(world, follow, copy, words)


def test_no_snapshot_at_all(world: World, follow: Follow, copy: Path) -> None:
    """A build that was killed leaves no manifest."""
    (copy / manifest.NAME).unlink()
    refused(world, follow, copy, "there is no snapshot")


def test_purged_log(world: World, built: tuple[Path, Manifest], follow: Follow) -> None:
    """Events after the snapshot may be missing: that cannot be told any more."""
    world.changes.one()
    world.rows('CREATE TABLE kept AS SELECT * FROM "NOTIFICATION_LOG"')
    world.rows(f'DELETE FROM "NOTIFICATION_LOG" WHERE "EVENT_ID" <= {built[1].before}')
    try:
        refused(world, follow, built[0], f"no longer has event {built[1].before}")
    finally:
        world.rows('DELETE FROM "NOTIFICATION_LOG"; INSERT INTO "NOTIFICATION_LOG" SELECT * FROM kept; DROP TABLE kept')


def test_the_next_older_one_is_used(world: World, follow: Follow, copy: Path, tmp_path: Path) -> None:
    published = tmp_path / "published"
    published.mkdir()
    copy.rename(published / "snapshot-20260101T000000Z-00000000")
    (published / "snapshot-20260301T000000Z-00000000").mkdir()
    shutil.copytree(published / "snapshot-20260101T000000Z-00000000", published / "snapshot-20260201T000000Z-00000000")
    (published / "snapshot-20260201T000000Z-00000000" / manifest.NAME).write_text("{}")
    followed = follow(world.metastore, bootstrap=str(published))
    followed.loaded()
    assert bootstrapped(followed)["uri"].endswith("20260101T000000Z-00000000")
    assert "is damaged" in followed.log.read_text()


def test_a_warm_cache_is_kept(world: World, built: tuple[Path, Manifest], follow: Follow) -> None:
    followed = follow(world.metastore)
    followed.loaded()
    before = followed.page[Slot.GENERATION]
    followed.kill()
    followed.config = replace(followed.config, bootstrap=str(built[0]))
    followed.start()
    followed.loaded()
    assert "bootstrap" not in followed.report() and followed.page[Slot.GENERATION] == before


def test_serve(world: World, built: tuple[Path, Manifest], new_proxy: Callable[..., Proxy]) -> None:
    """The whole product: a read is answered from the cache, and nothing was asked for but the log."""
    proxy = new_proxy(world.metastore, settings={"BOOTSTRAP": str(built[0])})
    status = proxy.status()
    assert status["mode"] == "cache" and status["objects"]["tables"] > 50
    assert "bootstrap done" in proxy.log.read_text()
