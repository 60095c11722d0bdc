"""`make run` as its user meets it: it says where everything is, works, and leaves nothing behind."""

from __future__ import annotations

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
def test_the_demo_runs_until_it_is_interrupted(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with out.open("w") as sink:
        demo = subprocess.Popen(
            [sys.executable, "-m", "tests.demo"], cwd=ROOT, stdout=sink, stderr=sink, start_new_session=True
        )
    try:
        deadline = time.monotonic() + 120
        while "Ctrl-C ends everything" not in out.read_text():
            assert demo.poll() is None and time.monotonic() < deadline, out.read_text()
            time.sleep(0.2)
        found = re.search(r"URI for clients +thrift://([\d.]+):(\d+)", out.read_text())
        assert found is not None
        with MetastoreClient(found[1], int(found[2])) as client:
            assert len(client.get_partition_names("demo", "events", -1)) == PARTITIONS
    finally:
        demo.send_signal(signal.SIGINT)
        code = demo.wait(60)
    assert code == 0, out.read_text()
    assert "Traceback" not in out.read_text()
    left = subprocess.run(["pgrep", "-g", str(demo.pid)], capture_output=True, text=True)
    assert left.stdout == ""
