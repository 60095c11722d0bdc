"""The code blocks of a document, run as a reader would run them.

Job: `blocks` finds them; `Reader` carries them out in order. The word after the fence says what a block is: `sh` runs
and must end with 0; `sh title="... terminal ..."` runs until the reader needs the terminal for something else (the
title ends with `instead`) or the page ends; `sh title="once"` installs, and is not run; `python title="NAME"` is saved
as NAME and run; `toml title="NAME"` is saved. Other blocks are shown, not run.
Must not know: which page. Invariants: ports of the page (9083 to 9086, 9183) are replaced by free ones, so that a page
can be run on a machine where they are taken; names that stand for a reader's own servers, by those of `own`.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from tests.proxy import has_counted
from tests.testbed import ledger
from tests.testbed.processes import free_port, wait_until

PORTS: Final = ("9083", "9084", "9085", "9086", "9183")
SETTINGS: Final = {"LISTEN": "127.0.0.1:9083", "HTTP": "127.0.0.1:9084", "ADMIN_LISTEN": "127.0.0.1:9085"}
PATIENT: Final = {"HMS_CACHE_PROXY_UPSTREAM_OPTIONS_CONNECT_TIMEOUT_S": "60"}
"""How long a metastore that has just been started may take on a busy machine."""

BLOCK_S: Final = 400.0
READY_S: Final = 400.0
NOTHING: Final[Mapping[str, str]] = {}
_FENCE: Final = re.compile(r'^```(\w*)(?: title="([^"]*)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """One of a page."""

    language: str
    title: str
    text: str


def blocks(page: str) -> Iterator[Block]:
    """In order."""
    return (Block(*found.groups(default="")) for found in _FENCE.finditer(page))


def _changed(file: Path) -> float:
    return file.stat().st_mtime


@dataclass
class Reader:
    """Somebody with a terminal for each title, all in one directory."""

    directory: Path
    own: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.ports = {port: str(free_port()) for port in PORTS}
        self.terminals: dict[str, subprocess.Popen[bytes]] = {}
        self.printed: dict[str, str] = {}
        programs = Path(sys.executable).parent
        self.environment = {**os.environ, **PATIENT, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
        self.environment |= {f"HMS_CACHE_PROXY_{key}": self.replaced(value) for key, value in SETTINGS.items()}
        self.environment["HMS_CACHE_PROXY_URL"] = self.replaced("http://127.0.0.1:9084")
        self.environment["HMS_CACHE_PROXY_ADMIN_URL"] = self.replaced("http://127.0.0.1:9085")

    def replaced(self, text: str) -> str:
        """With the reader's own names, and ports that are free."""
        for name, own in self.own.items():
            text = text.replace(name, own)
        return re.sub(r"\b(?:" + "|".join(self.ports) + r")\b", lambda found: self.ports[found[0]], text)

    def follow(self, page: str, until: Mapping[str, str] = NOTHING) -> None:
        """Do all that the page says. AssertionError at the first block that fails. `until`: what a block must print (a
        regular expression), by its first line; it is run again until it does, as counters are some seconds old."""
        for block in blocks(page):
            self.wait_counted()
            if block.language in ("python", "toml") and block.title:
                (self.directory / block.title).write_text(self.replaced(block.text))
                if block.language == "python":
                    self.run(f"python {block.title}", block.title)
            elif block.language == "sh" and "terminal" in block.title:
                self.start(block)
            elif block.language == "sh" and block.title != "once":
                first = block.text.splitlines()[0]
                self.run_until(until.get(first, ""), self.replaced(block.text), first)

    def run_until(self, pattern: str, script: str, name: str) -> None:
        """One block, until it has printed this."""
        deadline = time.monotonic() + BLOCK_S
        self.run(script, name)
        while not re.search(pattern, self.printed[name]):
            assert time.monotonic() < deadline, f"{name}: no {pattern} in {self.printed[name]}"
            self.wait_counted()
            self.run(script, name)

    def wait_counted(self) -> None:
        """A person reads on for longer than workers take to add up what they have counted."""
        if self.ready():
            running, until_ns = max(self.directory.glob("*/state"), key=_changed), time.monotonic_ns()
            assert wait_until(lambda: has_counted(running.parent, until_ns))

    def run(self, script: str, name: str) -> None:
        """One block, to its end."""
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=self.directory,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=BLOCK_S,
        )
        assert done.returncode == 0, f"{name}: {done.stdout}{done.stderr}"
        self.printed[name] = done.stdout

    def start(self, block: Block) -> None:
        """A server in a terminal; when this returns, it accepts calls."""
        terminal, _, instead = block.title.partition(", ")
        if instead:
            self.end(terminal)
        ledger.note(ledger.PROXY)
        script = f"exec {self.replaced(block.text).strip()}"
        with (self.directory / f"{terminal}.log").open("ab") as log:
            self.terminals[terminal] = subprocess.Popen(
                ["bash", "-c", script], cwd=self.directory, env=self.environment, stdout=log, stderr=log
            )
        proxy = "hms-cache-proxy serve" in block.text
        deadline = time.monotonic() + READY_S
        while not (self.ready() if proxy else self.listens(self.ports["9183"])):
            text = (self.directory / f"{terminal}.log").read_text()
            assert self.terminals[terminal].poll() is None and time.monotonic() < deadline, text
            time.sleep(0.2)

    def ready(self) -> bool:
        """Whether the proxy answers from its cache."""
        try:
            with urllib.request.urlopen(self.replaced("http://127.0.0.1:9084/status"), timeout=5) as reply:
                return bool(json.load(reply)["prewarm"]["done"])
        except OSError:
            return False

    def listens(self, port: str) -> bool:
        """Whether a server accepts connections."""
        return subprocess.run(["bash", "-c", f"exec 3<>/dev/tcp/127.0.0.1/{port}"], capture_output=True).returncode == 0

    def end(self, terminal: str) -> None:
        """Ctrl-C."""
        process = self.terminals.pop(terminal)
        process.send_signal(signal.SIGTERM)
        process.wait(60)

    def close(self) -> None:
        """Whatever still runs."""
        for terminal in list(self.terminals):
            self.end(terminal)
