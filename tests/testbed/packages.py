"""What a machine may lack: servers of the distribution, installed where they may be, and Python packages of an extra.

Job: find a server, else have apt-get install its package (as root); say which Python packages are missing.
Must not know: what they are for.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.testbed.artifacts import BedError, MissingPrerequisite, locked

INSTALL_TIMEOUT_S = 600


def provided(package: str, find: Callable[[], Path | None]) -> Path:
    """What `find` finds, after installing the package if need be. MissingPrerequisite where it cannot be installed."""
    found = find()
    if found is not None:
        return found
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise MissingPrerequisite(f"not installed: apt-get install {package}")
    with locked("apt"):
        for step in (["update", "-q"], ["install", "-y", "-q", "--no-install-recommends", package]):
            done = subprocess.run(
                ["apt-get", *step],
                capture_output=True,
                text=True,
                timeout=INSTALL_TIMEOUT_S,
                env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
            )
            if done.returncode:
                raise BedError(f"apt-get {step[0]} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    found = find()
    if found is None:
        raise BedError(f"{package} was installed, but its server is not where it belongs")
    return found


def required(*modules: str) -> None:
    """Raises MissingPrerequisite where one of these is not installed: the extra `test` is without them."""
    missing = [module for module in modules if importlib.util.find_spec(module) is None]
    if missing:
        raise MissingPrerequisite(f"not installed: {', '.join(missing)} of the extra test-all (make install-all)")
