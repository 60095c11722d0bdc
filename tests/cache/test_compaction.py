"""A file that is much longer than what it holds becomes short again when it is opened."""

from __future__ import annotations

import pytest

from hms_cache_proxy.cache import compaction
from hms_cache_proxy.cache.changes import Changes
from hms_cache_proxy.cache.entries import DatabaseEntry
from hms_cache_proxy.cache.writer import CacheWriter
from tests.cache.conftest import Shelf
from tests.cache.records import DATABASE, IDENTITY, database, days

LARGE = b"x" * (compaction.WASTED_BYTES + (1 << 20))


def length(shelf: Shelf) -> int:
    return (shelf.path / "data.mdb").stat().st_size


def grown(shelf: Shelf) -> None:
    """Some partitions, and a row that was large once."""
    shelf.fill(days(50))
    shelf.writer.commit(Changes(cursor=11, databases={DATABASE: database(body=LARGE)}))
    shelf.writer.commit(Changes(cursor=12, databases={DATABASE: database(body=b"small")}))


@pytest.mark.parametrize("clean", [True, False])
def test_free_pages_are_left_behind(shelf: Shelf, clean: bool) -> None:
    grown(shelf)
    before = length(shelf)
    assert before > len(LARGE)
    meta = shelf.writer.meta
    shelf.reopen(clean=clean)
    assert shelf.writer.rebuilt is None and shelf.writer.meta == meta
    assert length(shelf) < before / 4
    with shelf.reader.snapshot() as snapshot:
        found = snapshot.database(*DATABASE)
        assert isinstance(found, DatabaseEntry) and found.body == b"small"
    assert sorted(path.name for path in shelf.root.glob("cache*")) == ["cache"]
    shelf.writer.commit(Changes(cursor=13, databases={DATABASE: database(body=b"more")}))
    shelf.reopen()
    assert shelf.writer.rebuilt is None and shelf.writer.meta.cursor == 13


def test_a_file_that_is_needed_is_not_copied(shelf: Shelf) -> None:
    shelf.writer.commit(Changes(cursor=11, databases={DATABASE: database(body=LARGE)}))
    inode = (shelf.path / "data.mdb").stat().st_ino
    shelf.reopen()
    assert (shelf.path / "data.mdb").stat().st_ino == inode


def test_what_a_killed_copy_leaves_goes(shelf: Shelf) -> None:
    shelf.fill(days(3))
    for name in ("cache.compact", "cache.long"):
        (shelf.root / name).mkdir()
        (shelf.root / name / "data.mdb").write_bytes(b"half")
    shelf.reopen()
    assert shelf.writer.meta.partitions == 3
    assert sorted(path.name for path in shelf.root.glob("cache*")) == ["cache"]


def test_a_copy_that_was_killed_is_not_made_again_at_once(shelf: Shelf) -> None:
    """The follower that makes it shows no sign of life meanwhile: on a slow disk it was killed each time."""
    grown(shelf)
    before = length(shelf)
    (shelf.root / "cache.compact").mkdir()
    shelf.reopen(clean=False)
    assert length(shelf) == before
    assert sorted(path.name for path in shelf.root.glob("cache*")) == ["cache"]
    shelf.reopen()
    assert length(shelf) < before / 4


def test_a_file_that_cannot_be_copied_stays_long(shelf: Shelf) -> None:
    """Something is in the way of the copy, as a full disk is."""
    grown(shelf)
    before = length(shelf)
    (shelf.root / "cache.compact").write_text("in the way")
    shelf.reopen()
    assert shelf.writer.rebuilt is None and length(shelf) == before
    shelf.writer.commit(Changes(cursor=13, databases={DATABASE: database(body=b"more")}))


def test_a_file_that_others_of_this_process_have_open_is_left_alone(shelf: Shelf) -> None:
    grown(shelf)
    before = length(shelf)
    with shelf.reader.snapshot():
        shelf.writer.close()
        shelf.writer = CacheWriter.open(shelf.path, shelf.page, IDENTITY)
    assert length(shelf) == before
