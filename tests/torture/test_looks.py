"""What the machine looks at beside answers: connections, readers' slots, what goes on while a fault lasts."""

from __future__ import annotations

import itertools
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import lmdb
import pytest

from tests.testbed.processes import SOON_S
from tests.torture import afterwards
from tests.torture.budget import LOOKS, children, connections, most_lasting
from tests.torture.faults import every
from tests.torture.faults.kinds import GoesOn
from tests.torture.gate import Gate
from tests.torture.pulse import Call, Pulse, Signs
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


def test_a_recovery_lasts_until_the_cache_has_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the time that a flood of events takes would be counted for the fault that strikes next."""
    hits, cursors = itertools.count(1), iter([None, 6, 7])
    line = 'hms_proxy_requests_total{method="get_schema",outcome="hit",reason=""}'
    proxy = SimpleNamespace(get=lambda path: (200, f"{line} {next(hits)}"))
    side = SimpleNamespace(proxy=proxy, cursor=lambda: next(cursors))
    monkeypatch.setattr(Pulse, "_newest_event", lambda _: 7)
    pulse = Pulse(SimpleNamespace(sides=[side]), 0, Gate())  # type: ignore[arg-type]  # all that is asked of one
    began_s = time.monotonic()
    pulse.reads.append(Call(began_s + 0.1, 0.1))
    pulse.writes.append(Call(began_s + 0.1, 0.1))
    signs = pulse.recovered(began_s, SOON_S)
    assert signs.slowest_s is not None and signs.seconds.keys() == {"read", "write", "hit", "followed"}
    assert next(cursors, "all looked at") == "all looked at"
