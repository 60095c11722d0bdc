"""The .thrift files against the jars: derived again, they are the same byte for byte."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tests.testbed.artifacts import MissingPrerequisite
from tests.testbed.interface import IDL

VERSIONS = ["2.3.10", "4.2.0"]  # one of each libthrift, and the one whose class files are newer than the JDK


def test_deriving_again_gives_the_same_files(tmp_path: Path) -> None:
    missing = [program for program in ("mvn", "javac", "java") if shutil.which(program) is None]
    if missing:
        raise MissingPrerequisite(f"not installed: {', '.join(missing)}")
    command = ["sh", str(IDL / "derive.sh"), str(tmp_path), *VERSIONS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr
    derived = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert set(derived) == {"fb303.thrift", *(f"hive_metastore-{version}.thrift" for version in VERSIONS)}
    for name, content in derived.items():
        assert content == (IDL / name).read_bytes(), name
