"""A Prometheus server of our own, which scrapes what a test tells it to, and promtool.

Job: find Debian's programs, or unpack their package into the test bed's cache (it is never installed, because it would
start a service); run the server, ask it. Must not know: what is scraped, what is asked.
Invariants: it listens on 127.0.0.1 only, and keeps its data in the directory that it is given.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tests.testbed import ledger
from tests.testbed.artifacts import BedError, MissingPrerequisite, cache_directory, locked
from tests.testbed.processes import Process, free_port, wait_until

PACKAGE: Final = "prometheus"
FETCH_S: Final = 600
READY_S: Final = 60.0


def program(name: str) -> Path:
    """`prometheus` or `promtool`. MissingPrerequisite where neither they nor Debian's packages can be had."""
    if found := shutil.which(name):
        return Path(found)
    place = cache_directory() / "debian-prometheus"
    with locked("apt"):
        if not place.is_dir():
            _unpack(place)
    return place / "usr" / "bin" / name


def _unpack(place: Path) -> None:
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        raise MissingPrerequisite(f"not installed: apt-get install {PACKAGE}")
    scratch = place.with_name("installing-prometheus")
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    _done(["apt-get", "download", "-q", PACKAGE], scratch)
    (package,) = scratch.glob("*.deb")
    _done(["dpkg", "-x", str(package), str(scratch)], scratch)
    package.unlink()
    scratch.rename(place)


def _done(command: Sequence[str], directory: Path) -> None:
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=FETCH_S)
    if done.returncode:
        raise BedError(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


class Prometheus:
    """A server that scrapes `targets` every second under the name of the job in conf/prometheus.yml."""

    def __init__(self, directory: Path, targets: Sequence[str]) -> None:
        directory.mkdir(parents=True)
        jobs = [{"job_name": "hms-cache-proxy", "static_configs": [{"targets": list(targets)}]}]
        settings = {"global": {"scrape_interval": "1s"}, "scrape_configs": jobs}
        (directory / "prometheus.json").write_text(json.dumps(settings))  # JSON is YAML
        self.port = free_port()
        self._process = Process(
            "prometheus",
            [
                str(program("prometheus")),
                f"--config.file={directory / 'prometheus.json'}",
                f"--storage.tsdb.path={directory / 'data'}",
                f"--web.listen-address=127.0.0.1:{self.port}",
            ],
            directory / "prometheus.log",
        )

    def start(self) -> None:
        """Until it answers."""
        with ledger.starting(ledger.PROMETHEUS):
            self._process.start()
            if not wait_until(self._ready, READY_S):
                raise BedError(f"prometheus does not answer:\n{self._process.log_tail()}")

    def _ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/-/ready", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def ask(self, query: str) -> list[dict[str, Any]]:
        """The samples that a query gives now. BedError if it is no query."""
        url = f"http://127.0.0.1:{self.port}/api/v1/query?" + urllib.parse.urlencode({"query": query})
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
        except urllib.error.HTTPError as error:
            with error:
                raise BedError(f"{query}: {error.read().decode()}") from error
        return found

    def wait_scraped(self, targets: int, timeout_s: float = READY_S) -> None:
        """Until each target was read a few times."""
        deadline = time.monotonic() + timeout_s
        while len(self.ask("count_over_time(up[30s]) >= 5 and up == 1")) < targets:
            if time.monotonic() > deadline:
                raise BedError(f"not scraped after {timeout_s} s: {self.ask('up')}")
            time.sleep(0.5)

    def close(self) -> None:
        """End it."""
        self._process.stop()
