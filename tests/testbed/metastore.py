"""What every metastore of the test bed is: a flavour, a directory, a port, a database, a process.

Job: what Hive's (hive.py) and the embedded one (embedded.py) have in common. flavours.py lists all flavours.
Must not know: who asks it, how one is configured.
Invariants: one directory per metastore (configuration, warehouses); output in one log file, appended over restarts;
a restart keeps port and database.
"""

from __future__ import annotations

import enum
import socket
import ssl
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.testbed import ledger
from tests.testbed.client import answers
from tests.testbed.mariadb import LocalMariaDB
from tests.testbed.postgres import Collation, MetastoreDatabase, Postgres
from tests.testbed.processes import Process, free_port

START_TIMEOUT_S = 600  # 4 s on an idle machine
STOP_TIMEOUT_S = 60


class Server(enum.Enum):
    """What holds a metastore's database."""

    NONE = "itself"
    POSTGRESQL = "PostgreSQL"
    MARIADB = "MariaDB"


@dataclass(frozen=True, slots=True)
class Flavour(ABC):
    """A metastore's program, and how it is set up; `version`: of Hive, whose answers it gives."""

    name: str
    version: str

    @property
    @abstractmethod
    def server(self) -> Server:
        """What its database needs."""

    @property
    def lendable(self) -> bool:
        """May one that was released be emptied and used again? Worth it where a start costs seconds."""
        return False

    @abstractmethod
    def new_database(self, server: Postgres | LocalMariaDB, name: str, collation: Collation) -> MetastoreDatabase:
        """A database that it can start on."""

    @abstractmethod
    def metastore(
        self,
        directory: Path,
        log: Path,
        database: MetastoreDatabase | None,
        settings: Mapping[str, str],
        *,
        detached: bool = False,
        **options: Any,
    ) -> Metastore:
        """One that is not started. `database`: None where it has none of a server's; `options`: of its class."""

    @abstractmethod
    def install(self) -> None:
        """Get what it needs."""

    @abstractmethod
    def prepare(self, server: Postgres | LocalMariaDB | None, directory: Path, log: Path) -> None:
        """Make, once for a cache, what makes its starts quick."""


@dataclass(slots=True)
class Metastore(ABC):
    """One metastore process; `database` is None where only the process itself can read it."""

    flavour: Flavour
    directory: Path
    log: Path
    database: MetastoreDatabase | None = None
    settings: Mapping[str, str] = field(default_factory=dict)  # added to the flavour's; a value replaces it
    detached: bool = False
    port: int = field(default_factory=free_port)
    process: Process = field(init=False)

    def __post_init__(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self.process = self._prepare()

    @abstractmethod
    def _prepare(self) -> Process:
        """Write its configuration; its process, not started."""

    @property
    @abstractmethod
    def warehouse(self) -> Path:
        """Default location of managed tables."""

    @property
    @abstractmethod
    def external(self) -> Path:
        """Default location of external tables; Hive 2.3 has one warehouse."""

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
        """Does it speak the framed transport only?"""
        return False

    @property
    def tls(self) -> ssl.SSLContext | None:
        """How a client connects that trusts everybody; None: without TLS."""
        return None

    @property
    def wants_login(self) -> bool:
        """Does it answer only clients that log in, or name a user? Then a start is over when it accepts connections."""
        return False

    @property
    def uri(self) -> str:
        """What a client's hive.metastore.uris gets."""
        return f"thrift://{self.host}:{self.port}"

    def start(self) -> None:
        """Start it and wait until it answers a call."""
        with ledger.starting(self.flavour.name):
            self.process.start()
            self.process.wait_ready(
                lambda: (
                    accepts(self.host, self.port)
                    if self.wants_login
                    else answers(self.host, self.port, framed=self.framed, tls=self.tls)
                ),
                START_TIMEOUT_S,
            )

    def stop(self) -> int | None:
        """Stop it in order, or by force after a while; its exit code, None if it did not run."""
        return self.process.stop(STOP_TIMEOUT_S)

    def kill(self) -> None:
        """kill -9."""
        self.process.kill()

    def end(self) -> None:
        """End it for good; what it holds is of no use any more."""
        self.kill()

    def restart(self) -> None:
        """Stop and start on the same port and database."""
        self.stop()
        self.start()


def accepts(host: str, port: int) -> bool:
    """Does somebody listen?"""
    try:
        socket.create_connection((host, port), timeout=1).close()
    except OSError:
        return False
    return True
