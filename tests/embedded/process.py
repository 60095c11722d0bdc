"""The embedded metastore as a real process: `hms-cache-proxy metastore` on a database of its own.

Job: start it, wait until it answers, stop or kill it, start it again on the same database. Must not know: what is
asked.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.proxy import _die_with_parent
from tests.testbed.client import answers
from tests.testbed.processes import free_port

READY_S = 60.0
STOP_S = 20.0


@dataclass
class Embedded:
    """One metastore; `url` is its database's, SQLite in its directory if empty."""

    directory: Path
    url: str = ""
    settings: dict[str, str] = field(default_factory=dict)
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> tuple[str, int]:
        return "127.0.0.1", self.port

    @property
    def uri(self) -> str:
        return f"thrift://127.0.0.1:{self.port}"

    @property
    def log(self) -> Path:
        return self.directory / "metastore.log"

    @property
    def warehouse(self) -> Path:
        return self.directory / "warehouse"

    @property
    def database(self) -> str:
        """The URL of its database."""
        return self.url or f"sqlite:///{self.directory}/metastore/metastore.db"

    def start(self) -> Embedded:
        self.directory.mkdir(parents=True, exist_ok=True)
        environment = {
            **os.environ,
            "HMS_CACHE_PROXY_LISTEN": f"127.0.0.1:{self.port}",
            "HMS_CACHE_PROXY_DATA_DIR": str(self.directory),
            "HMS_CACHE_PROXY_METASTORE_URL": self.url,
            **{f"HMS_CACHE_PROXY_{key}": value for key, value in self.settings.items()},
        }
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "hms_cache_proxy", "metastore"],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=_die_with_parent,
            )
        deadline = time.monotonic() + READY_S
        while not answers(*self.address):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"the metastore does not answer:\n{self.log_tail()}")
            time.sleep(0.02)
        return self

    def log_tail(self, lines: int = 40) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def stop(self) -> int:
        """SIGTERM and the exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(STOP_S)

    def kill(self) -> None:
        """kill -9."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(STOP_S)

    def close(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.kill()
