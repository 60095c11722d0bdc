"""A test bed that outlives the command: `python -m tests.testbed up|down|status`, or `install`.

Job: start databases and metastores detached, write where they are to a JSON file (--state, HMS_TESTBED_STATE, or the
one in the cache directory, from which every test run takes them), stop them by it; install beforehand what the
fixtures need.
Must not know: what they are used for.
Invariants: `down` signals only processes whose id and start time are those in the file. A watching process calls it
after two hours in which no test has used them.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.testbed import running
from tests.testbed.artifacts import BedError, cache_directory
from tests.testbed.flavours import FLAVOURS
from tests.testbed.mariadb import LocalMariaDB, mariadb_server
from tests.testbed.metastore import Server
from tests.testbed.postgres import Collation, LocalPostgres, MetastoreDatabase, postgres_binaries
from tests.testbed.processes import Process, ProcessId

STOP_TIMEOUT_S = 20
ROOT = Path(__file__).resolve().parents[2]


def up(state_file: Path, flavours: list[str], collation: Collation) -> dict[str, Any]:
    """Start what was asked, detached; a part that fails takes the others down. Returns the state."""
    if state_file.exists():
        if any(_alive(json.loads(state_file.read_text()))):
            raise BedError(f"it is up already ({state_file}); `status` says what runs, `down` ends it")
        down(state_file)  # the machine was restarted
    directory = Path(tempfile.mkdtemp(prefix="hms-testbed-"))
    directory.chmod(0o755)  # the postgres account passes through
    state: dict[str, Any] = {"directory": str(directory), "processes": [], "metastores": {}}

    def record() -> None:
        state_file.write_text(json.dumps(state, indent=2) + "\n")

    try:
        postgres: LocalPostgres | None = None
        mariadb: LocalMariaDB | None = None
        for name in flavours:
            flavour = FLAVOURS[name]
            database: MetastoreDatabase | None = None
            if flavour.server is Server.MARIADB:
                if mariadb is None:
                    mariadb = LocalMariaDB(directory / "mariadb", directory / "mariadb.log", detached=True)
                    state["processes"].append(_entry(mariadb.process.id, signal.SIGTERM))
                    state["mariadb"] = {"host": mariadb.host, "port": mariadb.port}
                    record()
                database = flavour.new_database(mariadb, name.replace("-", "_"), collation)
            elif flavour.server is Server.POSTGRESQL:
                if postgres is None:
                    postgres = LocalPostgres(directory / "pg", directory / "postgresql.log", detached=True)
                    state["processes"].append(_entry(postgres.process.id, signal.SIGINT))
                    state["postgres"] = {
                        **{"host": postgres.host, "port": postgres.port, "locales": str(postgres.locales)},
                        **asdict(postgres.process.id),
                    }
                    record()
                database = flavour.new_database(postgres, name.replace("-", "_"), collation)
            log = directory / f"{name}.log"
            metastore = flavour.metastore(directory / name, log, database, {}, detached=True)
            metastore.start()
            state["processes"].append(_entry(metastore.process.id, signal.SIGTERM))
            state["metastores"][name] = running.described(metastore)
            record()
        watch = Process(
            "watch",
            [sys.executable, "-m", "tests.testbed", "watch", "--state", str(state_file)],
            directory / "watch.log",
            cwd=ROOT,
            detached=True,
        )
        watch.start()
        state["processes"].append(_entry(watch.id, signal.SIGTERM))
        record()
    except BaseException:
        record()
        down(state_file)
        raise
    return state


def install_all() -> str:
    """Install every flavour's jars, the schema scripts, PostgreSQL and MariaDB; a line that says where."""
    for flavour in FLAVOURS.values():
        flavour.install()
    binaries = postgres_binaries()
    return f"metastores in {cache_directory()}, PostgreSQL in {binaries}, MariaDB's server is {mariadb_server()}"


def _entry(process: ProcessId, number: signal.Signals) -> dict[str, int]:
    return {**asdict(process), "signal": int(number)}


def down(state_file: Path) -> None:
    """Stop everything in the file, the last started first, and remove its directory and the file."""
    state = json.loads(state_file.read_text())
    for entry in reversed(state["processes"]):
        process = ProcessId(entry["pid"], entry["ticks"])
        if process.pid == os.getpid():
            continue  # the watch ends by itself
        process.stop(signal.Signals(entry["signal"]), STOP_TIMEOUT_S)
    shutil.rmtree(state["directory"], ignore_errors=True)  # a restart of the machine may have emptied it
    state_file.unlink()


def _alive(state: dict[str, Any]) -> list[bool]:
    return [ProcessId(entry["pid"], entry["ticks"]).alive() for entry in state["processes"]]


def main() -> int:
    """The command line; 1 with one clear message on failure."""
    parser = argparse.ArgumentParser(prog="python -m tests.testbed", description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("up", "down", "status", "watch"):
        command = commands.add_parser(name)
        command.add_argument("--state", type=Path, default=running.state_file(), help="says what runs where")
        if name == "up":
            command.add_argument("--flavour", action="append", choices=sorted(FLAVOURS))
            command.add_argument("--collation", choices=[c.value for c in Collation], default="c")
    commands.add_parser("install", help="download and install what every flavour needs")
    options = parser.parse_args()
    try:
        if options.command == "install":
            print(install_all())
        elif options.command == "up":
            state = up(options.state, options.flavour or ["hive42"], Collation(options.collation))
            print(json.dumps(state, indent=2))
        elif options.command == "down":
            down(options.state)
        elif options.command == "watch":
            running.end_when_idle(options.state, down)
        else:
            state = json.loads(options.state.read_text())
            alive = _alive(state)
            print(json.dumps({**state, "alive": alive}, indent=2))
            return 0 if all(alive) else 1
    except FileNotFoundError as error:
        if error.filename != str(options.state):
            raise
        print(f"test bed: nothing is up ({options.state} does not exist)", file=sys.stderr)
        return 1
    except BedError as error:
        print(f"test bed: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
