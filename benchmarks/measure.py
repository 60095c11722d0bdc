"""Run the load generator against a server and count the CPU time of the processes that answer."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).with_name("loadgen") / "loadgen.c"
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Server:
    """A server under test; `processes` are the ids whose CPU time its answers cost (its database's too)."""

    label: str
    port: int
    processes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Result:
    """`cpu_us`: server CPU per call; None where it was not counted."""

    rps: float
    mean_ms: float
    p50_ms: float
    p99_ms: float
    cpu_us: float | None
    reply_bytes: float


def build_load_generator() -> Path:
    """Compile it (any C compiler)."""
    target = Path(tempfile.mkdtemp(prefix="loadgen-")) / "loadgen"
    subprocess.run(["cc", "-O2", "-o", str(target), str(SOURCE)], check=True, timeout=120)
    return target


def _family(pid: int) -> list[int]:
    found = [pid]
    children = Path(f"/proc/{pid}/task/{pid}/children")
    if children.exists():
        for child in children.read_text().split():
            found += _family(int(child))
    return found


def cpu_seconds(processes: tuple[int, ...]) -> float:
    """User and system time so far, of the processes and their living children; ended ones count with parents."""
    ticks = 0
    for root in processes:
        for pid in _family(root):
            try:
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            except FileNotFoundError:
                continue
            ticks += sum(int(field) for field in fields[11:15])
    return ticks / TICKS


def measure(
    generator: Path,
    server: Server,
    message: bytes,
    *,
    connections: int,
    seconds: float,
    warmup_s: float = 1.0,
    rate: float = 0,
) -> Result:
    """One run. Raises CalledProcessError when a connection fails."""
    with tempfile.NamedTemporaryFile(suffix=".call") as request:
        request.write(message)
        request.flush()
        command = [str(generator), "--port", str(server.port), "--request", request.name]
        command += ["--connections", str(connections), "--warmup", str(warmup_s), "--duration", str(seconds)]
        if rate:
            command += ["--rate", str(rate)]
        before = cpu_seconds(server.processes)
        finished = subprocess.run(command, check=True, capture_output=True, text=True, timeout=600)
        spent_s = cpu_seconds(server.processes) - before
    answer = json.loads(finished.stdout)
    if answer["exceptions"]:
        raise AssertionError(f"{server.label} answered with exceptions: {answer}")
    calls = answer["rps"] * (seconds + warmup_s)  # the warm-up is CPU time too
    return Result(
        rps=answer["rps"],
        mean_ms=answer["mean_ms"],
        p50_ms=answer["p50_ms"],
        p99_ms=answer["p99_ms"],
        cpu_us=1e6 * spent_s / calls if server.processes and calls else None,
        reply_bytes=answer["reply_bytes"],
    )
