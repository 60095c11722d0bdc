"""Published snapshots over which something happens: bases that go meanwhile, clocks, runs at the same time; and tables
that an increment must not confuse. No Spark."""

from __future__ import annotations

import random
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hms_cache_proxy.pipeline import publish
from hms_cache_proxy.pipeline.increment import Increment, NoIncrement
from hms_cache_proxy.pipeline.publish import new_name
from hms_cache_proxy.snapshots import manifest, rows
from hms_cache_proxy.snapshots.manifest import Manifest
from hms_cache_proxy.snapshots.place import Place
from tests.differential import contents
from tests.differential.changes import Changes
from tests.pipeline.conftest import Follow, World
from tests.pipeline.test_increment import Published, equal, manifest_of
from tests.store.oracle import Oracle
from tests.testbed import objects
from tests.testbed.bed import Bed
from tests.testbed.client import MetastoreClient

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")
DATABASE = "publishing"


@pytest.fixture(scope="module")
def small_world(bed: Bed) -> Iterator[World]:
    """An embedded metastore with nothing in it."""
    metastore = bed.private_metastore("embedded")
    with MetastoreClient(*metastore.address) as client, closing(Oracle(*metastore.address)) as oracle:
        client.get_metastore_db_uuid()
        yield World(metastore, oracle, client, Changes(contents.World("none", random.Random(random.random())), client))
    bed.release(metastore)


@pytest.fixture
def sales(small_world: World, tmp_path: Path) -> Published:
    """A database with partitioned tables, one without partitions, and a full snapshot of it all."""
    published, client = Published(small_world, tmp_path / "published", []), small_world.client
    if DATABASE in client.get_all_databases():
        client.drop_database(DATABASE, True, True)
    objects.create_database(client, DATABASE)
    for name in ("again", "moved", "empty", "same"):
        partitioned(published, name, 0 if name == "empty" else 3)
    published.full()
    return published


def partitioned(published: Published, name: str, partitions: int, mark: str = "") -> None:
    """A table whose partitions have names that need escaping."""
    client = published.world.client
    made = objects.create_table(client, objects.table(DATABASE, name, (("id", "int"),), (("ds", "string"),)))
    values = [f"{number}/a=b%:ü 日本{mark}" for number in range(partitions)]
    client.add_partitions([objects.partition(made, [value]) for value in values])


def name_of(uri: str) -> str:
    return uri.rpartition("/")[2]


def test_tables_that_are_confused_easily(sales: Published) -> None:
    """Made again under the same name, renamed, swapped, emptied, with and without partitions: as a full build."""
    client = sales.world.client
    client.drop_table(DATABASE, "again", True)
    partitioned(sales, "again", 2, " new")
    moved = client.get_table(DATABASE, "moved")
    moved.tableName = "elsewhere"
    client.alter_table(DATABASE, "moved", moved)
    partitioned(sales, "moved", 1, " other")
    client.drop_table(DATABASE, "empty", True)
    partitioned(sales, "empty", 0)
    for name in client.get_partition_names(DATABASE, "same", -1):
        client.drop_partition_by_name(DATABASE, "same", name, True)
    uri = sales.increment()
    assert equal(sales, uri) > 10
    client.drop_table(DATABASE, "elsewhere", True)
    partitioned(sales, "elsewhere", 0)
    assert equal(sales, sales.increment()) > 10


def while_made(monkeypatch: pytest.MonkeyPatch, happens: Callable[[], None]) -> None:
    """... when an increment has read everything, and before its manifest is written."""
    write = Increment._write

    def first(self: Increment, *arguments: Any) -> Manifest:
        happens()
        return write(self, *arguments)

    monkeypatch.setattr(Increment, "_write", first)


def test_a_base_that_another_run_removes(sales: Published, monkeypatch: pytest.MonkeyPatch) -> None:
    """No snapshot is left that needs files that are gone."""
    made: list[str] = []
    while_made(monkeypatch, lambda: made.append(sales.full(keep=1)))
    with pytest.raises(NoIncrement, match="not there any more"):
        sales.increment()
    assert sales.names == [name_of(made[0])]


def test_an_increment_that_another_run_did_not_see(sales: Published, monkeypatch: pytest.MonkeyPatch) -> None:
    """It becomes complete after the other has decided what to remove: its base stays."""
    base, (made, decide) = sales.names[0], (list[str](), publish.outdated)

    def decided(*arguments: Any) -> list[str]:
        found = decide(*arguments)
        if found and not made:
            made.append("")  # once
            made[0] = sales.increment(keep=100)
        return found

    sales.full()
    monkeypatch.setattr(publish, "outdated", decided)
    newest = sales.full(keep=1)
    needed = {base, name_of(newest)} | {name_of(made[0])} | manifest_of(made[0]).elsewhere
    assert name_of(made[0]) in sales.names and set(sales.names) <= needed | {name_of(made[0])}
    assert equal(sales, made[0]) > 10


@pytest.mark.parametrize("damage", ["removed", "a missing file", "no manifest"])
def test_a_base_that_cannot_be_read(sales: Published, damage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason for a full one, not for a failure."""
    (base,) = (sales.directory / name for name in sales.names)
    read = Increment._affected

    def harmed(self: Increment, *arguments: Any) -> Any:
        if damage == "removed":
            shutil.rmtree(base)
        elif damage == "no manifest":
            (base / manifest.NAME).unlink()
        else:
            (base / manifest_of(base.as_uri()).of_kind(rows.TABLES)[0].name).unlink()
        return read(self, *arguments)

    monkeypatch.setattr(Increment, "_affected", harmed)
    sales.world.client.drop_table(DATABASE, "same", True)
    with pytest.raises(NoIncrement, match=r"cannot be read|not there any more"):
        sales.increment()
    assert sales.names == ([] if damage == "removed" else [base.name])


def test_a_full_one_that_somebody_removed(sales: Published, follow: Follow) -> None:
    """Its increments are of no use: no other is put on them, and a proxy takes an older one."""
    older = sales.full()
    base = sales.full()
    sales.world.client.drop_table(DATABASE, "same", True)
    sales.increment()
    shutil.rmtree(base.removeprefix("file://"))
    with pytest.raises(NoIncrement, match=f"{name_of(base)}, which it needs, is not there any more"):
        sales.increment()
    followed = follow(sales.world.metastore, bootstrap=sales.directory.as_uri())
    followed.loaded()
    assert followed.report()["bootstrap"]["uri"] == older
    assert f"it needs files of {name_of(base)}" in followed.log.read_text()


def test_a_clock_that_was_ahead(sales: Published) -> None:
    """What is made later is newer, and stays."""
    (first,) = sales.names
    ahead = "snapshot-20990101T000000Z-00000000"
    (sales.directory / first).rename(sales.directory / ahead)
    made = sales.full(keep=1)
    assert sales.names == [name_of(made)] and name_of(made) > ahead
    assert new_name([ahead]) > ahead


def test_two_at_once(sales: Published) -> None:
    """Both make a snapshot, and what is left is complete."""
    failed: list[BaseException] = []

    def make(increment: bool) -> None:
        try:
            if increment:
                sales.increment(keep=1)
            else:
                sales.full(keep=1)
        except NoIncrement:
            pass  # the other run has removed the base
        except BaseException as error:
            failed.append(error)

    for increments in ((False, False), (False, True), (True, True), (True, False)):
        threads = [threading.Thread(target=make, args=(one,)) for one in increments]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not failed, failed
    for place in Place(str(sales.directory)).snapshots():
        made = place.manifest()
        assert made is not None and place.gone(made) is None
        for file in made.files:
            place.read(file)


def test_only_files_of_included_tables_are_read(
    sales: Published, follow: Follow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All other files of partitions are removed, and nobody misses them."""
    from hms_cache_proxy.snapshots import row_writer

    monkeypatch.setattr(row_writer, "ROWS_PER_GROUP", 1)
    monkeypatch.setattr(row_writer, "FILE_BYTES", 1)
    uri = sales.full("-small")
    place, made = Place(uri), manifest_of(uri)
    table_id = next(
        row.table_id
        for file in made.of_kind(rows.TABLES)
        for row in rows.tables(place.read(file))
        if (row.database, row.name) == (DATABASE.encode(), b"same")
    )
    files = made.of_kind(rows.PARTITIONS)
    wanted = [file for file in files if file.first is not None and file.first <= table_id <= (file.last or 0)]
    others = [file for file in files if file not in wanted]
    assert len(wanted) == 3 and len(others) == 6
    for file in others:
        place.delete(file.name)
    followed = follow(sales.world.metastore, bootstrap=uri, include=f"{DATABASE}.same")
    followed.loaded()
    found = followed.report()["bootstrap"]
    assert (found["tables"], found["partitions"]) == (1, 3) and followed.report()["last_reset"] is None
