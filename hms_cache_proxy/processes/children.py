"""Keeps one child process alive: starts it, notices when it ends, and restarts it after a growing pause.

Job: start and end processes. Must not know: what a child does. A child is a new interpreter (exec, never a bare fork),
which gets its configuration on standard input and inherits the lock's descriptor. Invariant: a Child has at most one
process at a time, so the metrics files of a role have one writer. Owner: the supervisor's loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable

import structlog

from hms_cache_proxy.config import Config, to_json
from hms_cache_proxy.retry import Retry

log = structlog.get_logger()

BACKOFF_FIRST_S = 0.1  # a killed worker is back at once
BACKOFF_LAST_S = 30.0  # a worker that cannot start does not occupy a core
BACKOFF_FORGET_S = 5.0  # a child that ran longer did start; with
BACKOFF_FORGET_PAUSES = 10  # times its next pause, too, it is started at once again


class Child:
    """A role (`worker`, `follower`, `metastore`) with an index, and its current process, if there is one."""

    def __init__(
        self, role: str, index: int, *, lock_fd: int, died: Callable[[str, int], None], passed: tuple[int, ...] = ()
    ) -> None:
        """`died`: called with the name and the code (as asyncio tells it) of a process that has ended."""
        self.role = role
        self.index = index
        self.name = f"{role}-{index}" if role == "worker" else role
        self.restarts = 0
        self.started_s = 0.0  # time.monotonic() of the last start
        self._lock_fd, self._passed = lock_fd, passed  # descriptors that it inherits; the latter are arguments
        self._died = died
        self._process: asyncio.subprocess.Process | None = None
        self._stopping = asyncio.Event()

    @property
    def pid(self) -> int | None:
        """The id of the current process."""
        return self._process.pid if self._process is not None else None

    async def keep(self, config: Config) -> None:
        """Run the child, and restart it whenever it ends, until `stop`."""
        retry = Retry(BACKOFF_FIRST_S, BACKOFF_LAST_S)
        while not self._stopping.is_set():
            try:
                ended = how(await self._run_once(config))
            except OSError as error:  # no process, memory or descriptor is available at the moment
                ended = f"not started: {error}"
            if self._stopping.is_set():
                return
            if time.monotonic() - self.started_s > max(BACKOFF_FORGET_S, BACKOFF_FORGET_PAUSES * retry.next_s):
                retry.succeeded()
            self.restarts += 1
            pause_s = retry.failed()
            log.error("child died", child=self.name, ended=ended, restart_in_s=pause_s)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), pause_s)

    async def _run_once(self, config: Config) -> int:
        self.started_s = time.monotonic()
        process = self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "hms_cache_proxy.processes.child"),
            *(self.role, str(self.index), str(os.getpid()), *map(str, self._passed)),
            stdin=asyncio.subprocess.PIPE,
            pass_fds=(self._lock_fd, *self._passed),
        )
        log.info("child started", child=self.name, pid=process.pid)
        if self._stopping.is_set():  # stop() was called during the start
            process.send_signal(signal.SIGTERM)
        try:
            await process.communicate(to_json(config))
            return await process.wait()
        finally:
            self._process = None
            self._died(self.name, process.returncode or 0)

    def stop(self, signal_number: int) -> None:
        """Ask the process to end (SIGTERM) or end it (SIGKILL); no new one is started."""
        self._stopping.set()
        self.send(signal_number)

    def send(self, signal_number: int) -> None:
        """Signal the process, if one runs."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):  # it has ended, and the loop does not know yet
                self._process.send_signal(signal_number)


def how(code: int) -> str:
    """How a process has ended, by its code as asyncio tells it."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"signal {signal.Signals(-code).name}"
    except ValueError:  # one of the real-time signals without a name
        return f"signal {-code}"
