"""Signals that come while a proxy starts."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

from hms_cache_proxy.processes.data_directory import DataDir
from tests.testbed.processes import SOON_S, wait_until

SETTINGS = """
upstream = ["thrift://127.0.0.1:1"]
store = "none"
workers = 1
listen = "127.0.0.1:0"
http = "127.0.0.1:0"
data_dir = "{directory}"
[admin]
listen = "127.0.0.1:0"
"""


def holds_back(pid: int, number: int) -> bool:
    """Does this signal wait, if it is sent to the process?"""
    found = re.search(r"^SigBlk:\s*([0-9a-f]+)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return found is not None and bool(int(found[1], 16) >> (number - 1) & 1)


def test_sighup_is_heeded_after_the_start(tmp_path: Path) -> None:
    """Such as of a `systemctl reload` behind a `systemctl start`: it would end the proxy."""
    file, log = tmp_path / "proxy.toml", tmp_path / "log"
    file.write_text(SETTINGS.format(directory=tmp_path / "data"))
    with DataDir(tmp_path / "data"), log.open("w") as out:  # for this it waits
        command = [sys.executable, "-m", "hms_cache_proxy", "serve", "--config", str(file)]
        process = subprocess.Popen(command, stderr=out, stdin=subprocess.DEVNULL)
        try:
            assert wait_until(lambda: holds_back(process.pid, signal.SIGHUP))
            process.send_signal(signal.SIGHUP)
        except BaseException:
            process.kill()
            process.wait()
            raise
    try:
        assert wait_until(lambda: process.poll() is not None or "settings read again" in log.read_text())
        process.send_signal(signal.SIGTERM)
        assert process.wait(SOON_S) == 0, log.read_text()
    finally:
        process.kill()
        process.wait()
