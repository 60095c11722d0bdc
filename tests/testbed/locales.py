"""The en_US.UTF-8 locale, for databases that do not order by bytes.

Job: tell whether the system has it, compile it into a directory (for LOCPATH) if not.
Must not know: who uses it.
"""

from __future__ import annotations

import functools
import shutil
import subprocess
from pathlib import Path

from tests.testbed.artifacts import BedError, MissingPrerequisite

NAME = "en_US.UTF-8"


@functools.cache
def system_has_it() -> bool:
    """Is it among the system's compiled locales?"""
    locale = shutil.which("locale")
    if locale is None:
        return False
    done = subprocess.run([locale, "-a"], capture_output=True, text=True, timeout=30)
    return "en_US.utf8" in done.stdout.split()


def compile_into(directory: Path) -> None:
    """Compile it to directory/en_US.UTF-8; glibc finds it there by LOCPATH. BedError without its sources."""
    target = directory / NAME
    if target.exists():
        return
    localedef = shutil.which("localedef")
    if localedef is None or not Path("/usr/share/i18n/locales/en_US").exists():
        raise MissingPrerequisite(f"the locale {NAME} and its sources are missing: apt-get install locales")
    done = subprocess.run(
        [localedef, "--no-archive", "-i", "en_US", "-f", "UTF-8", str(target)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    if not target.exists():
        raise BedError(f"localedef failed:\n{done.stdout}{done.stderr}")
