"""A JVM that runs statements of some SQL: one line of JSON in, one line of JSON out.

Job: compile the program, start it, ask it, end it. Must not know: hms_cache_proxy, which SQL.
Invariants: what lies on disk is below the owner's directory; the JVM ends with close(), and when the owner dies, as its
standard input ends then. Statements run one after another.
"""

from __future__ import annotations

import json
import select
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from tests.testbed import ledger
from tests.testbed.artifacts import MissingPrerequisite
from tests.testbed.closing import Closing

STATEMENT_S = 300.0
"""Also to compile the program: these bounds are for a machine that has no time."""
STOP_S = 20.0
LOG_TAIL_BYTES = 4000


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a statement: rows with one blank between the columns (padding gone), or what was thrown."""

    rows: list[str]
    error: str | None


class Statements(Closing):
    """One JVM, a `kind` of the ledger. What it prints as an error goes to `log`."""

    kind: ClassVar[str]

    def __init__(self, command: Sequence[str], directory: Path, log: Path) -> None:
        self.log = log
        with ledger.starting(self.kind), log.open("wb") as errors:
            self._process = subprocess.Popen(
                command,
                cwd=directory,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )

    def ask(self, **statement: Any) -> Answer:
        """Execute one statement. AssertionError with the log's end if no answer comes."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(statement).encode() + b"\n")
        self._process.stdin.flush()
        ready, _, _ = select.select([self._process.stdout], [], [], STATEMENT_S)
        line = self._process.stdout.readline() if ready else b""
        if not line:
            raise AssertionError(f"no answer to {statement}:\n{self.log_tail()}")
        answer = json.loads(line)
        return Answer([" ".join(row.split()) for row in answer["rows"]], answer["error"])

    def log_tail(self) -> str:
        return self.log.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace")

    def close(self) -> None:
        """End the JVM."""
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def compile_java(classes: Path, jars: str, sources: Sequence[Path]) -> None:
    """Compile sources into a directory; warnings are errors."""
    compiler = shutil.which("javac")
    if compiler is None:
        raise MissingPrerequisite("javac is not installed: apt-get install openjdk-17-jdk-headless")
    # Not of the source: annotations and manifests of the jars name others that are not there.
    warnings = ["-Xlint:all", "-Xlint:-classfile", "-Xlint:-path", "-Xlint:-processing", "-proc:none", "-Werror"]
    command = [compiler, *warnings, "--release", "17", "-cp", jars, "-d", str(classes)]
    command += [str(source) for source in sources]
    subprocess.run(command, check=True, timeout=STATEMENT_S)
