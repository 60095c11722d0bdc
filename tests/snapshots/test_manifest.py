"""The manifest: the document there and back, and what makes a snapshot unusable."""

from __future__ import annotations

import hashlib
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from hms_cache_proxy.errors import SnapshotError
from hms_cache_proxy.snapshots import manifest
from hms_cache_proxy.snapshots.manifest import FORMAT, File, Manifest
from hms_cache_proxy.snapshots.place import Place, as_uri
from hms_cache_proxy.store.protocol import Marks, StoreIdentity

IDENTITY = StoreIdentity("uuid", "4.2.0", "4.2", True, True)
MADE = Manifest(
    "0.1.0",
    "2026-01-31T12:00:00Z",
    IDENTITY,
    (),
    ("tmp.*",),
    17,
    18,
    False,
    b"\x01\xff",
    Marks(b"f", b"c", None),
    {"tables": 1},
    (File("tables", "tables/part-0", 1, 2, "ab"), File("databases", "databases/part-0", 1, 2, "ab")),
)


@pytest.mark.parametrize("made", [MADE, replace(MADE, fingerprint=None, marks=None, files=())])
def test_there_and_back(made: Manifest) -> None:
    assert Manifest.parse(made.dump()) == made


@pytest.mark.parametrize("document", [b"", b"[]", b"{}", MADE.dump()[:-40], MADE.dump().replace(b'"before"', b'"x"')])
def test_damaged(document: bytes) -> None:
    with pytest.raises(SnapshotError, match="damaged"):
        Manifest.parse(document)


def test_another_format() -> None:
    with pytest.raises(SnapshotError, match=f"format is version {FORMAT + 1}, this program's is {FORMAT}"):
        Manifest.parse(MADE.dump().replace(b'"format": %d' % FORMAT, b'"format": %d' % (FORMAT + 1)))


@pytest.mark.parametrize("older", range(1, FORMAT))
def test_an_older_format(older: int) -> None:
    assert Manifest.parse(MADE.dump().replace(b'"format": %d' % FORMAT, b'"format": %d' % older)) == MADE


@pytest.mark.parametrize(
    ("identity", "words"),
    [
        (replace(IDENTITY, database_uuid="other"), "another metastore database"),
        (replace(IDENTITY, schema_version="4.1.0"), "another schema version"),
        (replace(IDENTITY, binary_collation=False), "another collation"),
        (replace(IDENTITY, exact=False), "another kind of store"),
    ],
)
def test_of_something_else(identity: StoreIdentity, words: str) -> None:
    assert words in str(MADE.differs(identity, (), ("tmp.*",)))


def test_scope() -> None:
    assert MADE.differs(IDENTITY, (), ("tmp.*",)) is None
    assert "exclude = ['tmp.*'] admit" in str(MADE.differs(IDENTITY, (), ()))
    whole = replace(MADE, exclude=())
    assert whole.differs(IDENTITY, ("sales.*",), ()) is None, "a part of what it has"


def test_a_database_that_nothing_identifies() -> None:
    nameless = replace(IDENTITY, database_uuid="")
    made = replace(MADE, identity=nameless, exclude=())
    assert made.differs(nameless, (), ()) is None, "the event's row identifies it"
    assert made.differs(IDENTITY, (), ()) is None, "its id was made later"
    assert "neither" in str(replace(made, before=0).differs(nameless, (), ()))


def test_hive_23() -> None:
    old = replace(IDENTITY, hive_line="2.3")
    assert "not in order" in str(replace(MADE, identity=old).differs(old, (), ("tmp.*",)))


# Where they lie


def put(directory: Path, made: Manifest) -> Manifest:
    (directory / "tables").mkdir(parents=True)
    data = b"some bytes"
    (directory / "tables" / "part-0").write_bytes(data)
    file = File("tables", "tables/part-0", 1, len(data), hashlib.sha256(data).hexdigest())
    whole = replace(made, files=(file,))
    (directory / manifest.NAME).write_bytes(whole.dump())
    return whole


def test_one_snapshot(tmp_path: Path) -> None:
    made = put(tmp_path / "a b", MADE)
    (place,) = Place(str(tmp_path / "a b")).snapshots()
    assert place.manifest() == made
    assert place.read(made.files[0]) == b"some bytes"
    (tmp_path / "a b" / "tables" / "part-0").write_bytes(b"some bytez")
    with pytest.raises(SnapshotError, match="checksum of tables/part-0"):
        place.read(made.files[0])
    (tmp_path / "a b" / "tables" / "part-0").write_bytes(b"some")
    with pytest.raises(SnapshotError, match="has 4 bytes, not 10"):
        place.read(made.files[0])
    (tmp_path / "a b" / "tables" / "part-0").unlink()
    with pytest.raises(SnapshotError, match="cannot be read"):
        place.read(made.files[0])


def test_published_ones_newest_first(tmp_path: Path) -> None:
    for day in ("20260101", "20260201", "20251201"):
        put(tmp_path / f"snapshot-{day}T000000Z-000000aa", MADE)
    (tmp_path / "other").mkdir()
    (tmp_path / "snapshot-20260301T000000Z-000000aa").mkdir()
    found = Place(tmp_path.as_uri()).snapshots()
    assert [place.uri.rpartition("/")[2][9:17] for place in found] == ["20260301", "20260201", "20260101", "20251201"]
    assert found[0].manifest() is None, "it is being made"


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match="cannot be listed"):
        Place(str(tmp_path / "nothing")).snapshots()
    with pytest.raises(SnapshotError, match="not on a file system"):
        Place("nosuch://place/x")


def test_two_that_delete_the_same(tmp_path: Path) -> None:
    """As two runs of `snapshot publish` do."""
    place, begin = Place(str(tmp_path)), threading.Barrier(2)

    def delete() -> None:
        begin.wait()
        place.delete("old")

    with ThreadPoolExecutor(2) as both:
        for _ in range(5):
            for number in range(60):
                put(tmp_path / "old" / f"{number % 10}" / f"{number}", MADE)
            for deletion in [both.submit(delete) for _ in range(2)]:
                deletion.result()
            assert not (tmp_path / "old").exists()


def test_uris() -> None:
    assert as_uri("s3a://bucket/dir/") == "s3a://bucket/dir"
    assert as_uri("/tmp/a b") == "file:///tmp/a%20b"
