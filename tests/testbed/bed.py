"""The servers of one run: shared ones started at first use, private ones on request, all ended by close().

Job: directories, names and life cycles; hive, embedded, postgres and processes do the work.
Must not know: pytest.
Invariants: data lives in a temporary directory that is removed; logs live in the cache's logs/ directory,
one subdirectory a run, the newest few kept; one shared metastore per flavour. A private metastore that is released
in good order may be lent to the next test that asks for the same kind: emptied, its warehouses and its database as
they were when it had just started (emptying), its process the same.
"""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.testbed import container, ledger, mariadb, postgres, running
from tests.testbed.artifacts import cache_directory
from tests.testbed.client import answers
from tests.testbed.container import Place
from tests.testbed.emptying import Kept
from tests.testbed.flavours import FLAVOURS
from tests.testbed.mariadb import LocalMariaDB, MariaDB
from tests.testbed.metastore import Metastore, Server
from tests.testbed.postgres import Collation, LocalPostgres, MetastoreDatabase, Postgres
from tests.testbed.processes import guard

KEPT_LOG_DIRECTORIES = 20  # runs may overlap
MOST_IDLE = 2  # metastores that wait to be lent again: each holds half a gigabyte


class Bed:
    """Owner of every server of a run."""

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="hms-testbed-"))
        self.directory.chmod(0o755)  # the postgres account passes through
        guard.tell(f"d {self.directory}")
        self.logs = _new_log_directory()
        self._numbers = itertools.count(1)
        self._postgres: Postgres | None = None
        self._mariadb: MariaDB | None = None
        self._shared: dict[str, Metastore] = {}
        self._private: list[Metastore | LocalPostgres | LocalMariaDB] = []
        self._private_databases: dict[int, tuple[Postgres | MariaDB, str]] = {}  # id of a metastore: its own
        self._kept: dict[int, Kept] = {}  # id of a metastore that may be lent again: its database when it was new
        self._idle: list[Metastore] = []

    @property
    def postgres(self) -> Postgres:
        """The shared server: one that `up` left running, our own, or a container where no program is."""
        ledger.uses(ledger.POSTGRESQL)
        if self._postgres is None:
            self._postgres = running.attached_postgres()
        if self._postgres is None:
            there = container.place_here("postgresql", postgres.installed) is Place.CONTAINER
            self._postgres = container.ContainerPostgres() if there else self.private_postgres()
        return self._postgres

    @property
    def mariadb(self) -> MariaDB:
        """The shared MariaDB server: our own, or a container where no program is."""
        ledger.uses(ledger.MARIADB)
        if self._mariadb is None:
            there = container.place_here("mariadb-server-core", mariadb.installed) is Place.CONTAINER
            self._mariadb = container.ContainerMariaDB() if there else self._local_mariadb()
        return self._mariadb

    def _local_mariadb(self) -> LocalMariaDB:
        number = next(self._numbers)
        return LocalMariaDB(self.directory / f"mariadb-{number}", self.logs / f"mariadb-{number}.log")

    def shared(self, flavour: str) -> Metastore:
        """The run's metastore of a flavour: one that `up` left running, or our own; a dead one is replaced."""
        ledger.uses(flavour)
        metastore = self._shared.get(flavour)
        if metastore is None or not metastore.process.alive():
            metastore = self._shared[flavour] = running.attached(flavour) or self.private_metastore(flavour)
        return metastore

    def server_for(self, flavour: str) -> Postgres | MariaDB | None:
        """The shared server, or None for a flavour that needs none."""
        wanted = FLAVOURS[flavour].server
        if wanted is Server.NONE:
            return None
        return self.mariadb if wanted is Server.MARIADB else self.postgres

    def private_metastore(
        self,
        flavour: str = "hive42",
        *,
        settings: Mapping[str, str] | None = None,
        collation: Collation = Collation.C,
        postgres: Postgres | None = None,
        database: MetastoreDatabase | None = None,
        via: tuple[str, int] | None = None,
        **options: Any,
    ) -> Metastore:
        """A started metastore; end it with release().

        It gets a database of its own, in the shared server or in `postgres`, unless `database` gives one: two
        metastores may share it. `via` is the address of a proxy through which it reaches the database. `options`: of
        the flavour's class.
        """
        kind = FLAVOURS[flavour]
        usual = (collation, postgres, database, via, options) == (Collation.C, None, None, None, {})
        if usual and kind.lendable and (lent := self._lent(flavour, settings or {})) is not None:
            return lent
        name = f"{flavour}-{next(self._numbers)}"
        server = postgres or self.server_for(flavour)
        kind.prepare(server, self.directory / f"{name}-prepared", self.logs / f"{name}-prepared.log")  # type: ignore[arg-type]
        owned = database is None and server is not None
        if database is None and server is not None:
            database = kind.new_database(server, name.replace("-", "_"), collation)  # type: ignore[arg-type]
        seen = database.behind(*via) if database is not None and via is not None else database
        log = self.logs / f"{name}.log"
        metastore = kind.metastore(self.directory / name, log, seen, settings or {}, **options)
        if owned and server is not None and database is not None:
            self._private_databases[id(metastore)] = (server, database.name)
        self._private.append(metastore)
        metastore.start()
        if usual and kind.lendable and isinstance(database, MetastoreDatabase):
            self._kept[id(metastore)] = Kept(database)
        return metastore

    def _lent(self, flavour: str, settings: Mapping[str, str]) -> Metastore | None:
        """One that waits."""
        ledger.uses(flavour)
        for metastore in self._idle:
            if (metastore.flavour.name, metastore.settings) == (flavour, settings):
                self._idle.remove(metastore)
                self._private.append(metastore)
                ledger.note(f"{flavour}: lent again")
                return metastore
        return None

    def private_postgres(self) -> LocalPostgres:
        """A started cluster of its own; end it with release()."""
        number = next(self._numbers)
        server = LocalPostgres(self.directory / f"pg-{number}", self.logs / f"postgresql-{number}.log")
        self._private.append(server)
        return server

    def release(self, server: Metastore | LocalPostgres | LocalMariaDB) -> None:
        """End a private server and remove its data, or keep it to be lent again, emptied."""
        self._private.remove(server)
        kept = self._kept.get(id(server))
        if kept is not None and isinstance(server, Metastore) and _emptied(server, kept):
            self._idle.append(server)
            if len(self._idle) > MOST_IDLE:
                least = min(self._idle, key=lambda metastore: not metastore.settings)  # special ones are seldom wanted
                self._idle.remove(least)
                self._end(least)
        else:
            self._end(server)

    def _end(self, server: Metastore | LocalPostgres | LocalMariaDB) -> None:
        self._kept.pop(id(server), None)
        _ended(server)
        owner, name = self._private_databases.pop(id(server), (None, ""))
        if owner is not None and owner in (self._postgres, self._mariadb):  # a private cluster goes as a whole
            owner.drop_database(name)
        shutil.rmtree(server.directory)

    def close(self) -> None:
        """End everything."""
        for server in reversed([*self._idle, *self._private]):
            _ended(server)
        for shared in (self._postgres, self._mariadb):
            if shared is not None:
                shared.stop()
        shutil.rmtree(self.directory)


def _ended(server: Metastore | LocalPostgres | LocalMariaDB) -> None:
    if isinstance(server, Metastore):
        server.end()
    else:
        server.kill()


def _emptied(metastore: Metastore, kept: Kept) -> bool:
    """Is it as it was when it was new?"""
    if not metastore.process.alive() or not answers(metastore.host, metastore.port, framed=metastore.framed):
        return False
    if not kept.put_back():
        return False
    for warehouse in (metastore.warehouse, metastore.external):
        for inside in warehouse.iterdir() if warehouse.exists() else ():
            shutil.rmtree(inside) if inside.is_dir() and not inside.is_symlink() else inside.unlink()
    return True


def _new_log_directory() -> Path:
    root = cache_directory() / "logs"
    root.mkdir(exist_ok=True)
    for old in sorted(root.iterdir())[: 1 - KEPT_LOG_DIRECTORIES]:
        shutil.rmtree(old, ignore_errors=True)  # a parallel run may remove it too
    when = time.strftime("%Y%m%d-%H%M%S")
    directory = Path(tempfile.mkdtemp(prefix=f"{when}-{os.getpid()}-", dir=root))  # a process may have two beds
    directory.chmod(0o755)
    return directory
