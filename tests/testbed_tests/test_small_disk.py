"""A small file system that only some processes see."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.testbed.small_disk import SmallDisk, can_mount


@pytest.mark.skipif(not can_mount(), reason="needs root, and unshare and nsenter of util-linux")
def test_it_is_full_and_has_room_again(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    with SmallDisk(directory, 1 << 20) as disk:
        write = [*disk.inside, "sh", "-c", f"echo word > {directory}/file"]
        assert subprocess.run(write).returncode == 0
        assert disk.outside(directory / "file").read_text() == "word\n"
        assert list(directory.iterdir()) == [], "nobody else sees it"
        with disk.full():
            more = [*disk.inside, "sh", "-c", f"echo word > {directory}/more"]
            assert subprocess.run(more, stderr=subprocess.DEVNULL).returncode != 0
        assert subprocess.run(write).returncode == 0
        assert {path.name for path in disk.outside(directory).iterdir()} <= {"file", "more"}
