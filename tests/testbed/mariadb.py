"""MariaDB servers of our own, and metastore databases in them.

Job: run a throw-away server as an ordinary process on a free port, make new metastore databases from Hive's published
schema, half a second each.
Must not know: how a metastore process is run.
Invariants: it listens on 127.0.0.1 only; nothing is flushed to disk at a commit; account `hive` owns metastore
databases, account `hms_reader` may only SELECT from their tables. Debian's mariadb-server-core is the server without a
service, so installing it starts nothing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pymysql
from pymysql.constants import CLIENT

from tests.testbed import ledger
from tests.testbed.artifacts import BedError, schema_script
from tests.testbed.packages import provided
from tests.testbed.postgres import OWNER, READER, START_TIMEOUT_S, Collation, MetastoreDatabase, Schema
from tests.testbed.processes import SOON_S, Process, free_port

ROOT = "root"
DRIVER_CLASS = "org.mariadb.jdbc.Driver"
SERVER_SETTINGS = {
    "bind-address": "127.0.0.1",
    "skip-name-resolve": "1",
    "innodb-flush-method": "nosync",
    "innodb-flush-log-at-trx-commit": "0",
    "innodb-log-file-size": "64M",
    "innodb-buffer-pool-size": "256M",
    "max-connections": "400",  # each metastore holds up to 4 pools of 10
    "default-time-zone": "+00:00",
}
WIDENED = (
    "COLUMNS_V2 COMMENT varchar(4000)",
    "PARTITION_KEYS PKEY_COMMENT varchar(4000)",
    "TABLE_PARAMS PARAM_VALUE mediumtext",
    "PARTITION_PARAMS PARAM_VALUE mediumtext",
    "DBS DESC varchar(4000)",
)
UPGRADE_TO_42 = Path(__file__).with_name("upgrade-4.0.0-to-4.2.0.mysql.sql")
ACCOUNTS = "".join(f"CREATE USER {account}@'%' IDENTIFIED BY '{account}';\n" for account in (OWNER, READER))
SYSTEM_TABLES = Path("/usr/share/mysql")
SYSTEM_SCRIPTS = ("system_tables", "performance_tables", "system_tables_data")


@dataclass(frozen=True, slots=True)
class MariaDatabase(MetastoreDatabase):
    """Where a metastore's tables are."""

    def url(self, role: str) -> str:
        """SQLAlchemy URL for one of the accounts."""
        return f"mysql+pymysql://{role}:{role}@{self.host}:{self.port}/{self.name}"

    @property
    def store_url(self) -> str:
        """SQLAlchemy URL of the account that may do everything."""
        return self.url(ROOT)

    @property
    def jdbc_url(self) -> str:
        """JDBC URL for the metastore process, which logs in as the owner."""
        return f"jdbc:mariadb://{self.host}:{self.port}/{self.name}"

    def behind(self, host: str, port: int) -> MariaDatabase:
        """The same database at another address: a proxy's."""
        return MariaDatabase(host, port, self.name, self.schema, self.collation)

    @contextmanager
    def connect(self, role: str = ROOT) -> Iterator[Any]:
        """A connection in autocommit mode that takes "NAME" for an identifier, closed at the end."""
        with connected(self.host, self.port, self.name, role) as connection:
            yield connection

    def widen(self) -> None:
        """Change what operators change where comments are not in latin1; names stay as Hive's script has them."""
        with self.connect() as connection, connection.cursor() as cursor:
            for column in WIDENED:
                table, name, kind = column.split()
                cursor.execute(f'ALTER TABLE "{table}" MODIFY COLUMN "{name}" {kind} CHARACTER SET utf8mb4')


@contextmanager
def connected(host: str, port: int, database: str | None, role: str = ROOT) -> Iterator[Any]:
    """A connection in autocommit mode, closed at the end (untyped driver: Any)."""
    connection = pymysql.connect(
        host=host,
        port=port,
        database=database,
        user=role,
        password=role,
        charset="utf8mb4",
        connect_timeout=int(SOON_S),
        autocommit=True,
        client_flag=CLIENT.MULTI_STATEMENTS | CLIENT.FOUND_ROWS,
        sql_mode="ANSI_QUOTES,STRICT_TRANS_TABLES",
    )
    try:
        yield connection
    finally:
        if connection.open:
            connection.close()


class MariaDB:
    """A server at an address: makes metastore databases. Subclasses know how it is run."""

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port
        self._mutex = threading.Lock()

    def is_ready(self) -> bool:
        """Does it answer a query?"""
        try:
            self.execute("SELECT 1")
        except pymysql.OperationalError:
            return False
        return True

    def execute(self, statement: str, database: str | None = None, role: str = ROOT) -> None:
        """Run statements."""
        with connected(self.host, self.port, database, role) as connection, connection.cursor() as cursor:
            cursor.execute(statement)
            while cursor.nextset():
                pass

    @contextmanager
    def logged(self) -> Iterator[list[str]]:
        """The statements that the server has carried out meanwhile, at the end."""
        statements: list[str] = []
        self.execute("TRUNCATE mysql.general_log; SET GLOBAL log_output = 'TABLE'; SET GLOBAL general_log = ON")
        try:
            yield statements
        finally:
            self.execute("SET GLOBAL general_log = OFF")
            with connected(self.host, self.port, "mysql") as connection, connection.cursor() as cursor:
                cursor.execute("SELECT argument FROM general_log WHERE command_type IN ('Query', 'Execute')")
                statements += [text.decode() if isinstance(text, bytes) else text for (text,) in cursor.fetchall()]

    def create_metastore_database(
        self, name: str, schema: Schema = Schema.HIVE42, collation: Collation = Collation.C
    ) -> MariaDatabase:
        """A new, empty metastore database; the schema script says which character sets it has."""
        assert collation is Collation.C, "the script names its collations"
        with self._mutex:
            self.execute(f'CREATE DATABASE "{name}" CHARACTER SET latin1; GRANT ALL ON "{name}".* TO {OWNER}@\'%\'')
            self.execute(schema_script("mysql").read_text(), name, OWNER)
            if schema is Schema.HIVE42:
                self.execute(UPGRADE_TO_42.read_text(), name, OWNER)
            self.execute(f"GRANT SELECT ON \"{name}\".* TO {READER}@'%'")
        return MariaDatabase(self.host, self.port, name, schema, collation)

    def stop(self) -> None:
        """End the server; its data is lost."""
        raise NotImplementedError

    def drop_database(self, name: str) -> None:
        """Drop it."""
        self.execute(f'DROP DATABASE "{name}"')


class LocalMariaDB(MariaDB):
    """A server of our own under `directory`, as an ordinary process. Ready when the constructor returns."""

    def __init__(self, directory: Path, log: Path, *, detached: bool = False) -> None:
        super().__init__("127.0.0.1", free_port())
        self.directory = directory
        self._server = mariadb_server()
        self._data = directory / "data"
        self._initialise()
        self.process = Process("MariaDB", self._command(), log, cwd=directory, detached=detached)
        self.start()

    def start(self) -> None:
        """Start it (again) on its port and data; returns when it answers."""
        with ledger.starting(ledger.MARIADB):
            self.process.start()
            self.process.wait_ready(self.is_ready, START_TIMEOUT_S)

    def stop(self) -> None:
        """Stop it; start() continues with the same data."""
        self.process.stop()

    def kill(self) -> None:
        """kill -9; the newest commits may be lost."""
        self.process.kill()

    def _initialise(self) -> None:
        self._data.mkdir(parents=True)
        script = "CREATE DATABASE mysql;\nUSE mysql;\nSET @auth_root_socket = NULL;\nSET @skip_auth_anonymous = 1;\n"
        script += "".join(_system_script(name).read_text() for name in SYSTEM_SCRIPTS)
        script += "FLUSH PRIVILEGES;\n"
        script += ACCOUNTS
        script += f"CREATE USER {ROOT}@'%' IDENTIFIED BY '{ROOT}';\nGRANT ALL ON *.* TO {ROOT}@'%' WITH GRANT OPTION;\n"
        script += f"DROP USER IF EXISTS {ROOT}@'127.0.0.1', {ROOT}@'::1', {ROOT}@localhost;\n"
        done = subprocess.run(
            [*self._command(), "--bootstrap"], input=script, capture_output=True, text=True, timeout=120
        )
        if done.returncode:
            raise BedError(f"MariaDB made no data directory:\n{done.stderr[-3000:]}")

    def _command(self) -> list[str]:
        command = [str(self._server), "--no-defaults", f"--datadir={self._data}", f"--port={self.port}"]
        if os.geteuid() == 0:
            command.append("--user=root")
        command += [f"--socket={self._data / 'socket'}", f"--pid-file={self._data / 'pid'}"]
        return command + [f"--{key}={value}" for key, value in SERVER_SETTINGS.items()]


def mariadb_server() -> Path:
    """The MariaDB server of this machine, installed from the distribution if root."""
    return provided("mariadb-server-core", installed)


def installed() -> Path | None:
    found = shutil.which("mariadbd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    return Path(found) if found else None


def _system_script(name: str) -> Path:
    """Scripts of the system tables, which a release prefixes with mysql_ or mariadb_."""
    for prefix in ("mariadb_", "mysql_"):
        path = SYSTEM_TABLES / f"{prefix}{name}.sql"
        if path.exists():
            return path
    raise BedError(f"{SYSTEM_TABLES} has no script {name}")
