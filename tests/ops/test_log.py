"""Log lines: what happens to them when they cannot be written."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import logging, structlog
from hms_cache_proxy.processes import log
from hms_cache_proxy.config import Config
log.setup(Config(), "test")
for _ in range(3):
    structlog.get_logger().error("a line " * 2000)
    logging.getLogger("library").warning("a line")
print("alive")
"""


def test_a_log_that_cannot_be_written_ends_nothing() -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-c", SCRIPT]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=full, text=True, timeout=60)
    assert (done.stdout, done.returncode) == ("alive\n", 0)
