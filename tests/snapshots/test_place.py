"""Files of snapshots on a local disk: what of them is there after a crash."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hms_cache_proxy.snapshots.place import Place


def test_a_file_is_on_the_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a manifest could be there after a crash, and the files that it names be empty."""
    done: list[tuple[str, Path]] = []
    sync, replace = os.fsync, os.replace

    def synced(descriptor: int) -> None:
        done.append(("sync", Path(os.readlink(f"/proc/self/fd/{descriptor}")).relative_to(tmp_path)))
        sync(descriptor)

    def replaced(old: Path, new: Path) -> None:
        done.append(("rename", Path(new).relative_to(tmp_path)))
        replace(old, new)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", replaced)
    for name in ("tables/part-0", "manifest.json"):
        Place(str(tmp_path / "made")).write(name, b"data")
    made, tables = Path("made"), Path("made/tables")
    assert done == [
        ("sync", Path()),  # has `made`
        ("sync", made),
        ("sync", tables / ".part-0.new"),
        ("rename", tables / "part-0"),
        ("sync", tables),
        ("sync", made / ".manifest.json.new"),
        ("rename", made / "manifest.json"),
        ("sync", made),
    ]
    assert os.listdir(tmp_path / tables) == ["part-0"]
    assert (tmp_path / made / "manifest.json").read_bytes() == b"data"
