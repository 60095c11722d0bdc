"""PostgreSQL clusters of our own, and metastore databases in them.

Job: run a throw-away cluster as an ordinary process on a free port (as the postgres account when we are
root), make template databases from Hive's published schema, and new metastore databases from them in well
under a second.
Must not know: how a metastore process is run.
Invariants: trust authentication on 127.0.0.1 only; nothing is flushed to disk (fsync off); role `hive` owns
metastore databases, role `hms_reader` may only SELECT from their tables. (Hive's script grants CREATE in
the schema public to everybody; it is left so, as in real installations.)
"""

from __future__ import annotations

import enum
import os
import pwd
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg2

from tests.testbed import ledger, locales
from tests.testbed.artifacts import BedError, schema_script, upgrade_script
from tests.testbed.packages import provided
from tests.testbed.processes import SOON_S, Process, free_port, signalled, wait_until

SUPERUSER = "postgres"
OWNER = "hive"
READER = "hms_reader"
START_TIMEOUT_S = 600
SERVER_SETTINGS = {
    "fsync": "off",  # synchronous_commit stays on: else kill() loses the newest commits
    "full_page_writes": "off",
    "shared_buffers": "256MB",
    "max_connections": "400",  # each metastore holds up to 4 pools of 10
    "max_wal_size": "2GB",
    "listen_addresses": "127.0.0.1",
    "timezone": "UTC",
}
_STEPS_TO_23 = (("1.2.0", "2.0.0"), ("2.0.0", "2.1.0"), ("2.1.0", "2.2.0"), ("2.2.0", "2.3.0"))
UPGRADE_TO_42 = Path(__file__).with_name("upgrade-4.0.0-to-4.2.0.postgres.sql")


class Schema(enum.Enum):
    """Version of the metastore schema."""

    HIVE23 = "2.3.0"
    HIVE31 = "3.1.0"
    HIVE40 = "4.0.0"
    HIVE42 = "4.2.0"


class Collation(enum.Enum):
    """How a database orders text: by bytes, by glibc's en_US, by ICU's en-US."""

    C = "c"
    EN_US = "en_us"
    EN_US_ICU = "en_us_icu"

    def clause(self) -> str:
        """The options of CREATE DATABASE."""
        return {
            Collation.C: "LC_COLLATE 'C' LC_CTYPE 'C'",
            Collation.EN_US: f"LC_COLLATE '{locales.NAME}' LC_CTYPE '{locales.NAME}'",
            Collation.EN_US_ICU: "LOCALE_PROVIDER icu ICU_LOCALE 'en-US' LC_COLLATE 'C' LC_CTYPE 'C'",
        }[self]


@dataclass(frozen=True, slots=True)
class MetastoreDatabase:
    """Where a metastore's tables are."""

    host: str
    port: int
    name: str
    schema: Schema
    collation: Collation

    def url(self, role: str) -> str:
        """SQLAlchemy URL for one of the roles."""
        return f"postgresql+psycopg2://{role}:{role}@{self.host}:{self.port}/{self.name}"

    @property
    def store_url(self) -> str:
        """SQLAlchemy URL of the superuser."""
        return self.url(SUPERUSER)

    @property
    def reader_url(self) -> str:
        """SQLAlchemy URL of the account that may only SELECT."""
        return self.url(READER)

    @property
    def jdbc_url(self) -> str:
        """JDBC URL for the metastore process, which logs in as the owner."""
        return f"jdbc:postgresql://{self.host}:{self.port}/{self.name}"

    def behind(self, host: str, port: int) -> MetastoreDatabase:
        """The same database at another address: a proxy's."""
        return MetastoreDatabase(host, port, self.name, self.schema, self.collation)

    @contextmanager
    def connect(self, role: str = SUPERUSER) -> Iterator[Any]:
        """A psycopg2 connection in autocommit mode, closed at the end (untyped driver: Any)."""
        with connected(self.host, self.port, self.name, role) as connection:
            yield connection

    def rows(self, query: str, parameters: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
        """All rows of a query."""
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute(query, parameters or None)
            return list(cursor.fetchall())


@contextmanager
def connected(host: str, port: int, database: str, role: str = SUPERUSER) -> Iterator[Any]:
    """A psycopg2 connection in autocommit mode, closed at the end."""
    connection = psycopg2.connect(
        host=host, port=port, dbname=database, user=role, password=role, connect_timeout=int(SOON_S)
    )
    connection.autocommit = True
    try:
        yield connection
    finally:
        connection.close()


class Postgres:
    """A server at an address: makes metastore databases. Subclasses know how it is run."""

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port
        self._mutex = threading.Lock()
        self._templates: set[str] = set()

    def stop(self) -> None:
        """End the server; its data is lost."""
        raise NotImplementedError

    def execute(self, statement: str, database: str = "postgres", role: str = SUPERUSER) -> None:
        """Run statements outside a transaction block (one statement) or in one (several)."""
        with connected(self.host, self.port, database, role) as connection, connection.cursor() as cursor:
            cursor.execute(statement)

    def create_metastore_database(
        self, name: str, schema: Schema = Schema.HIVE42, collation: Collation = Collation.C
    ) -> MetastoreDatabase:
        """A new, empty metastore database."""
        with self._mutex:
            template = self._template(schema, collation)
            self._create(name, template, collation)
        return MetastoreDatabase(self.host, self.port, name, schema, collation)

    def create_empty_database(self, name: str, collation: Collation = Collation.C) -> MetastoreDatabase:
        """A new database without tables, for a metastore that makes them itself (those of 4.2)."""
        with self._mutex:
            if collation is Collation.EN_US:
                self._provide_locale()
            self._create(name, "template0", collation)
        self.execute(f"ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO {READER}", name, OWNER)
        return MetastoreDatabase(self.host, self.port, name, Schema.HIVE42, collation)

    def drop_database(self, name: str) -> None:
        """Drop it, with its connections."""
        self.execute(f'DROP DATABASE "{name}" WITH (FORCE)')

    def is_ready(self) -> bool:
        """Does it answer a query?"""
        try:
            self.execute("SELECT 1")
        except psycopg2.OperationalError:
            return False
        return True

    def _create(self, name: str, template: str, collation: Collation) -> None:
        options = f"OWNER {OWNER} TEMPLATE {template} ENCODING 'UTF8' {collation.clause()}"
        self.execute(f'CREATE DATABASE "{name}" {options}')

    def _create_roles(self) -> None:
        self.execute(f"CREATE ROLE {OWNER} LOGIN PASSWORD '{OWNER}'; CREATE ROLE {READER} LOGIN PASSWORD '{READER}'")

    def _template(self, schema: Schema, collation: Collation) -> str:
        name = f"template_hive_{schema.value.replace('.', '')}_{collation.value}"
        if name not in self._templates:
            if collation is Collation.EN_US:
                self._provide_locale()
            self.execute(f"DROP DATABASE IF EXISTS {name}")  # left by an attempt that failed
            self._create(name, "template0", collation)
            for script in _scripts(schema):
                self.execute(script.read_text(), name, OWNER)
            self.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {READER}", name, OWNER)
            self._templates.add(name)
        return name

    def _provide_locale(self) -> None:
        """Make en_US.UTF-8 known to the server."""


def _scripts(schema: Schema) -> list[Path]:
    """What makes a schema. 2.3's is published as 1.2's and four upgrades."""
    if schema is Schema.HIVE23:
        return [schema_script("postgres", "1.2.0"), *(upgrade_script("postgres", *step) for step in _STEPS_TO_23)]
    if schema is Schema.HIVE31:
        return [schema_script("postgres", "3.1.0")]
    upgrades = [UPGRADE_TO_42] if schema is Schema.HIVE42 else []
    return [schema_script("postgres", "4.0.0"), *upgrades]


class LocalPostgres(Postgres):
    """A cluster of our own under `directory`, as an ordinary process. Ready when the constructor returns."""

    def __init__(self, directory: Path, log: Path, *, detached: bool = False) -> None:
        super().__init__("127.0.0.1", free_port())
        self.directory = directory
        self._binaries = postgres_binaries()
        self._account = _account()
        self._data = directory / "data"
        self.locales = directory / "locale"
        self._initialise()
        self.process = Process(
            "PostgreSQL",
            self._command(),
            log,
            env={} if locales.system_has_it() else {"LOCPATH": str(self.locales)},
            cwd=directory,
            stop_signal=signal.SIGINT,  # "fast": sessions are cut
            detached=detached,
            account=self._account,
        )
        self.start()
        self._create_roles()

    def start(self) -> None:
        """Start it (again) on its port and data; returns when it answers."""
        with ledger.starting(ledger.POSTGRESQL):
            self.process.start()
            self.process.wait_ready(self.is_ready, START_TIMEOUT_S)

    def stop(self) -> None:
        """Stop it; start() continues with the same data."""
        self.process.stop()

    def kill(self) -> None:
        """kill -9: the next start recovers from the log; no commit is lost, the machine keeps its power."""
        self.process.kill()
        signalled(self.pids(), signal.SIGCONT)  # a backend that is stopped ends when it goes on
        postmaster_file = self._data / "postmaster.pid"
        wait_until(lambda: not self.pids(), START_TIMEOUT_S)  # else its shared memory is in use
        postmaster_file.unlink(missing_ok=True)

    def pids(self) -> list[int]:
        """Of the postmaster and of all backends, also of those whose postmaster was killed."""
        found = []
        for status in Path("/proc").glob("[0-9]*/cwd"):
            try:
                if status.readlink() == self._data:
                    found.append(int(status.parent.name))
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue
        return found

    def _initialise(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self._data.mkdir(mode=0o700)
        self.locales.mkdir()
        if self._account is not None:
            user = pwd.getpwnam(self._account)
            os.chown(self._data, user.pw_uid, user.pw_gid)
        command = [str(self._binaries / "initdb"), "-D", str(self._data), "-U", SUPERUSER]
        command += ["--auth=trust", "--no-sync", "--locale=C", "-E", "UTF8"]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=120,
            cwd=self.directory,
            user=self._account,
            group=self._account,
            extra_groups=None if self._account is None else [],
        )
        if done.returncode:
            raise BedError(f"initdb failed (is {self.directory} open to its account?):\n{done.stderr}")

    def _command(self) -> list[str]:
        command = [str(self._binaries / "postgres"), "-D", str(self._data), "-p", str(self.port)]
        for key, value in SERVER_SETTINGS.items():
            command += ["-c", f"{key}={value}"]
        return [*command, "-c", f"unix_socket_directories={self._data}"]

    def _provide_locale(self) -> None:
        if not locales.system_has_it():
            locales.compile_into(self.locales)


def postgres_binaries() -> Path:
    """Directory of the newest PostgreSQL server on this machine, installed from the distribution if root."""
    return provided("postgresql", installed)


def installed() -> Path | None:
    servers = list(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    if servers:
        return max(servers, key=lambda path: int(path.parts[-3])).parent
    on_path = shutil.which("postgres")
    return Path(on_path).resolve().parent if on_path else None


def _account() -> str | None:
    """PostgreSQL refuses to run as root: the account to use then."""
    return "postgres" if os.geteuid() == 0 else None
