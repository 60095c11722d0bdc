"""Which files are used again, and what becomes of those that are not."""

from __future__ import annotations

import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from hms_cache_proxy.cache import environment as files
from hms_cache_proxy.cache import layout
from hms_cache_proxy.cache.changes import Changes, PartitionChange
from hms_cache_proxy.cache.entries import ABSENT
from hms_cache_proxy.cache.reader import CacheReader
from hms_cache_proxy.cache.state import Slot, StatePage
from hms_cache_proxy.cache.writer import CacheWriter
from hms_cache_proxy.errors import CacheError, CacheFull
from tests.cache.conftest import Shelf
from tests.cache.records import DATABASE, IDENTITY, TABLE_ID, database, days

PAGE_BYTES = 4096


def bad_files(shelf: Shelf) -> list[Path]:
    return sorted(shelf.root.glob("cache.bad-*"))


def is_filled(shelf: Shelf) -> bool:
    with shelf.reader.snapshot() as snapshot:
        return snapshot.database(*DATABASE) not in (None, ABSENT)


def forge(shelf: Shelf, key: bytes, value: bytes) -> None:
    environment = shelf.writer._environment
    with environment.env.begin(write=True) as txn:
        txn.put(key, value, db=environment.meta)


@pytest.mark.parametrize("clean", [True, False])
def test_the_same_cache_is_used_again(shelf: Shelf, clean: bool) -> None:
    seq = shelf.fill(days(10), cursor=42)
    shelf.page[Slot.CURSOR] = 0
    writer = shelf.reopen(clean=clean)
    assert writer.rebuilt is None and not bad_files(shelf)
    assert (writer.meta.cursor, writer.meta.seq, writer.meta.partitions) == (42, seq, 10)
    assert (shelf.page[Slot.CURSOR], shelf.page[Slot.CACHE_SEQ]) == (42, seq)
    assert is_filled(shelf)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"database_uuid": "other"}, "another metastore database"),
        ({"schema_version": "4.1.0"}, "another schema version"),
        ({"hive_line": "4.1"}, "another Hive version"),
        ({"binary_collation": False}, "another collation"),
        ({"exact": False}, "another kind of store"),
    ],
)
def test_another_identity_is_another_cache(shelf: Shelf, change: dict[str, object], words: str) -> None:
    seq = shelf.fill(days(10))
    writer = shelf.reopen(replace(IDENTITY, **change))  # type: ignore[arg-type]
    assert writer.rebuilt is not None and words in writer.rebuilt
    assert len(bad_files(shelf)) == 1
    assert writer.meta.seq > seq, "a kept reply of the old file must not fit the new one"
    assert not is_filled(shelf)


def test_another_scope_is_another_cache(shelf: Shelf) -> None:
    shelf.fill(days(10))
    assert "include/exclude" in (shelf.reopen(scope="only a.*").rebuilt or "")
    assert shelf.reopen(scope="only a.*").rebuilt is None


def test_another_format_is_another_cache(shelf: Shelf) -> None:
    row = shelf.writer._environment.env.begin().get(layout.IDENTITY_KEY, db=shelf.writer._environment.meta)
    forge(shelf, layout.IDENTITY_KEY, row.replace(b'"format": %d' % layout.FORMAT, b'"format": 999'))
    assert "another format version" in (shelf.reopen().rebuilt or "")


def test_only_the_newest_bad_file_is_kept(shelf: Shelf) -> None:
    for number in range(3):
        shelf.reopen(scope=str(number))
    assert len(bad_files(shelf)) == 1


def test_the_machine_was_restarted(shelf: Shelf) -> None:
    """After an orderly stop everything was synced; after any other end nobody knows what reached the disk."""
    shelf.fill(days(10))
    forge(shelf, layout.BOOT_KEY, b"an earlier run")
    assert shelf.reopen(clean=True).rebuilt is None
    assert is_filled(shelf)
    forge(shelf, layout.BOOT_KEY, b"an earlier run")
    assert "machine went down" in (shelf.reopen(clean=False).rebuilt or "")
    assert not is_filled(shelf)


def test_a_clean_mark_vouches_for_one_state_only(shelf: Shelf) -> None:
    shelf.fill(days(10))
    shelf.writer.close()
    mark = (shelf.path / "clean").read_bytes()
    shelf.writer = CacheWriter.open(shelf.path, shelf.page, IDENTITY)
    shelf.writer.commit(Changes(cursor=11))
    forge(shelf, layout.BOOT_KEY, b"an earlier run")
    (shelf.path / "clean").write_bytes(mark)
    assert "machine went down" in (shelf.reopen(clean=False).rebuilt or "")


def test_a_mark_that_cannot_be_written(shelf: Shelf) -> None:
    """A full disk at the end: what a kill leaves, and no failure."""
    shelf.fill(days(10))
    (shelf.path / "clean").symlink_to("/dev/full")
    assert shelf.reopen(clean=True).rebuilt is None
    assert is_filled(shelf) and not (shelf.path / "clean").is_symlink()
    (shelf.path / "clean").symlink_to("/dev/full")
    forge(shelf, layout.BOOT_KEY, b"an earlier run")
    assert "machine went down" in (shelf.reopen(clean=True).rebuilt or "")


@pytest.mark.parametrize("damage", ["garbage", "short", "empty", "meta pages"])
def test_a_damaged_file_is_moved_aside(shelf: Shelf, damage: str) -> None:
    shelf.fill(days(2000))
    shelf.reader.close()
    shelf.writer.close()
    data = shelf.path / "data.mdb"
    size = data.stat().st_size
    if damage == "garbage":
        data.write_bytes(os.urandom(size))
    elif damage == "short":
        os.truncate(data, 5 * 4096)
    elif damage == "empty":
        os.truncate(data, 0)
    else:
        with data.open("r+b") as file:
            file.write(b"\0" * 8192)
    shelf.writer = CacheWriter.open(shelf.path, shelf.page, IDENTITY)
    if damage != "empty":  # an empty file is a new one
        assert shelf.writer.rebuilt is not None and len(bad_files(shelf)) == 1
    assert not is_filled(shelf)
    shelf.fill(days(10))
    assert is_filled(shelf)


def test_whichever_page_is_damaged_the_cache_can_be_opened_again(shelf: Shelf) -> None:
    """At once, or after the attempt that has found the damage. Of most pages nothing is read before they are used."""
    shelf.fill(days(30))
    shelf.reader.close()
    shelf.writer.close()
    data, mark = shelf.path / "data.mdb", shelf.path / "clean"
    whole, vouched = data.read_bytes(), mark.read_bytes()
    found = 0
    for at in range(2 * PAGE_BYTES, len(whole), PAGE_BYTES):
        data.write_bytes(whole[:at] + bytes(PAGE_BYTES) + whole[at + PAGE_BYTES :])
        mark.write_bytes(vouched)
        try:
            writer = CacheWriter.open(shelf.path, shelf.page, IDENTITY)
        except CacheError as error:
            assert "damaged" in str(error)
            writer = CacheWriter.open(shelf.path, shelf.page, IDENTITY)
            assert "damaged" in (writer.rebuilt or "")
        found += writer.rebuilt is not None
        writer.close()
    assert found >= 3
    shelf.writer = CacheWriter.open(shelf.path, shelf.page, IDENTITY)


@pytest.mark.parametrize("opened", [False, True])
def test_what_a_reader_finds_has_the_cache_rebuilt(shelf: Shelf, opened: bool) -> None:
    """Pages that are damaged while the cache is open, and that the writer does not read; `opened`: by the reader."""
    shelf.fill(days(200))
    assert not opened or is_filled(shelf)
    shelf.writer.check()
    data = shelf.path / "data.mdb"
    with data.open("r+b") as file:
        for at in range(2 * PAGE_BYTES, data.stat().st_size, PAGE_BYTES):
            file.seek(at)
            file.write(bytes(PAGE_BYTES))
    for _ in range(2):
        with pytest.raises(CacheError, match="cannot be read"), shelf.reader.snapshot() as snapshot:
            snapshot.database(*DATABASE)
    with pytest.raises(CacheError, match="must be rebuilt"):
        shelf.writer.check()
    shelf.writer._environment.detach(writer=True)
    shelf.writer = CacheWriter.open(shelf.path, shelf.page, IDENTITY)
    assert "damaged" in (shelf.writer.rebuilt or "") and len(bad_files(shelf)) == 1
    shelf.writer.check()
    shelf.fill(days(10))
    assert is_filled(shelf)


def test_whoever_sees_damage_can_condemn_the_file(shelf: Shelf) -> None:
    shelf.fill(days(10))
    files.condemn(shelf.path, "a worker died of SIGBUS")
    assert shelf.reopen().rebuilt == "a worker died of SIGBUS"
    assert shelf.reopen().rebuilt is None


def test_readers_move_over_to_the_new_file(shelf: Shelf) -> None:
    shelf.fill(days(10))
    assert is_filled(shelf)
    shelf.writer.close()
    shelf.writer = CacheWriter.open(shelf.path, shelf.page, IDENTITY, scope="new")
    with shelf.reader.snapshot() as snapshot:
        assert snapshot.database(*DATABASE) is None
    shelf.writer.commit(Changes(cursor=1, databases={DATABASE: database()}))
    assert is_filled(shelf)


def test_there_is_no_cache_yet(tmp_path: Path) -> None:
    with StatePage(tmp_path / "state", create=True) as page:
        reader = CacheReader(tmp_path / "cache", page)
        with pytest.raises(CacheError, match="no cache yet"):
            reader.snapshot()
        writer = CacheWriter.open(tmp_path / "cache", page, IDENTITY)
        with reader.snapshot() as snapshot:
            assert snapshot.meta.cursor == 0
        reader.close()
        writer.close()


def test_nobody_else_can_read_the_files(shelf: Shelf) -> None:
    shelf.fill(days(10))
    assert stat.S_IMODE(shelf.path.stat().st_mode) == 0o700
    for file in ("data.mdb", "lock.mdb"):
        assert stat.S_IMODE((shelf.path / file).stat().st_mode) == 0o600


def test_full(tmp_path: Path) -> None:
    """Over `max_bytes` nothing is admitted; cursor, drops and versions still go through."""
    with StatePage(tmp_path / "state", create=True) as page:
        writer = CacheWriter.open(tmp_path / "cache", page, IDENTITY, max_bytes=2_000_000)
        made = Shelf(tmp_path, page, writer, CacheReader(tmp_path / "cache", page))
        made.fill(days(4000), cursor=1)
        more = PartitionChange(TABLE_ID, [part.record() for part in days(10_000)], replace_all=True)
        with pytest.raises(CacheFull, match="its limit of 2000000 bytes"):
            writer.commit(Changes(cursor=2, partitions=[more]))
        assert (writer.meta.cursor, writer.meta.partitions) == (1, 4000)
        writer.commit(Changes(cursor=2, not_loaded={TABLE_ID: "full"}, done_ticket=5))
        assert page[Slot.CURSOR] == 2
        while writer.collect():
            pass
        made.fill(days(1000), cursor=3)
        made.reader.close()
        writer.close()


def test_the_map_is_full(tmp_path: Path) -> None:
    """LMDB's own limit: nothing of the step is in the cache, and the next one can be."""
    with StatePage(tmp_path / "state", create=True) as page:
        writer = CacheWriter.open(tmp_path / "cache", page, IDENTITY, map_size=1 << 20)
        made = Shelf(tmp_path, page, writer, CacheReader(tmp_path / "cache", page))
        made.fill(days(100), cursor=1)
        with pytest.raises(CacheFull, match="map is full"):
            made.fill(days(10_000), cursor=2)
        assert (writer.meta.cursor, page[Slot.CURSOR]) == (1, 1)
        made.fill(days(200), cursor=2)
        assert writer.meta.partitions == 200
        made.reader.close()
        writer.close()


def test_the_file_does_not_grow_with_time(shelf: Shelf) -> None:
    """Pages that deletions free are used again."""
    shelf.fill(days(2000), cursor=1)
    sizes = []
    for number in range(12):
        shelf.fill(days(2000, files=number), cursor=2 + number)
        while shelf.writer.collect():
            pass
        sizes.append((shelf.path / "data.mdb").stat().st_size)
    assert max(sizes[4:]) == sizes[4]
    assert shelf.writer.cache_bytes < sizes[-1]


def test_a_file_that_may_not_be_opened_is_left_where_it_is(shelf: Shelf) -> None:
    """Want of rights or of room is no reason to throw a cache away."""
    shelf.fill(days(10))
    shelf.reader.close()
    shelf.writer.close()
    lock = shelf.path / "lock.mdb"
    lock.unlink()
    lock.mkdir()
    with pytest.raises(CacheError, match="cannot be opened"):
        CacheWriter.open(shelf.path, shelf.page, IDENTITY)
    assert not bad_files(shelf)
    lock.rmdir()
    shelf.writer = CacheWriter.open(shelf.path, shelf.page, IDENTITY)
    assert shelf.writer.rebuilt is None and is_filled(shelf)
