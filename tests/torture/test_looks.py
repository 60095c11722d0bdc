"""What the machine looks at beside answers: connections, readers' slots, what goes on while a fault lasts."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import lmdb
import pytest

from tests.torture import afterwards
from tests.torture.budget import LOOKS, children, connections, most_lasting
from tests.torture.faults import every
from tests.torture.faults.kinds import GoesOn
from tests.torture.pulse import Call, Signs
from tests.torture.run import JUDGED, Outcome, Struck, going_on


def test_most_that_lasts() -> None:
    assert most_lasting([]) == most_lasting([9] * (LOOKS - 1)) == 0
    assert most_lasting([1, 9, 9, 2, 5, 5, 6, 1]) == 5


def test_connections_to_a_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert connections(port) == 0
        with socket.create_connection(("127.0.0.1", port)), socket.create_connection(("127.0.0.1", port)):
            assert connections(port) == 2


def test_children_of_a_process() -> None:
    child = os.posix_spawn(sys.executable, [sys.executable, "-c", ""], os.environ)
    assert child in children(os.getpid())
    os.waitpid(child, 0)
    assert child not in children(os.getpid())


HOLD = "import lmdb, sys; held = lmdb.open(sys.argv[1]); print(flush=True); sys.stdin.read()"


def test_readers_of_ended_processes_have_slots(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None and holder.stdout.readline()
        if not (reader := os.fork()):
            with lmdb.open(str(tmp_path), readonly=True) as environment, environment.begin():
                os._exit(0)
        os.waitpid(reader, 0)
        assert afterwards.readers(tmp_path) == {reader}
        holder.communicate()


@pytest.mark.parametrize(("answered", "complains"), [(0, True), (3, True), (5, False), (JUDGED, False)])
def test_what_goes_on_while_a_fault_lasts(answered: int, complains: bool) -> None:
    assert every(["full_disk"])["full_disk"].goes_on is GoesOn.WRITES
    struck = [Struck("full_disk", 10.0 * n, 5.0, 1.0, 1.0, [Signs({}, {})]) for n in range(JUDGED)]
    pulse = SimpleNamespace(greetings=[], writes=[Call(10.0 * n + 2, 0.1) for n in range(answered)])
    outcome = Outcome(struck=struck)
    going_on(outcome, [pulse], 0.0)  # type: ignore[list-item]  # all that is asked of one
    assert bool(outcome.slow) is complains
