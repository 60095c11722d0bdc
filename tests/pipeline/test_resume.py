"""Builds that were killed: what is left is no snapshot, and another build goes on from there, or says why it cannot."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hms_cache_proxy.errors import SnapshotError
from hms_cache_proxy.pipeline.ranges import Partitioned, PartitionStretch, StretchTable, TableStretch
from hms_cache_proxy.pipeline.rounds import _DUMPED, _LOADED, BEGUN, NAME, rounds
from hms_cache_proxy.snapshots import manifest, rows
from hms_cache_proxy.snapshots.place import Place
from tests.pipeline.conftest import Follow, World
from tests.pipeline.test_bootstrap import bootstrapped, equal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TIMEOUT_S = 300.0
SCRIPT = """
import os, signal, sys, threading, time
from pathlib import Path
from hms_cache_proxy.config import load
from hms_cache_proxy.pipeline import build, ranges
from hms_cache_proxy.pipeline.progress import LineReport
from hms_cache_proxy.pipeline.rounds import Rounds, directory
from hms_cache_proxy.pipeline.session import on, session

url, place, last, number = sys.argv[1:]
ranges.TABLES_PER_STRETCH, ranges.PARTITIONS_PER_STRETCH = 12, 60

def kill():
    os.killpg(0, signal.SIGKILL)

def watch(directory):
    while not directory.exists():
        time.sleep(0.001)
    kill()

class Deadly(Rounds):
    over = False

    def done(self, kind, round, written):
        if self.over:
            kill()  # before it is marked
        super().done(kind, round, written)
        if (kind, round) == (last, int(number)):
            self.over = True
            threading.Thread(target=watch, args=(Path(place, directory(kind, round + 1)),)).start()

build.Rounds = Deadly
build.rounds = lambda stretches, cost: [stretches[:1], stretches[1:]]
with session("local[1]", {"spark.driver.memory": "1g"}) as spark:
    config = load(cli={"store_url": url})
    build.Build(on(spark), config, Path(place).as_uri(), 1, LineReport(print), resume=True).run()
"""
"""A build in two rounds of each kind, that is killed while it writes the one after a given round."""


def killed(world: World, place: Path, last: str, number: int) -> set[str]:
    """Begin a build that is killed after a round, with its JVM and workers; gives the files of the complete rounds."""
    command = [sys.executable, "-c", SCRIPT, world.config.store_url, str(place), last, str(number)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, start_new_session=True)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    assert not (place / manifest.NAME).exists()
    complete = {path.stem for path in (place / NAME).glob("*.done")}
    assert f"{last}-{number:05}" in complete and f"{last}-{number + 1:05}" not in complete
    torn = place / last / f"round-{number + 1:05}" / "part-torn.parquet"
    torn.parent.mkdir(exist_ok=True)
    torn.write_bytes(b"PAR1")  # as of a file system on which a file appears before it is complete
    rounds = (done.rpartition("-") for done in complete)
    return {
        str(path.relative_to(place))
        for kind, _, number in rounds
        for path in (place / kind / f"round-{number}").glob("part-*")
    }


def swap(world: World, place: Path) -> None:
    """As a job does that remakes a table: one that was read takes the name of one that was not, which is dropped."""
    first = json.loads((place / NAME / "tables.json").read_text())[0]
    (read,) = map(_LOADED[rows.TABLES], first)
    database, was_read = read.database[1].decode(), {table.name.decode() for table in read.tables}
    notes = world.changes.world.tables
    here = [note for note in notes if note.database == database and note.name in was_read]
    one = next(note for note in here if note.kind == "partitioned")
    other = next(note for note in notes if note not in here)
    table = world.changes._table(one)
    world.client.drop_table(other.database, other.name, False)
    table.dbName, table.tableName = other.database, other.name
    world.client.alter_table(database, one.name, table)
    world.changes.world.tables.remove(other)
    world.changes.world.dropped.append((database, one.name))
    one.database, one.name = other.database, other.name


def cannot_go_on(world: World, spark: SparkSession, left: Path) -> None:
    """What is left of a build that is not the one that would go on; and one that starts over."""

    def refused(name: str, words: str, change: Callable[[dict[str, Any]], None]) -> None:
        copy = left.parent / name
        shutil.copytree(left, copy)
        found = json.loads((copy / BEGUN).read_text())
        change(found)
        (copy / BEGUN).write_text(json.dumps(found))
        with pytest.raises(SnapshotError, match=f"cannot resume the build in .*{words}.*; build it without --resume"):
            world.build(spark, copy, resume=True)

    refused("a", "another metastore database", lambda found: found["identity"].update(database_uuid="another"))
    refused("b", "include = \\['x", lambda found: found["scope"].update(include=["x.*"]))
    refused("c", "version 0.0 of this", lambda found: found.update(program="0.0"))
    refused("d", "another or a restored database", lambda found: found.update(fingerprint="00" * 32))
    made = world.build(spark, left)
    assert made.exact and made.counts["tables"] > 50
    assert {str(path.relative_to(left)) for path in left.glob("*/*/part-*")} == {file.name for file in made.files}
    with pytest.raises(SnapshotError, match="already has a snapshot"):
        world.build(spark, left, resume=True)


@pytest.mark.real
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_killed_in_the_middle(world: World, spark: SparkSession, follow: Follow, tmp_path: Path) -> None:
    """Twice. What was complete is not read again; what happened meanwhile is replayed, by whoever uses the result."""
    place = tmp_path / "s"
    complete = killed(world, place, rows.TABLES, 0)
    begun = json.loads((place / BEGUN).read_text())["events"]["before"]
    shutil.copytree(place, tmp_path / "left")
    cannot_go_on(world, spark, tmp_path / "left")
    swap(world, place)
    for kind in (rows.PARTITIONS, None):
        for _ in range(15):
            world.changes.one()
        if kind is not None:
            more = killed(world, place, kind, 0)
            assert complete < more, "what was there is not read again"
            complete = more
    made = world.build(spark, place, resume=True)
    assert complete < {file.name for file in made.files}
    assert {file.name for file in made.files} == {str(path.relative_to(place)) for path in place.glob("*/*/part-*")}
    assert not made.exact and made.before == begun and made.after >= begun + 20
    assert not (place / NAME).exists() and Place(str(place)).manifest() == made
    filled, prewarmed = follow(world.metastore, bootstrap=str(place)), follow(world.metastore)
    assert equal(world, prewarmed, filled) > 500
    assert bootstrapped(filled)["event_id"] == made.before and filled.report()["last_reset"] is None


def test_rounds_are_consecutive() -> None:
    stretches = [PartitionStretch(place, (), cost) for place, cost in enumerate([5, 5, 1, 30, 2, 9, 4])]
    found = rounds(stretches, 10)
    assert [[stretch.partitions for stretch in some] for some in found] == [[5, 5], [1, 30], [2, 9], [4]]
    assert rounds([], 10) == [[]]


def test_stretches_are_kept_as_they_are() -> None:
    """Names of any bytes."""
    odd = bytes(range(256))
    tables = TableStretch(
        3, (b"hive", odd), (StretchTable(odd, b"VIRTUAL_VIEW", 7, False), StretchTable(b"", b"", 8, True))
    )
    parts = PartitionStretch(4, (Partitioned(b"hive", odd, odd, 9, True),), 12, None, odd)
    for kind, stretch in ((rows.TABLES, tables), (rows.PARTITIONS, parts)):
        assert _LOADED[kind](json.loads(json.dumps(_DUMPED[kind](stretch)))) == stretch
