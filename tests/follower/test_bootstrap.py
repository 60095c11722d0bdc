"""Commits of a bootstrap from files made here: chunks of any size, what has no room, what is left out, what is unfit.

That files made by Spark give the cache that a prewarm gives: tests/pipeline.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from hms_cache_proxy.cache import targets
from hms_cache_proxy.cache.entries import TableEntry
from hms_cache_proxy.cache.inventory import Inventory
from hms_cache_proxy.cache.reader import CacheReader
from hms_cache_proxy.cache.state import StatePage
from hms_cache_proxy.cache.writer import CacheWriter
from hms_cache_proxy.errors import SnapshotError
from hms_cache_proxy.follower.bootstrap import BootstrapEnded, LoadScope, _Filling
from hms_cache_proxy.follower.load_queue import LoadQueue
from hms_cache_proxy.snapshots import rows
from hms_cache_proxy.snapshots.manifest import File, Manifest
from hms_cache_proxy.snapshots.place import Place
from hms_cache_proxy.snapshots.reading import Reading
from hms_cache_proxy.snapshots.rows import TableRow, WriteIds
from hms_cache_proxy.store.protocol import Marks, TableRecord
from tests.cache.records import IDENTITY, database, days, flat_table, table
from tests.pipeline.dump import differences, dump

COUNTS = {b"a_large": 95, b"b_flat": -1, b"c_empty": 0, b"d_small": 3, b"e_unfit": 12, b"f_large": 40}
"""Tables and their partitions; -1: it has no partition keys."""


class Files:
    """Writes a snapshot's files."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.files: list[File] = []

    def put(self, kind: str, values: list[tuple[Any, ...]]) -> None:
        name = f"{kind}/part-{len(self.files)}"
        path = self.directory / name
        path.parent.mkdir(exist_ok=True)
        pyarrow.parquet.write_table(pyarrow.Table.from_batches([rows.batch(kind, values)]), path)
        data = path.read_bytes()
        ends = (values[0][1], values[-1][1]) if kind == rows.PARTITIONS else (None, None)
        self.files.append(File(kind, name, len(values), len(data), hashlib.sha256(data).hexdigest(), *ends))

    def manifest(self) -> Manifest:
        marks = Marks(b"functions", b"catalogs", b"databases")
        return Manifest("0", "now", IDENTITY, (), (), 5, 5, True, b"row 5", marks, {}, tuple(self.files))


def record(name: bytes, number: int) -> TableRecord:
    return flat_table(name, number) if COUNTS[name] < 0 else table(name, number)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Manifest]:
    """Partitions of a table lie in several files, and a file has those of several tables."""
    files = Files(tmp_path_factory.mktemp("snapshot"))
    files.put(
        rows.DATABASES,
        [rows.database_row(0, database()), rows.database_row(0, database(b"zz_remote", remote=True))],
    )
    listed = [TableRow(b"hive", b"sales", b"_excluded", 99, b"VIRTUAL_VIEW")]
    listed += [
        TableRow(b"hive", b"sales", name, number, b"MANAGED_TABLE", record(name, number), WriteIds(b"sales.x:3::", ()))
        for number, name in enumerate(COUNTS)
    ]
    files.put(rows.TABLES, [rows.table_row(0, row) for row in listed[:3]])
    files.put(rows.TABLES, [rows.table_row(1, row) for row in listed[3:]])
    parts: list[tuple[Any, ...]] = []
    for number, (name, count) in enumerate(COUNTS.items()):
        parts += [rows.partition_row(0, number, part.record()) for part in days(max(count, 0))]
        if name == b"e_unfit":
            parts.append(rows.unfit_row(0, number, "odd"))
    for start in range(0, len(parts), 60):
        files.put(rows.PARTITIONS, parts[start : start + 60])
    return files.directory, files.manifest()


Fill = Callable[..., tuple[CacheReader, _Filling]]


@pytest.fixture
def fill(made: tuple[Path, Manifest], tmp_path: Path) -> Iterator[Fill]:
    opened: list[Any] = []

    def run(chunk: int, max_bytes: int = 1 << 30, include: tuple[str, ...] = ()) -> tuple[CacheReader, _Filling]:
        root = tmp_path / f"cache-{len(opened)}"
        root.mkdir()
        page = StatePage(root / "state", create=True)
        writer = CacheWriter.open(root / "cache", page, IDENTITY)
        filling = _Filling(writer, made[1], LoadScope(include, (), max_bytes, chunk), lambda: None)
        opened.extend((reader := CacheReader(root / "cache", page), writer, page))
        filling.run(Place(str(made[0])))
        return reader, filling

    yield run
    for one in opened:
        one.close()


def entry(reader: CacheReader, name: bytes) -> TableEntry:
    with reader.snapshot() as cache:
        found = cache.table(b"hive", b"sales", name)
    assert isinstance(found, TableEntry)
    return found


def test_chunks_of_any_size(fill: Fill) -> None:
    whole, filling = fill(10_000)
    expected = dump(whole)
    assert filling.tables == len(COUNTS) and filling.partitions == 95 + 3 + 40
    for name, count in COUNTS.items():
        found = entry(whole, name)
        assert found.body is not None and found.partitions_loaded == (count >= 0 and name != b"e_unfit")
        assert found.partition_count == (max(count, 0) if found.partitions_loaded else 0)
    assert entry(whole, b"e_unfit").reason_not_loaded == "unfit"
    assert entry(whole, b"_excluded").reason_not_loaded == "excluded"
    with whole.snapshot() as cache:
        assert cache.complete(targets.tables(b"hive", b"sales")) and cache.complete(targets.databases(b"hive"))
        assert not cache.complete(targets.tables(b"hive", b"zz_remote"))
        assert cache.mark(targets.FUNCTIONS) == b"functions" and cache.meta.cursor == 5
    for chunk in (1, 2, 7, 11, 40, 95, 96):
        reader, _ = fill(chunk)
        wrong = differences(expected, dump(reader))
        assert not wrong, (chunk, wrong)


def test_no_room(fill: Fill) -> None:
    """From some table on they are listed only; of one that was being loaded nothing is left."""
    reader, filling = fill(10, max_bytes=1)
    assert filling.tables == 0
    assert {entry(reader, name).reason_not_loaded for name in COUNTS} == {"full"}
    with reader.snapshot() as cache:
        assert cache.complete(targets.tables(b"hive", b"sales")) and cache.meta.partitions == 0


def test_only_what_is_included(fill: Fill) -> None:
    reader, filling = fill(10, include=("sales.d_*",))
    assert (filling.tables, filling.partitions) == (1, 3)
    assert entry(reader, b"a_large").reason_not_loaded == "excluded"
    assert entry(reader, b"d_small").partition_count == 3


class Counted(Place):
    """Records which files are read."""

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        self.read_names: list[str] = []

    def read(self, file: File) -> bytes:
        self.read_names.append(file.name)
        return super().read(file)


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize(
    ("include", "skipped"),
    [
        ((), []),
        (("sales.a_*",), ["partitions/part-5"]),
        (("sales.d_*",), ["partitions/part-3", "partitions/part-5"]),
        (("sales.f_*",), ["partitions/part-3"]),
        (("sales.b_*", "sales.c_*"), ["partitions/part-3", "partitions/part-5"]),
        (("other.*",), ["partitions/part-3", "partitions/part-4", "partitions/part-5"]),
    ],
)
def test_each_file_is_read_once_and_only_if_it_is_needed(
    made: tuple[Path, Manifest], tmp_path: Path, include: tuple[str, ...], skipped: list[str], exact: bool
) -> None:
    place, manifest = Counted(str(made[0])), replace(made[1], exact=exact)
    with StatePage(tmp_path / "state", create=True) as page:
        writer = CacheWriter.open(tmp_path / "cache", page, IDENTITY)
        _Filling(writer, manifest, LoadScope(include, (), 1 << 30, 10), lambda: None).run(place)
        writer.close()
    assert sorted(place.read_names) == sorted({file.name for file in manifest.files} - set(skipped))


def test_a_file_whose_tables_are_not_named_is_read(made: tuple[Path, Manifest]) -> None:
    """Or whose first table has been dropped since: an increment has the files of an earlier snapshot."""
    for file in made[1].of_kind(rows.PARTITIONS):
        for other in (replace(file, first=None, last=None), replace(file, first=10**6)):
            manifest, place = replace(made[1], files=(*made[1].of_kind(rows.TABLES), other)), Counted(str(made[0]))
            reading = Reading(place, manifest, lambda database, name: False)
            next(reading.runs().of(other.last or 0), None)
            assert other.name in place.read_names


def flipped(directory: Path, name: str) -> None:
    path = directory / name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("number", range(6))
@pytest.mark.parametrize("chunk", [1, 1000])
def test_after_a_flipped_byte_the_cache_is_empty(
    made: tuple[Path, Manifest], tmp_path: Path, number: int, chunk: int
) -> None:
    """In whichever file it is, and whatever has been committed when it is read."""
    directory, manifest = tmp_path / "copy", made[1]
    shutil.copytree(made[0], directory)
    flipped(directory, manifest.files[number].name)
    with StatePage(tmp_path / "state", create=True) as page:
        writer = CacheWriter.open(tmp_path / "cache", page, IDENTITY)
        with pytest.raises(SnapshotError, match=f"the checksum of {manifest.files[number].name} is wrong"):
            _Filling(writer, manifest, LoadScope((), (), 1 << 30, chunk), lambda: None).run(Place(str(directory)))
        assert (writer.meta.cursor, writer.counts()) == (0, {"databases": 0, "tables": 0, "partitions": 0})
        reader = CacheReader(tmp_path / "cache", page)
        assert set(dump(reader)) == {"meta"}
        with reader.snapshot() as cache:
            assert not cache.complete(targets.databases(b"hive"))
        _Filling(writer, manifest, LoadScope((), (), 1 << 30, chunk), lambda: None).run(Place(str(made[0])))
        assert writer.counts()["partitions"] == 95 + 3 + 40, "another one can be loaded"
        reader.close()
        writer.close()


def test_what_is_loaded_stays_when_the_process_is_to_end(made: tuple[Path, Manifest], tmp_path: Path) -> None:
    commits = 0

    def alive() -> None:
        nonlocal commits
        commits += 1
        if commits == 5:
            raise BootstrapEnded("the end")

    with StatePage(tmp_path / "state", create=True) as page:
        writer = CacheWriter.open(tmp_path / "cache", page, IDENTITY)
        with pytest.raises(BootstrapEnded):
            _Filling(writer, made[1], LoadScope((), (), 1 << 30, 10), alive).run(Place(str(made[0])))
        assert writer.meta.cursor == 5 and writer.counts()["databases"] == 2
        writer.close()


def test_a_table_that_was_renamed_between_two_states(tmp_path: Path) -> None:
    """Two names of one id: neither is believed, both are to be loaded."""
    files = Files(tmp_path)
    files.put(rows.DATABASES, [rows.database_row(0, database())])
    listed = [
        TableRow(b"hive", b"sales", name, number, b"MANAGED_TABLE", table(name, number))
        for name, number in ((b"a", 7), (b"b", 8), (b"c", 7))
    ]
    listed.append(TableRow(b"hive", b"sales", b"d_excluded", 8, b"MANAGED_TABLE"))
    files.put(rows.TABLES, [rows.table_row(0, row) for row in listed])
    files.put(rows.PARTITIONS, [rows.partition_row(0, 8, part.record()) for part in days(2)])
    made = replace(files.manifest(), exact=False)
    with StatePage(tmp_path / "state", create=True) as page:
        writer = CacheWriter.open(tmp_path / "cache", page, IDENTITY)
        _Filling(writer, made, LoadScope((), (), 1 << 30, 10), lambda: None).run(Place(str(tmp_path)))
        reader = CacheReader(tmp_path / "cache", page)
        reasons = {name: entry(reader, name).reason_not_loaded for name in (b"a", b"b", b"c", b"d_excluded")}
        assert reasons == {b"a": "loading", b"b": "", b"c": "loading", b"d_excluded": "excluded"}
        assert entry(reader, b"b").partition_count == 2
        with reader.snapshot() as cache:
            assert set(LoadQueue.missing(Inventory(cache), {}).tables) == {
                (b"hive", b"sales", b"a"),
                (b"hive", b"sales", b"c"),
            }
        reader.close()
        writer.close()


def test_partitions_without_their_table(made: tuple[Path, Manifest], tmp_path: Path) -> None:
    files = Files(tmp_path)
    files.put(rows.PARTITIONS, [rows.partition_row(0, 1, part.record()) for part in days(2)])
    with StatePage(tmp_path / "state", create=True) as page:
        writer = CacheWriter.open(tmp_path / "cache", page, IDENTITY)
        with pytest.raises(SnapshotError, match="partitions of table 1, but not this table"):
            _Filling(writer, files.manifest(), LoadScope((), (), 1 << 30, 10), lambda: None).run(Place(str(tmp_path)))
        writer.close()
