"""Log lines: one for each event, whatever is in it; those of libraries; what happens to them when they cannot be
written.
"""

from __future__ import annotations

import json
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


FORGED = """
import structlog
from hms_cache_proxy.processes import log
from hms_cache_proxy.config import Config
log.setup(Config(), "test")
why = "no\\r\\n2026-11-22T16:28:18Z [info] login user=admin"
structlog.get_logger().warning("login refused", user="Zo\u00eb", why=why, name="\\x1b[2J\\x85\\u2028\\udc80")
"""


def test_what_a_client_sends_is_no_line_of_its_own() -> None:
    command = [sys.executable, "-c", FORGED]
    done = subprocess.run(command, stderr=subprocess.PIPE, encoding="utf-8", timeout=60, check=True)
    line, end = done.stderr[:-1], done.stderr[-1:]
    assert end == "\n" and line.isprintable(), done.stderr
    assert "user=Zoë" in line and r"why='no\r\n2026-11-22T16:28:18Z [info] login user=admin'" in line
    assert r"name=\x1b[2J\x85\u2028\udc80" in line


def test_a_log_that_cannot_be_written_ends_nothing() -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-c", SCRIPT]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=full, text=True, timeout=60)
    assert (done.stdout, done.returncode) == ("alive\n", 0)


OF_LIBRARIES = """
import logging
from hms_cache_proxy.processes import log
from hms_cache_proxy.config import load
log.setup(load(cli={"log.format": "json"}), "test")
logging.getLogger("library").warning("%s does not answer", "mysql://u:secret@h/d")
try:
    raise ValueError("mysql://u:secret@h/d")
except ValueError:
    logging.getLogger("asyncio").exception("a task failed")
logging.getLogger("library").info("not a line")
"""


def test_what_libraries_say_is_json_too_without_passwords() -> None:
    done = subprocess.run([sys.executable, "-c", OF_LIBRARIES], capture_output=True, text=True, timeout=60)
    first, second = map(json.loads, done.stderr.splitlines())
    assert (first["event"], first["level"], first["logger"], first["process"]) == (
        "mysql://u:***@h/d does not answer",
        "warning",
        "library",
        "test",
    )
    assert (second["event"], second["level"]) == ("a task failed", "error") and "Traceback" in second["exception"]
    assert "secret" not in done.stderr
