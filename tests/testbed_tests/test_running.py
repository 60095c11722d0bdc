"""Servers that outlive a command: a run takes them, leaves them running, and they end when nobody asks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.testbed import running
from tests.testbed.__main__ import ROOT, down
from tests.testbed.bed import Bed
from tests.testbed.client import MetastoreClient
from tests.testbed.processes import XDIST_WORKER


def test_a_run_takes_them_and_leaves_them_running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "state.json"
    monkeypatch.setenv(running.STATE, str(file))
    monkeypatch.delenv(XDIST_WORKER, raising=False)
    assert running.attached("embedded") is None
    command = [sys.executable, "-m", "tests.testbed", "up", "--flavour", "embedded"]
    subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, check=True, timeout=300)
    try:
        an_hour_ago = time.time() - 3600  # longer, and the servers' watchdog might end them now
        os.utime(file, (an_hour_ago, an_hour_ago))
        bed = Bed()
        metastore = bed.shared("embedded")
        assert metastore.uri == json.loads(file.read_text())["metastores"]["embedded"]["uri"]
        assert bed.shared("embedded") is metastore and metastore.process.alive()
        assert file.stat().st_mtime > time.time() - 60, "its use is noted"
        bed.close()
        with MetastoreClient(*metastore.address) as client:
            assert client.get_all_databases() == ["default"]
    finally:
        down(file)
    assert not metastore.process.alive() and running.attached("embedded") is None


ANOTHER_RUN = """
from tests.testbed import running
from tests.testbed.bed import Bed
from tests.testbed.client import MetastoreClient
from tests.testbed.processes import XDIST_WORKER

bed = Bed()
print(running.attached("embedded-postgresql"))
with MetastoreClient(*bed.private_metastore("embedded-postgresql").address) as client:
    print(client.get_all_databases())
print(bed.postgres.create_metastore_database("mine").name)
print(sorted(bed.postgres._templates))
bed.close()
"""


def test_runs_share_the_database_server_but_no_metastore(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "state.json"
    monkeypatch.setenv(running.STATE, str(file))
    monkeypatch.delenv(XDIST_WORKER, raising=False)
    command = [sys.executable, "-m", "tests.testbed", "up", "--flavour", "embedded-postgresql"]
    subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, check=True, timeout=120)
    try:
        told = json.loads(file.read_text())
        bed = Bed()
        metastore = bed.shared("embedded-postgresql")
        assert metastore.uri == told["metastores"]["embedded-postgresql"]["uri"]
        assert bed.postgres.port == told["postgres"]["port"]
        ours = bed.postgres.create_metastore_database("mine").name
        run = [sys.executable, "-c", ANOTHER_RUN]
        said = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=True, timeout=120).stdout
        nobody, databases, theirs, templates = said.splitlines()
        assert (nobody, databases) == ("None", "['default']"), "it is ours; a metastore of its own there is empty"
        assert theirs != ours and templates == "['template_hive_420_c']"
        names = "SELECT datname FROM pg_database WHERE datname LIKE 'mine%'"
        assert metastore.database is not None and metastore.database.rows(names) == [(ours,)], "theirs has gone"
        bed.close()
        assert metastore.database.rows(names) == [] and metastore.process.alive()
        with metastore.database.connect() as connection, connection.cursor() as cursor:
            cursor.execute(f'CREATE DATABASE "mine_{2**22 + 1}"')  # no process has such a number
        assert running.attached_postgres() is not None
        assert metastore.database.rows(names) == [], "a run that was killed leaves nothing"
        monkeypatch.setenv(XDIST_WORKER, "gw0")
        assert running.attached("embedded-postgresql") is None and running.attached_postgres() is None
    finally:
        down(file)


def test_what_the_commands_say(tmp_path: Path) -> None:
    file = tmp_path / "state.json"

    def said(command: str) -> tuple[int, str]:
        run = [sys.executable, "-m", "tests.testbed", command, "--state", str(file)]
        done = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, timeout=120)
        return done.returncode, done.stdout + done.stderr

    assert said("status") == said("down") == (1, f"test bed: nothing is up ({file} does not exist)\n")
    gone = {"directory": str(tmp_path / "gone"), "processes": [{"pid": 1, "ticks": 1, "signal": 15}], "metastores": {}}
    file.write_text(json.dumps(gone))
    code, text = said("status")
    assert code == 1 and json.loads(text)["alive"] == [False], "the machine was restarted"
    assert said("down") == (0, "") and not file.exists()


def test_they_end_when_nobody_asks(tmp_path: Path) -> None:
    file, ended = tmp_path / "state.json", list[Path]()
    file.touch()
    os.utime(file, (time.time() - 100,) * 2)
    running.end_when_idle(file, ended.append, 99)
    assert ended == [file]
    file.unlink()
    running.end_when_idle(file, ended.append)
    assert ended == [file], "another `down` was first"
