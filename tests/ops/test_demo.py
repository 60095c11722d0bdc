"""`make run` as its user meets it: it says where everything is, works, and leaves nothing behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.demo import PARTITIONS
from tests.testbed.client import MetastoreClient

ROOT = Path(__file__).parents[2]


@pytest.mark.real
@pytest.mark.parametrize("options", [[], ["--hive"]], ids=["embedded", "hive"])
def test_the_demo_runs_until_it_is_interrupted(tmp_path: Path, options: list[str]) -> None:
    found = run(tmp_path, options)
    if not options:
        assert run(tmp_path, options) == found, "what was made by the first run is still there"


def _ctrl_c_works() -> None:
    """A shell starts what runs in the background with SIGINT ignored, and children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def run(directory: Path, options: list[str]) -> list[str]:
    """Partitions that a client sees; everything has ended when this returns."""
    out = directory / "out"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with out.open("w") as sink:
        demo = subprocess.Popen(
            [sys.executable, "-m", "tests.demo", *options],
            cwd=directory,
            env=environment,
            stdout=sink,
            stderr=sink,
            start_new_session=True,
            preexec_fn=_ctrl_c_works,
        )
    try:
        deadline = time.monotonic() + 240
        while "Ctrl-C ends everything" not in out.read_text():
            assert demo.poll() is None and time.monotonic() < deadline, out.read_text()
            time.sleep(0.2)
        found = re.search(r"URI for clients +thrift://([\d.]+):(\d+)", out.read_text())
        assert found is not None
        with MetastoreClient(found[1], int(found[2])) as client:
            names: list[str] = client.get_partition_names("demo", "events", -1)
            assert len(names) == PARTITIONS
            assert client.get_table_objects_by_name("demo", ["events"])[0].sd.location.endswith("/demo.db/events")
    finally:
        demo.send_signal(signal.SIGINT)
        code = demo.wait(120)
    assert code == 0, out.read_text()
    assert "Traceback" not in out.read_text()
    left = subprocess.run(["pgrep", "-g", str(demo.pid)], capture_output=True, text=True)
    assert left.stdout == ""
    return names
