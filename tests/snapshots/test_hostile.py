"""Snapshots that are damaged, or were made to do harm: a reader refuses them, and touches nothing else."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hms_cache_proxy.errors import SnapshotError
from hms_cache_proxy.snapshots import manifest
from hms_cache_proxy.snapshots.manifest import File, Manifest
from hms_cache_proxy.snapshots.place import Place, published_us
from hms_cache_proxy.snapshots.reading import Reading
from tests.snapshots.test_difference import made, records, row
from tests.snapshots.test_manifest import MADE

FLIPS = 150
SNAPSHOT = "snapshot-20260101T000000Z-00000000"


def naming(name: Any) -> bytes:
    """A manifest with this file."""
    return replace(MADE, files=(File("tables", name, 1, 2, "ab"),)).dump()


@pytest.mark.parametrize(
    "name",
    [
        *("/etc/passwd", "../../etc/passwd", "tables/../../secret", "..", ".", "", "tables/", "tables//part", "./part"),
        *("../other/tables/part", "../.hidden/part", f"../{SNAPSHOT}/../../part", "../../snapshot-x/part", 7),
    ],
)
def test_files_of_somewhere_else(name: Any) -> None:
    with pytest.raises(SnapshotError, match="names the file"):
        Manifest.parse(naming(name))


@pytest.mark.parametrize("name", ["tables/part-0", "tables/round-00000/part..0", f"../{SNAPSHOT}/partitions/part-0"])
def test_files_of_snapshots(name: str) -> None:
    assert Manifest.parse(naming(name)).files[0].name == name


@pytest.mark.parametrize(
    ("name", "published"),
    [
        (SNAPSHOT, True),
        ("snapshot-20260101T000000Z-aa", False),
        ("snapshot-20260101T000000Z-zzzzzzzz", False),
        ("snapshot-20260231T000000Z-00000000", False),
        ("snapshot-99999999T999999Z-00000000", False),
        ("snapshot-old", False),
        (f"{SNAPSHOT}.bak", False),
    ],
)
def test_foreign_names_do_not_count(name: str, published: bool, tmp_path: Path) -> None:
    """However late they sort."""
    assert (published_us(name) is not None) == published
    for one in {name, "snapshot-20250101T000000Z-00000000"}:
        (tmp_path / one).mkdir()
        (tmp_path / one / manifest.NAME).write_bytes(MADE.dump())
    names = [place.uri.rpartition("/")[2] for place in Place(str(tmp_path)).snapshots()]
    assert names == [*[SNAPSHOT] * published, "snapshot-20250101T000000Z-00000000"]


def everything(directory: Path) -> None:
    """Read it."""
    place = Place(str(directory))
    found = place.manifest()
    assert found is not None
    reading = Reading(place, found, None)
    list(reading.databases())
    runs = reading.runs()
    for table in reading.tables():
        for run in runs.of(table.table_id):
            run.records()


def test_bytes_that_were_damaged_before_they_were_written(tmp_path: Path) -> None:
    """The checksum is right, so the file itself must show it. What cannot be told is another value, no crash."""
    whole = made(tmp_path / "a", [row(b"t", 2), row(b"u", 4)], {2: records(0, 1, 2), 4: records(0)}, [b"sales"])
    document, refused = json.loads((whole / manifest.NAME).read_text()), 0
    everything(whole)
    for _ in range(FLIPS):
        file = random.choice(document["files"])
        good = (whole / file["name"]).read_bytes()
        data = bytearray(good)
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)
        changed = {**file, "sha256": hashlib.sha256(data).hexdigest()}
        (whole / file["name"]).write_bytes(data)
        files = [changed if one is file else one for one in document["files"]]
        (whole / manifest.NAME).write_text(json.dumps({**document, "files": files}))
        try:
            everything(whole)
        except SnapshotError:
            refused += 1
        (whole / file["name"]).write_bytes(good)
    assert refused > FLIPS / 4


@pytest.mark.parametrize(
    "change",
    [
        lambda found: found.update(files={"a": 1}),
        lambda found: found.update(files=["x"]),
        lambda found: found.update(files=None),
        lambda found: found.update(identity=[]),
        lambda found: found.update(marks="x"),
        lambda found: found.update(fingerprint=5),
        lambda found: found["events"].update(before="x"),
        lambda found: found.update(counts=5),
        lambda found: found["scope"].update(include=None),
    ],
)
def test_a_manifest_of_other_types(change: Callable[[dict[str, Any]], None]) -> None:
    found = json.loads(MADE.dump())
    change(found)
    with pytest.raises(SnapshotError, match="is damaged"):
        Manifest.parse(json.dumps(found).encode())
