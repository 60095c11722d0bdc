"""What goes wrong is one line that says what, and an exit code: no traceback of Python's, no stack of Java's."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hms_cache_proxy.cli.main import main
from hms_cache_proxy.snapshots import manifest
from hms_cache_proxy.snapshots.manifest import Manifest
from tests.pipeline.conftest import World
from tests.testbed.processes import free_port

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.real, pytest.mark.filterwarnings("ignore::ResourceWarning")]
ASK = "SELECT count(*) FROM partitions WHERE location = 'x'"
Said = Callable[..., str]
ENDED_S = 300.0


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
    assert f"format is version 99, this program's is {manifest.FORMAT}" in said(
        "snapshot", "query", "--uri", str(copy), ASK
    )


def test_places_that_cannot_be_written(said: Said, world: World, tmp_path: Path) -> None:
    build = ("snapshot", "build", "--store-url", world.config.store_url, "--out")
    (tmp_path / "file").write_text("something")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "something").write_text("")
    assert "is not empty: it contains " in said(*build, str(tmp_path / "full"))
    assert "file" in said(*build, str(tmp_path / "file"))
    assert "file:///dev/null/x cannot be " in said(*build, "/dev/null/x")
    assert "is not on a file system that pyarrow or fsspec can read" in said(*build, "nothing://nowhere/x")
    assert "file:///proc/x cannot be written: " in said(*build, "/proc/x")


def test_databases_that_cannot_be_read(said: Said, tmp_path: Path) -> None:
    build = ("snapshot", "build", "--out", str(tmp_path / "out"), "--store-url")
    assert "127.0.0.1" in said(*build, f"postgresql://someone:secret@127.0.0.1:{free_port()}/nothing")
    assert not (tmp_path / "out").exists()


def test_an_account_that_may_not_read_everything(said: Said, world: World, tmp_path: Path) -> None:
    """What a publish that fails has made goes at once, what another one left a day ago goes, too, and nothing else."""
    ours = [f"snapshot-2020010{day}T000000Z-0000000{day}" for day in (1, 2)]
    others = ["snapshot-mine", "snapshot-20200101T000000Z-0000000g", "elsewhere"]
    for name in ours + others:
        (tmp_path / name).mkdir()
    (tmp_path / ours[1] / manifest.NAME).write_text("{}")
    world.rows('REVOKE SELECT ON "PARTITION_PARAMS" FROM hms_reader')
    try:
        line = said("snapshot", "publish", "--store-url", world.config.store_url, "--out", str(tmp_path), "--keep", "1")
    finally:
        world.rows('GRANT SELECT ON "PARTITION_PARAMS" TO hms_reader')
    assert "permission denied for table PARTITION_PARAMS; `hms-cache-proxy doctor` prints the GRANT script" in line
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([ours[1], *others]), (
        "the newest complete one stays"
    )


def test_audits_of_nothing(said: Said, world: World, tmp_path: Path) -> None:
    audit = ("audit", "--store-url", world.config.store_url, "--data-dir", str(tmp_path))
    assert f"{tmp_path} has no cache: give --data-dir of a running proxy" in said(*audit)
    assert f"{tmp_path}/none has no cache" in said(*audit, "--data-dir", str(tmp_path / "none"))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "something").write_text("")
    assert "is not empty: --out must name a new directory" in said(*audit, "--out", str(tmp_path / "out"))
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_an_answer_that_was_cut(
    spark: SparkSession,
    built: tuple[Path, Manifest],
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ask = (
        "snapshot",
        "query",
        "--master",
        "local[2]",
        "--json",
        "--uri",
        str(built[0]),
        "SELECT explode(array(1, 2, 3)) n",
    )
    for limit, rows, told in ((2, 2, "only the first 2 rows are shown; --limit N shows more\n"), (3, 3, "")):
        monkeypatch.setattr(sys, "argv", ["hms-cache-proxy", *ask, "--limit", str(limit)])
        with pytest.raises(SystemExit) as ended:
            main()
        seen = capfd.readouterr()
        assert ended.value.code == 0 and len(seen.out.splitlines()) == rows and seen.err == told


def build(world: World, place: Path, until: str, **environment: str) -> subprocess.Popen[str]:
    """A build in a process group of its own that has told `until`."""
    command = [sys.executable, "-m", "hms_cache_proxy", "snapshot", "build", "--out", str(place)]
    settings = {**os.environ, "HMS_CACHE_PROXY_STORE_URL": world.config.store_url, **environment}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=settings, start_new_session=True)
    assert process.stderr is not None
    told = []
    for line in process.stderr:
        if line.startswith(until):
            return process
        told.append(line)
    process.communicate(timeout=ENDED_S)  # or a later test of this run fails for the open pipe
    raise AssertionError(f"it ended early: {''.join(told)}")


@pytest.mark.usefixtures("pipeline_extra")
def test_interrupted(world: World, tmp_path: Path) -> None:
    """Ctrl-C goes to Python workers and the JVM, too."""
    process = build(world, tmp_path / "out", "databases: ")
    os.killpg(process.pid, signal.SIGINT)
    _, seen = process.communicate(timeout=ENDED_S)
    assert process.returncode == 130 and "Traceback" not in seen, seen
    assert seen.splitlines()[-1] == "hms-cache-proxy: interrupted"
    assert not (tmp_path / "out" / manifest.NAME).exists()


@pytest.mark.usefixtures("pipeline_extra")
def test_a_jvm_that_is_killed(world: World, tmp_path: Path) -> None:
    process = build(world, tmp_path / "out", "databases: ")
    (jvm,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(jvm), signal.SIGKILL)
    _, seen = process.communicate(timeout=ENDED_S)
    assert process.returncode == 1 and "Traceback" not in seen, seen
    assert "Spark's JVM has ended: it was killed, or ran out of memory" in seen.splitlines()[-1]
    assert not (tmp_path / "out" / manifest.NAME).exists()


@pytest.mark.usefixtures("pipeline_extra")
@pytest.mark.parametrize(
    ("java", "words"),
    [
        (
            "echo 'Error: LinkageError occurred' >&2; echo 'java.lang.UnsupportedClassVersionError: 61.0' >&2; exit 1",
            "UnsupportedClassVersionError: 61.0",
        ),
        (
            "echo 'Exception in thread \"main\" org.apache.spark.SparkException: no such master' >&2; exit 1",
            "hms-cache-proxy: Spark could not start: org.apache.spark.SparkException: no such master",
        ),
    ],
)
def test_a_java_that_does_not_start(tmp_path: Path, java: str, words: str) -> None:
    """Its own lines are not shown, but for the one that says why."""
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{java}\n")
    program.chmod(0o755)
    ended = subprocess.run(
        [sys.executable, "-m", "hms_cache_proxy", "snapshot", "query", "--uri", str(tmp_path), "SELECT 1"],
        env={**os.environ, "JAVA_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=ENDED_S,
    )
    assert ended.returncode == 2 and words in ended.stderr and ended.stderr.count("\n") == 1, ended.stderr
    assert ("Java 17 or newer is needed" in ended.stderr) == ("SparkException" not in words)
