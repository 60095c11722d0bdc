"""SaslCalls.java: Hive's own client after a login."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from tests.clients.statements import compile_java
from tests.testbed import artifacts
from tests.testbed.artifacts import MissingPrerequisite
from tests.testbed.hive import QUICK_START

SOURCE = Path(__file__).with_name("SaslCalls.java")
PROTECTIONS = {"authentication": "auth", "integrity": "auth-int", "privacy": "auth-conf"}
RUN_S = 240


def run(directory: Path, *arguments: str, krb5: str = "", version: str = "4.0.1") -> subprocess.CompletedProcess[str]:
    """SaslCalls with these arguments, by the client of Hive 4.0.1 or 3.1.3: on the distribution's Java, as the other
    one, which comes with a Python package, has no Kerberos."""
    java = shutil.which("java")
    if java is None:
        raise MissingPrerequisite("java is not installed: apt-get install openjdk-17-jdk-headless")
    classes, jars = directory / "classes", os.pathsep.join(_JARS[version]())
    classes.mkdir(parents=True, exist_ok=True)
    if not (classes / "SaslCalls.class").exists():
        compile_java(classes, jars, [SOURCE])
    options = [f"-Djava.security.krb5.conf={krb5}"] if krb5 else []
    command = [java, *QUICK_START, *options, "-cp", os.pathsep.join([str(classes), jars]), "SaslCalls", *arguments]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False, timeout=RUN_S)


_JARS = {
    "4.0.1": lambda: [f"{artifacts.install(artifacts.HIVE40_DRIVER)}/*"],
    "3.1.3": lambda: [f"{artifacts.hive31_home()}/lib/*", f"{artifacts.install(artifacts.HIVE31_EXTRA)}/*"],
}
