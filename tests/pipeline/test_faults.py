"""What goes wrong is one line that says what, and an exit code: no traceback of Python's, no stack of Java's."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from hms_cache_proxy.cli import main
from hms_cache_proxy.snapshots import manifest
from hms_cache_proxy.snapshots.manifest import Manifest
from tests.pipeline.conftest import World
from tests.testbed.processes import free_port

pytestmark = [pytest.mark.real, pytest.mark.filterwarnings("ignore::ResourceWarning")]
ASK = "SELECT count(*) FROM partitions WHERE location = 'x'"
Said = Callable[..., str]


@pytest.fixture
def said(spark: SparkSession, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Said:
    """Runs a command in this process; gives the line that it ends with."""

    def run(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["hms-cache-proxy", *arguments, "--master", "local[2]"])
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        seen = capfd.readouterr().err
        assert ended.value.code == 1, seen
        assert "Traceback" not in seen and "\tat " not in seen, seen
        (line,) = [line for line in seen.splitlines() if line.startswith("hms-cache-proxy: ")]
        assert seen.endswith(line + "\n") and len(line) < 600, seen
        return line

    return run


def test_snapshots_that_cannot_be_read(said: Said, built: tuple[Path, Manifest], tmp_path: Path) -> None:
    assert "cannot be listed" in said("snapshot", "query", "--uri", str(tmp_path / "nowhere"), ASK)
    assert "nosuch" in said("snapshot", "query", "--uri", str(built[0]), "SELECT * FROM nosuch")
    assert "syntax" in said("snapshot", "query", "--uri", str(built[0]), "SELEC 1").lower()
    copy = tmp_path / "copy"
    shutil.copytree(built[0], copy)
    file = copy / built[1].of_kind("partitions")[0].name
    file.write_bytes(file.read_bytes()[:-100])
    assert f"{file.parent.name}/{file.name} has " in said("snapshot", "query", "--uri", str(copy), ASK)
    found = json.loads((copy / manifest.NAME).read_text())
    (copy / manifest.NAME).write_text(json.dumps({**found, "format": 99}))
    assert "format is version 99, this program's is 1" in said("snapshot", "query", "--uri", str(copy), ASK)


def test_places_that_cannot_be_written(said: Said, world: World, tmp_path: Path) -> None:
    build = ("snapshot", "build", "--store-url", world.config.store_url, "--out")
    (tmp_path / "file").write_text("something")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "something").write_text("")
    assert "has other things in it" in said(*build, str(tmp_path / "full"))
    assert "file" in said(*build, str(tmp_path / "file"))
    assert "Parent path is not a directory" in said(*build, "/dev/null/x")
    assert "hadoop-aws" in said(*build, "s3a://nowhere/x")


def test_databases_that_cannot_be_read(said: Said, tmp_path: Path) -> None:
    build = ("snapshot", "build", "--out", str(tmp_path / "out"), "--store-url")
    assert "127.0.0.1" in said(*build, f"postgresql://someone:secret@127.0.0.1:{free_port()}/nothing")
    assert not (tmp_path / "out").exists()
