"""The embedded metastore as a flavour: `hms-cache-proxy metastore` on SQLite or PostgreSQL.

Job: its configuration and its process. Must not know: what is asked, how it works inside.
Invariants: its data directory is the metastore's directory; on PostgreSQL it logs in as the owner of a database that
was made empty.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.testbed.artifacts import BedError
from tests.testbed.mariadb import LocalMariaDB
from tests.testbed.metastore import Flavour, Metastore, Server
from tests.testbed.postgres import OWNER, Collation, MetastoreDatabase, Postgres
from tests.testbed.processes import Process
from tests.testbed.sqlite import SqliteDatabase

VERSION = "4.2.0"
OURS = {
    "metastore.limit.partition.request": "METASTORE_PARTITION_LIMIT",
    "metastore.hmshandler.retry.attempts": None,
    "metastore.hmshandler.retry.interval": None,
    "hive.hmshandler.retry.attempts": None,
    "hive.hmshandler.retry.interval": None,
}
"""Hive's settings, and what they are here; None: there is nothing to set, as nothing is tried again."""


@dataclass(frozen=True, slots=True)
class EmbeddedFlavour(Flavour):
    """On one kind of database."""

    database: Server

    @property
    def server(self) -> Server:
        """PostgreSQL, or none: an SQLite file."""
        return self.database

    def new_database(self, server: Postgres | LocalMariaDB, name: str, collation: Collation) -> MetastoreDatabase:
        """One without tables: the metastore makes them."""
        assert isinstance(server, Postgres)
        return server.create_empty_database(name, collation)

    def metastore(
        self,
        directory: Path,
        log: Path,
        database: MetastoreDatabase | None,
        settings: Mapping[str, str],
        *,
        detached: bool = False,
        **options: Any,
    ) -> EmbeddedMetastore:
        """There are no `options`."""
        if options:
            raise BedError(f"{self.name}: it has no {', '.join(options)}")
        return EmbeddedMetastore(self, directory, log, database, settings, detached)

    def install(self) -> None:
        """It is here."""

    def prepare(self, server: Postgres | LocalMariaDB | None, directory: Path, log: Path) -> None:
        """It starts in a second."""


EMBEDDED = {
    flavour.name: flavour
    for flavour in (
        EmbeddedFlavour("embedded", VERSION, Server.NONE),
        EmbeddedFlavour("embedded-postgresql", VERSION, Server.POSTGRESQL),
    )
}


@dataclass(slots=True)
class EmbeddedMetastore(Metastore):
    """One of ours. `settings`: Hive's names in OURS, or keys as environment variables have them (METASTORE_TRASH)."""

    flavour: EmbeddedFlavour

    def _prepare(self) -> Process:
        url = ""
        if self.flavour.server is Server.NONE:
            self.database = SqliteDatabase.at(self.directory / "metastore" / "metastore.db")
        elif self.database is not None:
            url = self.database.url(OWNER)
        else:
            raise BedError(f"{self.flavour.name}: it needs a database")
        environment = {
            "LISTEN": f"{self.host}:{self.port}",
            "DATA_DIR": str(self.directory),
            "METASTORE_URL": url,
            **dict(_ours(name, value) for name, value in self.settings.items() if OURS.get(name, name)),
        }
        return Process(
            f"the embedded metastore ({self.flavour.name})",
            [sys.executable, "-m", "hms_cache_proxy", "metastore"],
            self.log,
            env={f"HMS_CACHE_PROXY_{key}": value for key, value in environment.items()},
            detached=self.detached,
        )

    def end(self) -> None:
        """In order, which takes no longer than by force: coverage.py has what it ran from a process that ends."""
        self.stop()

    @property
    def warehouse(self) -> Path:
        """Default location of managed tables."""
        return self.directory / "warehouse" / "managed"

    @property
    def external(self) -> Path:
        """Default location of external tables."""
        return self.directory / "warehouse" / "external"


def _ours(name: str, value: str) -> tuple[str, str]:
    key = OURS.get(name) or name
    if key != key.upper():
        raise BedError(f"the embedded metastore has no setting like {name}")
    return key, value
