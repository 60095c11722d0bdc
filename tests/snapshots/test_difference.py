"""`snapshot diff`: what was added, dropped and changed between two snapshots, without Spark."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from hms_cache_proxy.cli.main import commands
from hms_cache_proxy.pipeline import decoded
from hms_cache_proxy.pipeline.export import NAME, Export
from hms_cache_proxy.pipeline.progress import LineReport
from hms_cache_proxy.snapshots import layers, rows
from hms_cache_proxy.snapshots import manifest as manifests
from hms_cache_proxy.snapshots.manifest import File, Manifest
from hms_cache_proxy.snapshots.place import Place, newest
from hms_cache_proxy.snapshots.row_writer import FileWriter
from hms_cache_proxy.snapshots.rows import TableRow
from hms_cache_proxy.store.protocol import PartitionRecord
from hms_cache_proxy.wire import spec
from tests.cache.records import IDENTITY, database, days, table

NAMES = ("snapshot-20260131T120000Z-00000abc", "snapshot-20260131T130000Z-00000abc")
Partitions = dict[int, list[PartitionRecord]]


def row(name: bytes, table_id: int, *, parameters: dict[bytes, bytes] | None = None) -> TableRow:
    body = spec.encode(spec.struct("Table")(tableName=name, dbName=b"sales", parameters=parameters or {}))
    record = replace(table(name, table_id), body=body)
    return TableRow(b"hive", b"sales", name, table_id, b"MANAGED_TABLE", record)


def made(
    directory: Path,
    tables: Sequence[TableRow],
    partitions: Partitions,
    databases: Sequence[bytes],
    unfit: Collection[int] = (),
) -> Path:
    """A snapshot with these. `unfit`: ids of tables of which the cache could not hold the next partition."""
    place = Place(str(directory))
    writers = {kind: FileWriter(place, kind, f"{kind}/part") for kind in rows.KINDS}
    for name in databases:
        writers[rows.DATABASES].add(rows.database_row(0, database(name)))
    for one in tables:
        writers[rows.TABLES].add(rows.table_row(0, one))
        for record in partitions.get(one.table_id, ()):
            writers[rows.PARTITIONS].add(rows.partition_row(0, one.table_id, record))
        if one.table_id in unfit:
            writers[rows.PARTITIONS].add(rows.unfit_row(0, one.table_id, UNFIT))
    files = tuple(file for writer in writers.values() for file in writer.close())
    document = Manifest("0", "now", IDENTITY, (), (), 5, 5, True, b"row 5", None, {}, files)
    place.write(manifests.NAME, document.dump())
    return directory


def records(*numbers: int, location: bytes | None = None) -> list[PartitionRecord]:
    found = [part.record() for part in days(max(numbers) + 1)]
    return [found[at]._replace(location=location or found[at].location) for at in numbers]


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path]:
    """The tables of the second one are in another order."""
    before = made(
        tmp_path / "a",
        [row(b"again", 1), row(b"changed", 2), row(b"dropped", 3), row(b"same", 4)],
        {1: records(0), 2: records(0, 1, 2, 3), 3: records(0, 1), 4: records(0, 1)},
        [b"sales", b"old"],
    )
    after = made(
        tmp_path / "b",
        [row(b"same", 4), row(b"new", 5), row(b"changed", 2, parameters={b"a": b"b"}), row(b"again", 9)],
        {4: records(0, 1), 5: records(0), 2: [*records(1), *records(2, location=b"x"), *records(4, 5)], 9: records(0)},
        [b"sales", b"young"],
    )
    return before, after


def asked(*arguments: str) -> str:
    done = CliRunner().invoke(commands, ["snapshot", "diff", *arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_everything_that_differs(two: tuple[Path, Path]) -> None:
    found = json.loads(asked("--json", *map(str, two)))
    assert found["databases"] == {"added": ["hive.young"], "dropped": ["hive.old"], "changed": {}}
    assert found["tables"] == {
        "added": ["hive.sales.new"],
        "dropped": ["hive.sales.dropped"],
        "changed": {"hive.sales.again": ["table_id"], "hive.sales.changed": ["parameters"]},
    }
    partitions = found["partitions"]
    assert partitions.pop("tables") == {
        "hive.sales.changed": {"before": 4, "after": 4, "added": 2, "removed": 2, "changed": 1},
        "hive.sales.dropped": {"before": 2, "after": 0, "added": 0, "removed": 2, "changed": 0},
        "hive.sales.new": {"before": 0, "after": 1, "added": 1, "removed": 0, "changed": 0},
    }
    assert (partitions["added"], partitions["removed"], partitions["changed"]) == (3, 4, 1)


def test_lines(two: tuple[Path, Path]) -> None:
    found = asked(*map(str, two)).splitlines()
    assert found[0].startswith("A: file://") and found[1].startswith("B: file://")
    assert "~ table hive.sales.changed: parameters" in found
    assert "~ partitions of hive.sales.changed: 2 added, 2 removed, 1 changed; 4 -> 4" in found
    assert found[-1] == "tables: 1 added, 1 dropped, 2 changed; partitions: 3 added, 4 removed, 1 changed"


def test_no_difference(two: tuple[Path, Path]) -> None:
    """Nor for the same tables in another order."""
    assert asked(str(two[0]), str(two[0])).splitlines()[2:] == [
        "tables: 0 added, 0 dropped, 0 changed; partitions: 0 added, 0 removed, 0 changed"
    ]


def test_the_newest_of_a_directory(two: tuple[Path, Path], tmp_path: Path) -> None:
    for name, path in zip(NAMES, two, strict=True):
        (tmp_path / "published").mkdir(exist_ok=True)
        path.rename(tmp_path / "published" / name)
    assert json.loads(asked("--json", str(tmp_path / "published"), str(tmp_path / "published")))["a"]["uri"].endswith(
        f"/{NAMES[1]}"
    )


UNFIT = "a partition with a time that a metastore cannot return"


def test_a_table_whose_partitions_no_cache_can_hold(tmp_path: Path) -> None:
    """A snapshot has those that were read before the one that does not fit: nobody takes them for all."""
    many, few = [record for number in range(11) for record in renamed(number)], records(0, 1)
    tables = [row(b"broken", 1), row(b"sound", 2)]
    whole = made(tmp_path / "whole", tables, {1: many, 2: few}, [])
    broken = made(tmp_path / "broken", tables, {1: many, 2: few}, [], unfit=[1])
    place, manifest = newest(str(broken))
    (file,) = manifest.of_kind(rows.PARTITIONS)
    assert file.unfit == [1] and newest(str(whole))[1].of_kind(rows.PARTITIONS)[0].unfit is None
    runs = list(rows.partitions(place.read(file)))
    assert [(run.table_id, run.unfit) for run in runs] == [(1, None), (1, UNFIT), (2, None)], "a batch is 10,000 rows"
    seen = list(decoded.partitions(place.uri, decoded.shown_partitions(place, manifest), file))
    assert [one[:2] for one in seen] == [(2, record.name.decode()) for record in few]
    told = list[str]()
    assert Export(broken.as_uri(), (tmp_path / "out").as_uri(), 1, LineReport(told.append)).run()["partitions"] == 2
    assert f"{broken.as_uri()}: without the partitions of 1 table, which the cache cannot hold" in told
    assert json.loads((tmp_path / "out" / NAME).read_text())["without_partitions"] == ["hive.sales.broken"]
    assert json.loads(asked(str(broken), str(broken), "--json"))["partitions"]["before"] == 0
    assert json.loads(asked(str(whole), str(broken), "--json"))["partitions"]["removed"] == len(many)


@pytest.mark.parametrize(
    ("changes", "left_out", "shown"),
    [
        ([], True, []),
        ([(*rows.partition_row(0, 1, records(0)[0]), layers.SET)], True, []),
        ([rows.change_row(layers.ALL, 1), (*rows.partition_row(0, 1, records(0)[0]), layers.SET)], False, [1]),
        ([rows.change_row(layers.ALL, 1), (*rows.unfit_row(0, 1, UNFIT), layers.SET)], True, []),
    ],
)
def test_what_increments_make_of_it(
    tmp_path: Path, changes: list[tuple[Any, ...]], left_out: bool, shown: list[int]
) -> None:
    directory = made(tmp_path / "one", [row(b"broken", 1)], {1: records(0, 1)}, [b"sales"], unfit=[1])
    place, manifest = newest(str(directory))
    writer = FileWriter(place, rows.CHANGES, "changes/part")
    for change in changes:
        writer.add(change)
    increment = replace(manifest, files=(*manifest.files, *writer.close()))
    of = decoded.shown_partitions(place, increment)
    assert of.left_out == (frozenset([1]) if left_out else frozenset())
    parts: list[File | Manifest] = [*increment.of_kind(rows.PARTITIONS), increment]
    assert [one[0] for part in parts for one in decoded.partitions(place.uri, of, part)] == shown


def renamed(number: int) -> list[PartitionRecord]:
    """A thousand partitions."""
    return [part._replace(name=b"%03d-%b" % (number, part.name)) for part in records(*range(1_000))]
