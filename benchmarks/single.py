"""What one row of the table cannot tell: questions asked for the first time, what the relay adds, how long a large
reply keeps others waiting, what a slow client costs in memory.

Must not know: how the report judges it.
"""

from __future__ import annotations

import socket
import subprocess
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from benchmarks.measure import Load, Result, Server, counting, measure, measure_batch, private_bytes

RELAY_ROUNDS, RELAY_LEAST = 7, 8
SLOW_READ_BYTES = 64 << 10
SLOW_PAUSE_S = 2.0


def varied(generator: Path, server: Server, messages: Iterable[bytes], *, connections: int = 1) -> Result:
    """Each question another one, once: nothing that was answered before can be given again."""
    with counting(server) as counted:
        if connections == 1:
            result = measure_batch(generator, server, messages)
        else:
            each = list(messages)  # the last reply ends it, while others are on their way: so many are left to them
            load = Load(connections, 0, 0, len(each) - connections)
            result = measure(generator, server, each, load)
    return replace(result, counted=counted)


@dataclass(frozen=True, slots=True)
class Relay:
    """One call on one connection, straight and relayed: medians of rounds in turn."""

    direct_ms: float
    relayed_ms: float

    @property
    def added_ms(self) -> float:
        return self.relayed_ms - self.direct_ms


def relay(generator: Path, direct: Server, relayed: Server, message: bytes, *, seconds: float) -> Relay:
    times: dict[str, list[float]] = {direct.label: [], relayed.label: []}
    for _ in range(RELAY_ROUNDS):
        for server in (direct, relayed):
            result = measure(generator, server, [message], Load(1, seconds, least=RELAY_LEAST))
            times[server.label].append(result.p50_ms)
    return Relay(median(times[direct.label]), median(times[relayed.label]))


def beside_large(generator: Path, server: Server, large: bytes, small: bytes, *, seconds: float) -> Result:
    """A small call, 200 a second, while another connection asks for the large reply again and again."""
    with tempfile.NamedTemporaryFile(suffix=".call") as request:
        request.write(large)
        request.flush()
        command = [str(generator), "--port", str(server.port), "--request", request.name, "--connections", "1"]
        other = subprocess.Popen([*command, "--duration", str(seconds + 2)], stdout=subprocess.DEVNULL)
        try:
            time.sleep(0.5)
            return measure(generator, server, [small], Load(2, seconds, rate=200))
        finally:
            if other.wait(60):
                raise AssertionError("the connection with the large reply failed")


@dataclass(frozen=True, slots=True)
class Slow:
    """A large reply to a client that stops reading: the worker's own memory before, and the most meanwhile."""

    reply_bytes: int
    before_bytes: int
    most_bytes: int


def slow_client(server: Server, large: bytes) -> Slow:
    (worker,) = server.processes
    most = before = private_bytes(worker)
    received = 0
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as client:
        client.sendall(large)
        received += len(client.recv(SLOW_READ_BYTES))
        paused = time.monotonic()
        while time.monotonic() - paused < SLOW_PAUSE_S:
            most = max(most, private_bytes(worker))
            time.sleep(0.02)
        client.settimeout(2)  # its end is not parsed: what comes no more within this time is all
        try:
            while chunk := client.recv(1 << 20):
                received += len(chunk)
                most = max(most, private_bytes(worker))
        except TimeoutError:
            pass
    return Slow(received, before, most)
