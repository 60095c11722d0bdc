"""Children end with their owner, however it ends; start, stop, kill and failure to start are told apart."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.testbed.artifacts import BedError
from tests.testbed.guard import start_ticks
from tests.testbed.processes import SOON_S, Process, ProcessId, free_port, signalled, wait_until

SLEEPER = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)"]
STUBBORN = [
    sys.executable,
    "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);print('up', flush=True); time.sleep(600)",
]
OWNER = textwrap.dedent(
    """
    import sys, time
    from pathlib import Path
    from tests.testbed.processes import Process, guard
    log, directory = Path(sys.argv[1]), Path(sys.argv[2])
    directory.mkdir()
    guard.tell(f"d {directory}")
    child = Process("sleeper", [sys.executable, "-c", "import time; time.sleep(600)"], log)
    child.start()
    print(child.id.pid, child.id.ticks, flush=True)
    if sys.argv[3] == "return":
        sys.exit()
    time.sleep(600)
    """
)


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, None])
def test_children_end_with_their_owner(tmp_path: Path, end: signal.Signals | None) -> None:
    directory = tmp_path / "data"
    how = "return" if end is None else "wait"
    command = [sys.executable, "-c", OWNER, str(tmp_path / "log"), str(directory), how]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # ignored in a background run
    ) as owner:
        assert owner.stdout is not None
        child = ProcessId(*(int(word) for word in owner.stdout.readline().split()))
        if end is not None:
            assert child.alive() and directory.is_dir()
            owner.send_signal(end)
        owner.wait(SOON_S)
    assert child.wait_gone(SOON_S)
    assert wait_until(lambda: not directory.exists())


def test_stop_asks_then_kills(tmp_path: Path) -> None:
    for command, expected in ((SLEEPER, signal.SIGTERM), (STUBBORN, signal.SIGKILL)):
        log = tmp_path / f"{expected.name}.log"
        process = Process("sleeper", command, log)
        process.start()
        process.wait_ready(lambda log=log: log.read_bytes() == b"up\n", SOON_S)  # type: ignore[misc]
        seen = process.id
        process.stop(timeout_s=2)
        assert not seen.alive() and not process.alive()


def test_a_process_restarts_into_the_same_log(tmp_path: Path) -> None:
    process = Process("sleeper", SLEEPER, tmp_path / "log")
    for start in (1, 2):
        process.start()
        process.wait_ready(lambda start=start: process.log.read_bytes() == b"up\n" * start, SOON_S)  # type: ignore[misc]
        assert process.log_tail().count("up") == 1
        process.kill()


def test_failure_to_start_shows_the_log(tmp_path: Path) -> None:
    process = Process("doomed", [sys.executable, "-c", "raise SystemExit('no such database')"], tmp_path / "log")
    process.start()
    with pytest.raises(BedError, match=r"doomed ended while starting:\n(.|\n)*no such database"):
        process.wait_ready(lambda: False, SOON_S)
    process.stop()
    slow = Process("slow", SLEEPER, tmp_path / "slow.log")
    slow.start()
    with pytest.raises(BedError, match="slow not ready after 0 s"):
        slow.wait_ready(lambda: False, 0.1)
    slow.kill()


def test_pause_and_resume(tmp_path: Path) -> None:
    process = Process("sleeper", SLEEPER, tmp_path / "log")
    process.start()

    def state() -> str:
        return Path(f"/proc/{process.id.pid}/stat").read_text().rpartition(")")[2].split()[0]

    process.pause()
    assert wait_until(lambda: state() == "T")
    process.resume()
    assert wait_until(lambda: state() != "T")
    process.stop()


def test_a_reused_process_id_is_not_signalled() -> None:
    stranger = ProcessId(os.getpid(), start_ticks(os.getpid()) - 1)
    assert not stranger.alive()
    stranger.stop(signal.SIGKILL, 1)


def test_free_ports_lie_below_the_outgoing_range() -> None:
    lowest_outgoing = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    found = {free_port() for _ in range(200)}
    assert all(1024 < port < lowest_outgoing for port in found)
    assert len(found) == 200, "none is given twice: a server listens some time after it was given its port"


def test_what_has_ended_meanwhile_gets_no_signal() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as running:
        with subprocess.Popen([sys.executable, "-c", ""]) as ended:
            ended.wait()
        assert signalled([ended.pid, running.pid], signal.SIGSTOP) == [running.pid]
        signalled([running.pid], signal.SIGCONT)
