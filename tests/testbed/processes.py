"""Child processes that never outlive the test run.

Job: start a server with its output in a log file, stop it by process id, restart it, show the log's end.
Must not know: what the server is.
Invariants: a process id is only ever signalled while its start time in /proc is the one seen at the start,
so a reused id is never hit. Every child runs in a session of its own, so a terminal's Ctrl-C reaches only
the owner. A guard process (guard.py) holds a pipe to the owner and stops what is left when the pipe closes,
however the owner died. Detached children (`python -m tests.testbed up`) are not reported to the guard:
`down` ends them.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.testbed.artifacts import BedError
from tests.testbed.guard import start_ticks

LOG_TAIL_BYTES = 4000
SOON_S = 60.0
"""What comes soon on an idle machine may take this long on a busy one; nobody waits longer than it takes."""
POLL_S = 0.02
PORTS = range(15000, 32000)
XDIST_WORKER, XDIST_WORKERS = "PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT"


def _own_ports() -> Iterator[int]:
    """The ports of this worker of pytest-xdist: each once, in random order, before any is there again."""
    worker, workers = os.environ.get(XDIST_WORKER, "gw0"), os.environ.get(XDIST_WORKERS, "1")
    own = PORTS[int(worker.removeprefix("gw")) :: int(workers)]
    while True:  # from the system's randomness, so that parallel test runs (whose `random` is seeded) differ
        yield from random.SystemRandom().sample(own, len(own))


_ports, _ports_mutex = _own_ports(), threading.Lock()


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on now, and that nobody else is given: a server listens seconds later.

    Below the range from which the kernel takes the ports of outgoing connections, so that it stays free
    until then, also over a restart.
    """
    for _ in PORTS:
        with _ports_mutex:
            port = next(_ports)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise BedError("no free port")


@dataclass(frozen=True, slots=True)
class ProcessId:
    """A process that cannot be mistaken for a later one with the same id."""

    pid: int
    ticks: int

    def alive(self) -> bool:
        """Is it running (a zombie is not)?"""
        return start_ticks(self.pid) == self.ticks

    def send(self, number: signal.Signals) -> None:
        """Signal it unless it is gone."""
        if self.alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def wait_gone(self, timeout_s: float) -> bool:
        """True once it has ended."""
        return wait_until(lambda: not self.alive(), timeout_s)

    def stop(self, number: signal.Signals, timeout_s: float) -> None:
        """Ask with `number`, wait, then kill."""
        self.send(number)
        if not self.wait_gone(timeout_s):
            self.send(signal.SIGKILL)
            if not self.wait_gone(timeout_s):
                raise BedError(f"process {self.pid} survives SIGKILL")


def signalled(pids: Iterable[int], number: signal.Signals) -> list[int]:
    """Those of these processes that got the signal; others have ended."""
    found = []
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue
        found.append(pid)
    return found


def wait_until(condition: Callable[[], object], timeout_s: float = SOON_S) -> bool:
    """Poll until the condition holds; False when time is up."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    return True


class _Guard:
    """Owner's end of the guard's pipe; started with the first guarded child."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0
        self._mutex = threading.Lock()

    def tell(self, line: str) -> None:
        """Report a child (+) or its end (-), or a directory (d) to remove."""
        with self._mutex:
            if self._process is None or self._owner != os.getpid():
                self._start()
            assert self._process is not None and self._process.stdin is not None
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()

    def _start(self) -> None:
        script = Path(__file__).with_name("guard.py")
        self._process = subprocess.Popen(
            [sys.executable, "-I", str(script)], stdin=subprocess.PIPE, start_new_session=True
        )
        self._owner = os.getpid()
        atexit.register(self._finish)

    def _finish(self) -> None:
        process, self._process = self._process, None
        if process is not None and self._owner == os.getpid():
            assert process.stdin is not None
            process.stdin.close()
            process.wait()


guard = _Guard()


class Process:
    """One server process, its log and its way to stop."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log: Path,
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        stop_signal: signal.Signals = signal.SIGTERM,
        account: str | None = None,
        detached: bool = False,
    ) -> None:
        self.name = name
        self.command = list(command)
        self.log = log
        self._env = {**os.environ, **(env or {})}
        self._cwd = cwd
        self._account = account
        self._stop_signal = stop_signal
        self._detached = detached
        self._popen: subprocess.Popen[bytes] | None = None
        self._id: ProcessId | None = None
        self._log_start = 0

    @property
    def id(self) -> ProcessId:
        """The running (or last) process. BedError if it was never started."""
        if self._id is None:
            raise BedError(f"{self.name} was never started")
        return self._id

    def start(self) -> None:
        """Start it, its output appended to the log."""
        if self.alive():
            raise BedError(f"{self.name} is already running")
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with open(self.log, "ab") as output:
            self._log_start = output.tell()
            self._popen = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self._env,
                cwd=self._cwd,
                start_new_session=True,
                user=self._account,
                group=self._account,
                extra_groups=None if self._account is None else [],
            )
        ticks = start_ticks(self._popen.pid)
        self._id = ProcessId(self._popen.pid, ticks)
        if not self._detached:
            guard.tell(f"+ {self._popen.pid} {ticks} {int(self._stop_signal)}")

    def adopt(self, process: ProcessId) -> None:
        """Take for it one that another process started; stop() and kill() leave that one alone."""
        self._id = process

    def alive(self) -> bool:
        """Is it running?"""
        if self._popen is None:
            return self._detached and self._id is not None and self._id.alive()
        return self._popen.poll() is None

    def stop(self, timeout_s: float = SOON_S) -> int | None:
        """Ask it to end, wait, kill it if it does not; its exit code. Nothing if it does not run: None."""
        return self._end(self._stop_signal, timeout_s)

    def kill(self) -> None:
        """End it as `kill -9` does."""
        self._end(signal.SIGKILL, SOON_S)

    def _end(self, number: signal.Signals, timeout_s: float) -> int | None:
        if self._popen is None:
            return None
        if self._popen.poll() is None:
            self._popen.send_signal(number)
            try:
                self._popen.wait(timeout_s)
            except subprocess.TimeoutExpired:
                self._popen.kill()
                self._popen.wait(timeout_s)
        if not self._detached:
            guard.tell(f"- {self._popen.pid}")
        code: int | None = self._popen.returncode
        self._popen = None
        return code

    def pause(self) -> None:
        """Stop scheduling it (SIGSTOP): deaf, its connections open."""
        self.id.send(signal.SIGSTOP)

    def resume(self) -> None:
        """Undo pause()."""
        self.id.send(signal.SIGCONT)

    def wait_ready(self, ready: Callable[[], bool], timeout_s: float) -> None:
        """Poll `ready`; BedError with the log's end when it dies or time is up."""
        deadline = time.monotonic() + timeout_s
        while not ready():
            if not self.alive():
                raise BedError(f"{self.name} ended while starting:\n{self.log_tail()}")
            if time.monotonic() > deadline:
                raise BedError(f"{self.name} not ready after {timeout_s:.0f} s:\n{self.log_tail()}")
            time.sleep(POLL_S)

    def log_tail(self) -> str:
        """The last lines that this start of the process wrote."""
        content = self.log.read_bytes()[self._log_start :]
        return f"[{self.log}]\n" + content[-LOG_TAIL_BYTES:].decode(errors="replace")
