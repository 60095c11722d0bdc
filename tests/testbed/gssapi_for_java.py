"""SASL's mechanism GSSAPI for the Java runtimes of the test bed, which come without the module jdk.security.jgss.

Job: `jar()` takes the module's classes from the distribution's JDK, once. Must not know: what it is for.
"""

from __future__ import annotations

import shutil
import subprocess
import zipfile
from pathlib import Path
from typing import Final

from tests.testbed.artifacts import MissingPrerequisite, built

OPTIONS: Final = tuple(
    word
    for package in (
        "java.base/sun.security.util",
        "java.base/sun.security.action",
        "java.security.sasl/com.sun.security.sasl.util",
    )
    for word in ("--add-exports", f"{package}=ALL-UNNAMED")
)
"""A runtime with the jar needs these."""
_TIMEOUT_S: Final = 120


def jar() -> Path:
    """For the end of a class path. MissingPrerequisite without a JDK."""
    return built("gssapi-for-java", _build) / "gssapi.jar"


def _build(scratch: Path, target: Path) -> None:
    java = shutil.which("java")
    if java is None:
        raise MissingPrerequisite("java is not installed: apt-get install openjdk-17-jdk-headless")
    home = Path(java).resolve().parents[1]
    command = [str(home / "bin" / "jimage"), "extract", "--dir", str(scratch / "classes")]
    command += ["--include", "regex:/jdk.security.jgss/com/sun/security/sasl/.*", str(home / "lib" / "modules")]
    subprocess.run(command, check=True, capture_output=True, timeout=_TIMEOUT_S)
    target.mkdir()
    classes = scratch / "classes" / "jdk.security.jgss"
    with zipfile.ZipFile(target / "gssapi.jar", "w") as archive:
        for file in sorted(classes.rglob("*.class")):
            archive.write(file, file.relative_to(classes))
        archive.writestr("META-INF/services/java.security.Provider", "com.sun.security.sasl.gsskerb.JdkSASL\n")
