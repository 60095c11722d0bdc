"""What commands write: files that are whole or as they were, and one line where the disk is full."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hms_cache_proxy.cli import files
from hms_cache_proxy.errors import AdviceError

BELOW_A_LIMIT = """
import resource, sys
from pathlib import Path
from hms_cache_proxy.cli import files
from hms_cache_proxy.errors import AdviceError

resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    files.write(Path(sys.argv[1]), b"new" * 1000, AdviceError)
except AdviceError as error:
    print(error)
"""


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    file = tmp_path / "advice.toml"
    file.write_bytes(b"old")
    with file.open("rb") as reader:
        files.write(file, b"new", AdviceError)
        assert (reader.read(), file.read_bytes(), os.listdir(tmp_path)) == (b"old", b"new", ["advice.toml"])
    done = subprocess.run([sys.executable, "-c", BELOW_A_LIMIT, str(file)], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == (f"cannot write {file}: File too large\n", "")
    assert file.read_bytes() == b"new"


def test_what_is_no_file_is_written_to(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    link.symlink_to(target)
    for _ in range(2):
        files.write(link, b"text", AdviceError)
        assert link.is_symlink() and target.read_bytes() == b"text"
    with pytest.raises(AdviceError, match="cannot write /dev/full: No space left on device"):
        files.write(Path("/dev/full"), b"text", AdviceError)
    with pytest.raises(AdviceError, match=f"cannot write {tmp_path}: Is a directory"):
        files.write(tmp_path, b"text", AdviceError)


def test_a_place_that_cannot_be_looked_up(tmp_path: Path) -> None:
    file = tmp_path / ("a" * 300)
    with pytest.raises(AdviceError, match=f"cannot write {file}: File name too long"):
        files.write(file, b"text", AdviceError)


@pytest.mark.parametrize("arguments", [["check-config", "--upstream", "thrift://h:1"], ["--help"]])
def test_an_output_that_is_full(arguments: list[str]) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "hms_cache_proxy", *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
        )
    assert (done.returncode, done.stderr) == (1, "hms-cache-proxy: cannot write: No space left on device\n")
