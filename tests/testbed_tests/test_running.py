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


def test_a_run_takes_them_and_leaves_them_running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "state.json"
    monkeypatch.setenv(running.STATE, str(file))
    assert running.attached("embedded") is None
    command = [sys.executable, "-m", "tests.testbed", "up", "--flavour", "embedded"]
    subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, check=True, timeout=300)
    try:
        os.utime(file, (0, 0))
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


def test_they_end_when_nobody_asks(tmp_path: Path) -> None:
    file, ended = tmp_path / "state.json", list[Path]()
    file.touch()
    os.utime(file, (time.time() - 100,) * 2)
    running.end_when_idle(file, ended.append, 99)
    assert ended == [file]
    file.unlink()
    running.end_when_idle(file, ended.append)
    assert ended == [file], "another `down` was first"
