"""Files of snapshots on a local disk: what of them is there after a crash, and who waits for one that does not come."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hms_cache_proxy.errors import SnapshotError
from hms_cache_proxy.follower.bootstrap import BootstrapEnded
from hms_cache_proxy.snapshots import place as module
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


def test_waiting_for_a_store_that_is_silent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower that waited for one showed no sign of life. It was killed before a request to the store had failed,
    and so was each of its successors. The file is a pipe, whose opening waits for a writer; then it is refused."""
    monkeypatch.setattr(module, "SIGN_OF_LIFE_S", 0.02)
    pipe = tmp_path / "manifest.json"
    os.mkfifo(pipe)
    signs: list[str] = []

    def alive() -> None:
        signs.append("alive")
        if len(signs) == 10:
            os.close(os.open(pipe, os.O_WRONLY))

    with pytest.raises(SnapshotError, match=r"manifest\.json"):
        Place(str(tmp_path), alive).document(pipe.name)
    assert len(signs) >= 10


def test_an_end_that_does_not_wait_for_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SIGN_OF_LIFE_S", 0.02)
    pipe = tmp_path / "manifest.json"
    os.mkfifo(pipe)
    place = Place(str(tmp_path), lambda: None)

    def told_to_end() -> None:
        raise BootstrapEnded("this process has been told to end")

    monkeypatch.setattr(place, "_waiting", told_to_end)
    with pytest.raises(BootstrapEnded):
        place.document(pipe.name)
    os.close(os.open(pipe, os.O_WRONLY))  # for the thread that is left behind
