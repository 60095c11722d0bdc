"""Servers that `python -m tests.testbed up` left running, for the tests to use.

Job: where the state file is, the metastore of a flavour in it, the PostgreSQL server in it, and the end after two hours
in which nobody asked. Must not know: how servers are started or stopped (__main__).
Invariants: what is given out runs, and is the process that the file names; who gets it never stops it. A metastore is
used by one run at a time: another run that asks meanwhile starts its own. The workers of pytest-xdist use none, so a
run of a whole tier does not depend on what was left running. The PostgreSQL server may be used by several runs: each
has databases of its own there, which it drops at its end. The file's time is the last use.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, Final

from tests.testbed import locales
from tests.testbed.artifacts import cache_directory, locked
from tests.testbed.flavours import FLAVOURS
from tests.testbed.mariadb import MariaDatabase
from tests.testbed.metastore import Metastore, Server
from tests.testbed.postgres import Collation, MetastoreDatabase, Postgres, Schema
from tests.testbed.processes import XDIST_WORKER, ProcessId

STATE: Final = "HMS_TESTBED_STATE"
IDLE_S: Final = 2 * 3600.0
LOOK_EVERY_S: Final = 60.0
_OWNER: Final = re.compile(r"_(\d+)$")  # the process that made a database
_held: dict[str, IO[str]] = {}
"""Locks of the metastores that this process uses, by the names of their files: held until it ends."""


def state_file() -> Path:
    """Of HMS_TESTBED_STATE, or the one in the cache directory."""
    return Path(os.environ.get(STATE) or cache_directory() / "running.json")


def described(metastore: Metastore) -> dict[str, Any]:
    """What the state file says of one, enough to use it from another process."""
    database, process = metastore.database, metastore.process.id
    return {
        "version": metastore.flavour.version,
        "host": metastore.host,
        "port": metastore.port,
        "uri": metastore.uri,
        "pid": process.pid,
        "ticks": process.ticks,
        "directory": str(metastore.directory),
        "log": str(metastore.log),
        "warehouse": str(metastore.warehouse),
        "database": None if database is None else database.name,
        "database_host": None if database is None else database.host,
        "database_port": None if database is None else database.port,
        "schema": None if database is None else database.schema.value,
        "collation": None if database is None else database.collation.value,
        "store_url": None if database is None else database.store_url,
        "reader_url": None if database is None else database.reader_url,
    }


def _state() -> dict[str, Any] | None:
    """What the file says, for a process that may use it; its use is noted."""
    file = state_file()
    if XDIST_WORKER in os.environ or not file.exists():
        return None
    state: dict[str, Any] = json.loads(file.read_text())
    os.utime(file)
    return state


def _take(directory: Path, flavour: str) -> bool:
    """Use a metastore alone, until this process ends; False if another one does."""
    name = str(directory / f"{flavour}.lock")
    if name not in _held:
        handle = open(name, "w")  # noqa: SIM115  # it is held
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            handle.close()
            return False
        _held[name] = handle
    return True


def attached(flavour: str) -> Metastore | None:
    """The one that runs, if one does and nobody else uses it."""
    state = _state()
    told = None if state is None else state["metastores"].get(flavour)
    if state is None or told is None or not ProcessId(told["pid"], told["ticks"]).alive():
        return None
    if not _take(Path(state["directory"]), flavour):
        return None
    kind, database = FLAVOURS[flavour], None
    if kind.server is not Server.NONE:
        place = MariaDatabase if kind.server is Server.MARIADB else MetastoreDatabase
        schema, collation = Schema(told["schema"]), Collation(told["collation"])
        database = place(told["database_host"], told["database_port"], told["database"], schema, collation)
    metastore = kind.metastore(Path(told["directory"]), Path(told["log"]), database, {}, detached=True)
    metastore.port = told["port"]
    metastore.process.adopt(ProcessId(told["pid"], told["ticks"]))
    return metastore


def attached_postgres() -> RunningPostgres | None:
    """The server that runs, if one does."""
    state = _state()
    told = None if state is None else state.get("postgres")
    if state is None or told is None or not ProcessId(told["pid"], told["ticks"]).alive():
        return None
    server = RunningPostgres(told["host"], told["port"], Path(told["locales"]))
    server.drop_abandoned()
    return server


class RunningPostgres(Postgres):
    """The server of another process. Names of databases get this process's id, so that no two runs share one."""

    def __init__(self, host: str, port: int, locales_directory: Path) -> None:
        super().__init__(host, port)
        self._locales = locales_directory
        self._made: list[str] = []

    def stop(self) -> None:
        """Drop what this process has made; the server goes on."""
        for name in self._made.copy():
            self.drop_database(name)

    def drop_abandoned(self) -> None:
        """Drop what runs that were killed have left."""
        for name in self._rows("SELECT datname FROM pg_database WHERE NOT datistemplate"):
            owner = _OWNER.search(name)
            if owner is not None and not Path("/proc", owner[1]).exists():
                super().drop_database(name)

    def create_metastore_database(
        self, name: str, schema: Schema = Schema.HIVE42, collation: Collation = Collation.C
    ) -> MetastoreDatabase:
        """A new, empty metastore database."""
        return super().create_metastore_database(self._own(name), schema, collation)

    def create_empty_database(self, name: str, collation: Collation = Collation.C) -> MetastoreDatabase:
        """A new database without tables."""
        return super().create_empty_database(self._own(name), collation)

    def drop_database(self, name: str) -> None:
        """Drop one that this process has made."""
        self._made.remove(name)
        super().drop_database(name)

    def _own(self, name: str) -> str:
        name = f"{name}_{os.getpid()}"
        self._made.append(name)
        return name

    def _template(self, schema: Schema, collation: Collation) -> str:
        """Made by the first process that needs it; complete once it is marked as a template."""
        with locked("running-templates"):
            for found in self._complete_templates():
                self._templates.add(found)
            before = self._templates.copy()
            name = super()._template(schema, collation)
            if name not in before:
                self.execute(f"ALTER DATABASE {name} IS_TEMPLATE true")
        return name

    def _complete_templates(self) -> list[str]:
        names = self._rows("SELECT datname FROM pg_database WHERE datistemplate")
        return [name for name in names if name.startswith("template_hive_")]

    def _rows(self, query: str) -> list[str]:
        maintenance = MetastoreDatabase(self.host, self.port, "postgres", Schema.HIVE42, Collation.C)
        return [name for (name,) in maintenance.rows(query)]

    def _provide_locale(self) -> None:
        if not locales.system_has_it():
            with contextlib.suppress(FileExistsError):
                locales.compile_into(self._locales)


def end_when_idle(file: Path, end: Callable[[Path], None], idle_s: float = IDLE_S) -> None:
    """Call `end` once nobody has used what the file names for so long; return when the file is gone."""
    while file.exists():
        if time.time() - file.stat().st_mtime > idle_s:
            end(file)
            return
        time.sleep(min(LOOK_EVERY_S, idle_s))
