"""Servers that `python -m tests.testbed up` left running, for the tests to use.

Job: where the state file is, the metastore of a flavour in it, and the end after two hours in which nobody asked.
Must not know: how servers are started or stopped (__main__).
Invariants: a metastore that is given out runs, and is the process that the file names; who gets one never stops it.
The file's time is the last use.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tests.testbed.artifacts import cache_directory
from tests.testbed.flavours import FLAVOURS
from tests.testbed.mariadb import MariaDatabase
from tests.testbed.metastore import Metastore, Server
from tests.testbed.postgres import Collation, MetastoreDatabase, Schema
from tests.testbed.processes import ProcessId

STATE: Final = "HMS_TESTBED_STATE"
IDLE_S: Final = 2 * 3600.0
LOOK_EVERY_S: Final = 60.0


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


def attached(flavour: str) -> Metastore | None:
    """The one that runs, if one does; its use is noted."""
    file = state_file()
    if not file.exists():
        return None
    told = json.loads(file.read_text())["metastores"].get(flavour)
    if told is None or not ProcessId(told["pid"], told["ticks"]).alive():
        return None
    os.utime(file)
    kind, database = FLAVOURS[flavour], None
    if kind.server is not Server.NONE:
        place = MariaDatabase if kind.server is Server.MARIADB else MetastoreDatabase
        schema, collation = Schema(told["schema"]), Collation(told["collation"])
        database = place(told["database_host"], told["database_port"], told["database"], schema, collation)
    metastore = kind.metastore(Path(told["directory"]), Path(told["log"]), database, {}, detached=True)
    metastore.port = told["port"]
    metastore.process.adopt(ProcessId(told["pid"], told["ticks"]))
    return metastore


def end_when_idle(file: Path, end: Callable[[Path], None], idle_s: float = IDLE_S) -> None:
    """Call `end` once nobody has used what the file names for so long; return when the file is gone."""
    while file.exists():
        if time.time() - file.stat().st_mtime > idle_s:
            end(file)
            return
        time.sleep(min(LOOK_EVERY_S, idle_s))
