"""One proxy per data directory, on a local disk."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from hms_cache_proxy.errors import CacheError
from hms_cache_proxy.processes import data_directory
from hms_cache_proxy.processes.data_directory import DataDir


def test_the_holder_is_named_and_its_death_frees_the_directory(tmp_path: Path) -> None:
    code = (
        "import sys, time\n"
        "from hms_cache_proxy.processes.data_directory import DataDir\n"
        "held = DataDir(sys.argv[1])\n"
        "print('held', flush=True)\n"
        "time.sleep(60)\n"
    )
    path = tmp_path / "data"
    with subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
        with pytest.raises(CacheError, match=f"in use by process {holder.pid}"):
            DataDir(path)
        holder.kill()
    with DataDir(path):
        assert (path / "lock").read_text() == f"{os.getpid()}\n"
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
        with pytest.raises(CacheError, match=f"process {os.getpid()}"):
            DataDir(path)
    with DataDir(path):
        pass


def test_a_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CacheError, match="data directory"):
        DataDir(tmp_path / "file" / "below")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another account")
def test_a_directory_that_all_may_write_to_and_another_account_owns() -> None:
    """As a volume of Kubernetes with `fsGroup`."""
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o777)
        os.seteuid(65_534)
        try:
            with pytest.raises(CacheError, match="belongs to another account"):
                DataDir(directory)
            with DataDir(f"{directory}/data"):
                pass
        finally:
            os.seteuid(0)


@pytest.mark.parametrize(
    ("magic", "kind", "name"),
    [
        (0xEF53, "ext4", None),
        (0x01021994, "tmpfs", None),
        (0x794C7630, "overlay", None),
        (0x58465342, "xfs", None),
        (0x6969, "nfs4", "NFS"),
        (0xFF534D42, "cifs", "CIFS"),
        (0x00C36400, "ceph", "Ceph"),
        (0x65735546, "fuse.sshfs", "fuse.sshfs"),
        (0x65735546, "fuse.fuse-overlayfs", None),
        (0x65735546, None, "FUSE"),
        (None, None, None),
    ],
)
def test_network_file_systems(magic: int | None, kind: str | None, name: str | None) -> None:
    assert data_directory.network_file_system(magic, lambda: kind) == name


def test_this_file_system_is_asked(tmp_path: Path) -> None:
    assert data_directory._statfs_magic(tmp_path)
    assert data_directory._mounted_type(Path("/proc")) == "proc"
    data_directory.refuse_network_file_system(tmp_path)
