"""Run the load generator against a server, and count the CPU time and memory of the processes that answer.

Must not know: what the servers are, which calls are sent.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from struct import pack

SOURCE = Path(__file__).with_name("loadgen") / "loadgen.c"
TICKS = os.sysconf("SC_CLK_TCK")


class NoFigure(Exception):
    """The server did not answer as it should: the reason stands in the report instead of a figure."""


@dataclass(frozen=True, slots=True)
class Server:
    """A server under test; `processes` are the ids whose CPU time its answers cost (its database's too); `outcomes`
    tells how many calls it has answered so far and how, where it counts them.
    """

    label: str
    port: int
    processes: tuple[int, ...] = ()
    outcomes: Callable[[], dict[str, int]] | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """`cpu_us`: server CPU per call; `generator_us`: the load generator's; `counted`: what the server itself
    counts of its answers meanwhile, by outcome (empty of servers that do not count).
    """

    rps: float
    p50_ms: float
    p99_ms: float
    max_ms: float
    cpu_us: float
    generator_us: float
    reply_bytes: float
    replies: int
    counted: dict[str, int] = field(default_factory=dict)


def build_load_generator() -> Path:
    """Compile it (any C compiler)."""
    target = Path(tempfile.mkdtemp(prefix="loadgen-")) / "loadgen"
    subprocess.run(["cc", "-O2", "-o", str(target), str(SOURCE)], check=True, timeout=120)
    return target


def family(pid: int) -> list[int]:
    """The process and its descendants, those of all threads: a JVM starts programs in threads of its own. Those that
    have ended are among them until their parent has waited for them."""
    found = [pid]
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(FileNotFoundError, ProcessLookupError):  # the thread has just ended
            for child in children.read_text().split():
                found += family(int(child))
    return found


def cpu_seconds(processes: tuple[int, ...]) -> float:
    """User and system time so far, of the processes and their living children; ended ones count with parents."""
    ticks = 0
    for root in processes:
        for pid in family(root):
            try:
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            except FileNotFoundError:
                continue
            ticks += sum(int(field) for field in fields[11:15])
    return ticks / TICKS


def private_bytes(pid: int) -> int:
    """Anonymous memory of one process; the mapped cache, which the kernel can drop, is not in it. None where it has
    ended, and its parent has not waited for it."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    for line in lines:
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    assert any(re.match(r"State:\s+[ZX]", line) for line in lines), "this kernel tells no RssAnon"
    return 0


@dataclass(frozen=True, slots=True)
class Load:
    """`connections` send for `seconds`, after `warm` calls of the same requests, and until there are `least` replies;
    `seconds` 0: exactly until then. `rate`: calls a second, 0: as many as are answered.
    """

    connections: int
    seconds: float
    warm: int = 100
    least: int = 0
    rate: float = 0


def measure(generator: Path, server: Server, messages: Iterable[bytes], load: Load) -> Result:
    """These requests in turn for some time. Raises NoFigure when a connection fails or a reply is an exception."""
    warm = ["--warm-calls", str(load.warm)] if load.warm else ["--warmup", "0"]
    options = ["--connections", str(load.connections), *warm, "--duration", str(load.seconds)]
    options += ["--min-replies", str(load.least)]
    if load.rate:
        options += ["--rate", str(load.rate)]
    return _run(generator, server, "--cycle", batch(messages), options)


def measure_batch(generator: Path, server: Server, messages: Iterable[bytes]) -> Result:
    """Each message once, on one connection. Raises NoFigure likewise."""
    return _run(generator, server, "--batch", batch(messages), [])


def batch(messages: Iterable[bytes]) -> bytes:
    """Each message after its length."""
    return b"".join(pack(">I", len(one)) + one for one in messages)


@contextmanager
def counting(server: Server) -> Iterator[dict[str, int]]:
    """What the server counts until the end is in the dictionary then."""
    found: dict[str, int] = {}
    before = server.outcomes() if server.outcomes is not None else {}
    yield found
    if server.outcomes is not None:
        grown = {how: count - before.get(how, 0) for how, count in server.outcomes().items()}
        found.update({how: count for how, count in grown.items() if count})


def _run(generator: Path, server: Server, kind: str, content: bytes, options: list[str]) -> Result:
    with tempfile.NamedTemporaryFile(suffix=".call") as file:
        file.write(content)
        file.flush()
        before = cpu_seconds(server.processes)
        finished = subprocess.run(
            [str(generator), "--port", str(server.port), kind, file.name, *options],
            capture_output=True,
            text=True,
            timeout=600,
        )
        spent_s = cpu_seconds(server.processes) - before
    if finished.returncode:
        raise NoFigure(finished.stderr.strip()[:200])
    answer = json.loads(finished.stdout)
    if answer["exceptions"]:
        raise NoFigure("it answers with an exception")
    if not answer["replies"]:
        raise NoFigure(f"no reply within {answer['seconds']:.0f} s")
    return Result(
        rps=answer["rps"],
        p50_ms=answer["p50_ms"],
        p99_ms=answer["p99_ms"],
        max_ms=answer["max_ms"],
        cpu_us=1e6 * spent_s / answer["all_replies"],
        generator_us=1e6 * answer["loadgen_cpu_s"] / answer["replies"],
        reply_bytes=answer["reply_bytes"],
        replies=answer["replies"],
    )


def middle(results: list[Result]) -> Result:
    """Of several runs the one in the middle by calls a second: what disturbs one of them does not count."""
    return sorted(results, key=lambda result: result.rps)[len(results) // 2]
