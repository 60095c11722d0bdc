"""`python -m benchmarks.listening`: three ways for a proxy's workers to come by their connections.

`own`: each worker has a listening socket of its own for the one port (SO_REUSEPORT). `passed`: the parent accepts, and
passes each descriptor to the worker that has the fewest. `shared`: the workers accept from one socket that the parent
keeps open, as the proxy's do. Measured: how long a connection takes until its first answer, how 100 connections that
stay spread over the workers, and what becomes of new ones while the parent or a worker is stopped, and when all
workers are killed. A worker answers with its process id and does nothing else. Must not know Thrift.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from statistics import median, quantiles
from typing import Any, cast

import uvloop

from benchmarks import kept
from hms_cache_proxy.cache.state import StatePage
from hms_cache_proxy.server.acceptor import Acceptor
from hms_cache_proxy.server.worker_states import BEAT_INTERVAL_S, Member

DESIGNS = ("own", "passed", "shared")
BACKLOG = 1024
ANSWER_BYTES = 8
STAY = 100
TIMED = 2000
TRIED = 20
PATIENCE_S = 3.0
RESTART_S = 0.3
HEAD = [
    *("design", "workers", "50 % ms", "99 % ms", "spread in turn, %", "at once, %"),
    *("parent stopped", "a worker stopped", "all killed"),
]


class Answering(asyncio.Protocol):
    """Answers each chunk with the process id."""

    def __init__(self, member: Member) -> None:
        self._member = member

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._member.count(1)

    def data_received(self, data: bytes) -> None:
        self._transport.write(os.getpid().to_bytes(ANSWER_BYTES, "big"))

    def connection_lost(self, error: Exception | None) -> None:
        self._member.count(-1)


async def worker(design: str, descriptor: int, member: Member) -> None:
    """Serve until killed; `descriptor`: the listening socket, or what descriptors come through."""
    loop = asyncio.get_running_loop()
    given = socket.socket(fileno=descriptor)
    tasks: set[asyncio.Task[object]] = set()

    def spawn(work: Any, _name: str) -> None:
        task = loop.create_task(work)
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    def passed() -> None:
        _, descriptors, _, _ = socket.recv_fds(given, 1, 16)
        for number in descriptors:
            taken = socket.socket(fileno=number)
            taken.setblocking(False)
            spawn(loop.connect_accepted_socket(lambda: Answering(member), taken), "")

    if design == "own":
        port = given.getsockname()[1]
        own = socket.create_server(("127.0.0.1", port), reuse_port=True, backlog=BACKLOG)
        await loop.create_server(lambda: Answering(member), sock=own, backlog=BACKLOG)
    elif design == "shared":
        Acceptor(given, member, lambda: Answering(member), spawn).start()  # type: ignore[arg-type, misc]  # a protocol
    else:
        given.setblocking(False)
        loop.add_reader(given, passed)
    while True:
        member.beat()
        await asyncio.sleep(BEAT_INTERVAL_S)


class Parent:
    """Starts the workers and starts them again; accepts for them if the design says so."""

    def __init__(self, design: str, workers: int, page: Path) -> None:
        self._design, self._page, self._number = design, StatePage(page, create=True), workers
        self._listener = socket.socket()
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, design == "own")
        self._listener.bind(("127.0.0.1", 0))
        if design != "own":
            self._listener.listen(BACKLOG)
        self._pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(workers)]
        self._taken = [0] * workers

    async def run(self) -> None:
        if self._design == "passed":
            self._listener.setblocking(False)
            asyncio.get_running_loop().add_reader(self._listener, self._pass)
        print(self._listener.getsockname()[1], flush=True)
        await asyncio.gather(*(self._keep(number) for number in range(self._number)))

    async def _keep(self, number: int) -> None:
        given = self._pairs[number][1] if self._design == "passed" else self._listener
        while True:
            command = [sys.executable, "-m", "benchmarks.listening", "--page", str(self._page.path)]
            command += ["--worker", self._design, str(given.fileno()), str(number), str(self._number)]
            process = await asyncio.create_subprocess_exec(*command, pass_fds=[given.fileno()])
            await process.wait()
            await asyncio.sleep(RESTART_S)

    def _pass(self) -> None:
        taken, _ = self._listener.accept()
        number = min(range(self._number), key=self._taken.__getitem__)
        self._taken[number] += 1
        with taken:
            socket.send_fds(self._pairs[number][0], [b"x"], [taken.fileno()])


@contextmanager
def proxy(design: str, workers: int) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """The parent's process and the port, once every worker answers."""
    with tempfile.TemporaryDirectory(prefix="hms-bench-") as directory:
        command = [sys.executable, "-m", "benchmarks.listening", "--page", f"{directory}/state"]
        parent = subprocess.Popen(
            [*command, "--parent", design, str(workers)], stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        try:
            assert parent.stdout is not None
            port = int(parent.stdout.readline())
            deadline = time.monotonic() + 60
            seen: set[int] = set()
            while len(seen) < workers and time.monotonic() < deadline:
                with ExitStack() as stack, suppress(ConnectionRefusedError):
                    seen |= {first_answer(stack, port, 10)[1] for _ in range(4 * workers)}
            assert len(seen) == workers
            yield parent, port
        finally:
            os.killpg(parent.pid, signal.SIGKILL)
            parent.wait()
            assert parent.stdout is not None
            parent.stdout.close()


def first_answer(stack: ExitStack, port: int, patience_s: float = PATIENCE_S) -> tuple[float, int]:
    """Connect, and ask once: ms until the answer, who gave it. The connection stays until the end of `stack`."""
    began = time.perf_counter()
    connection = stack.enter_context(socket.create_connection(("127.0.0.1", port), patience_s))
    connection.sendall(b"?")
    pid = int.from_bytes(connection.recv(ANSWER_BYTES), "big")
    return (time.perf_counter() - began) * 1e3, pid


def timed(port: int) -> list[float]:
    """ms of connections that come one at a time and go at once."""
    found = []
    for _ in range(TIMED):
        with ExitStack() as stack:
            found.append(first_answer(stack, port)[0])
        time.sleep(0.0005)
    return found


def spread(port: int, workers: int, *, at_once: bool) -> float:
    """How far the worker that is farthest from its share of the connections that stay is off it, in per cent."""
    with ExitStack() as stack:
        if at_once:
            waiting = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(STAY)]
            for connection in waiting:
                connection.sendall(b"?")
            pids = [int.from_bytes(connection.recv(ANSWER_BYTES), "big") for connection in waiting]
        else:
            pids = [first_answer(stack, port)[1] for _ in range(STAY)]
    share = STAY / workers
    counts = Counter(pids)
    return max(abs(number - share) for number in [*counts.values(), *[0] * (workers - len(counts))]) / share * 100


def served(port: int) -> str:
    """How many of some new connections get an answer."""
    answered, slowest = 0, 0.0
    for _ in range(TRIED):
        with ExitStack() as stack:
            try:
                took, pid = first_answer(stack, port, 1.0)
            except OSError:
                continue
            answered += pid != 0
            slowest = max(slowest, took)
    return f"{answered} of {TRIED}, {slowest:.3g} ms at most"


def killed(port: int, pids: set[int]) -> str:
    """How many connections that come when no worker lives are answered when the next ones do."""
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    time.sleep(RESTART_S / 3)
    answered = 0
    with ExitStack() as stack:
        waiting = []
        for _ in range(TRIED):
            try:
                connection = stack.enter_context(socket.create_connection(("127.0.0.1", port), PATIENCE_S))
                connection.sendall(b"?")
                waiting.append(connection)
            except OSError:
                continue
        for connection in waiting:
            try:
                answered += len(connection.recv(ANSWER_BYTES)) == ANSWER_BYTES
            except OSError:
                continue
    return f"{answered} of {TRIED}"


def row(design: str, workers: int) -> list[object]:
    with proxy(design, workers) as (parent, port):
        times = timed(port)
        in_turn = median(spread(port, workers, at_once=False) for _ in range(5))
        at_once = median(spread(port, workers, at_once=True) for _ in range(5))
        with ExitStack() as stack:
            pids = {first_answer(stack, port)[1] for _ in range(10 * workers)}
        os.kill(parent.pid, signal.SIGSTOP)
        without_parent = served(port)
        os.kill(parent.pid, signal.SIGCONT)
        stopped = min(pids)
        os.kill(stopped, signal.SIGSTOP)
        without_one = served(port)
        os.kill(stopped, signal.SIGCONT)
        figures = [median(times), quantiles(times, n=100)[98], in_turn, at_once]
        return [design, workers, *figures, without_parent, without_one, killed(port, pids)]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.listening", description=__doc__)
    kept.option(parser)
    parser.add_argument("--page", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--parent", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--worker", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.parent:
        return asyncio.run(Parent(options.parent[0], int(options.parent[1]), options.page).run())
    if options.worker:
        design, descriptor, number, workers = options.worker
        member = Member(StatePage(options.page), int(number), int(workers))
        return uvloop.run(worker(design, int(descriptor), member))
    of = kept.origin()
    rows = [row(design, workers) for workers in (2, 4) for design in DESIGNS]
    for cells in rows:
        print(*cells, sep="\t")
    if options.keep:
        kept.keep(
            "single/listening",
            kept.table("", HEAD, rows, text=1),
            command="python -m benchmarks.listening --keep",
            of=of,
        )


if __name__ == "__main__":
    main()
