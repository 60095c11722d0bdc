"""How busy the machine is: what a program that starts has to wait for its processor time."""

from __future__ import annotations

import os
import subprocess
import sys
import time


def pace() -> float:
    """Wall time per processor time of a start of Python: 1 on an idle machine, 4 where it gets a quarter of a core."""
    began_s = time.monotonic()
    program = [sys.executable, "-c", "import asyncio, decimal, email.message, http.client"]
    process = subprocess.Popen(program, start_new_session=True)  # as what is tortured: Linux shares out by sessions
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return (time.monotonic() - began_s) / max(0.001, used.ru_utime + used.ru_stime)
