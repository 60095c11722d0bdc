"""The load generator finds the end of every reply, however it is cut, and costs less than the servers it measures."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from struct import pack
from typing import Any

import pytest

from benchmarks.measure import build_load_generator
from tests.chance import chance
from tests.testbed.processes import free_port

BARE_SERVER = Path(__file__).parents[2] / "benchmarks" / "bare_server.py"
REQUEST = b"\x80\x01\x00\x01" + pack(">i", 4) + b"call" + pack(">i", 7) + b"\0"


def string(data: bytes) -> bytes:
    return pack(">i", len(data)) + data


def field(kind: int, number: int, value: bytes) -> bytes:
    return pack(">bh", kind, number) + value


EVERY_TYPE = (
    field(2, 1, b"\1")
    + field(3, 2, b"\x7f")
    + field(4, 3, bytes(8))
    + field(6, 4, bytes(2))
    + field(8, 5, bytes(4))
    + field(10, 6, bytes(8))
    + field(11, 7, string(b"text"))
    + field(12, 8, field(11, 1, string(b"")) + b"\0")
    + field(13, 9, pack(">bbi", 11, 15, 2) + 2 * (string(b"key") + pack(">bi", 10, 3) + bytes(24)))
    + field(14, 10, pack(">bi", 3, 4) + b"abcd")
    + field(15, 11, pack(">bi", 12, 2) + 2 * (field(13, 1, pack(">bbi", 8, 2, 1) + bytes(5)) + b"\0"))
    + field(13, 12, pack(">bbi", 0, 0, 0))
    + b"\0"
)


def reply(body: bytes, kind: int = 2) -> bytes:
    return pack(">HBB", 0x8001, 0, kind) + string(b"call") + pack(">i", 7) + body


@pytest.fixture(scope="module")
def generator() -> Path:
    return build_load_generator()


def run(generator: Path, directory: Path, port: int, *options: str) -> dict[str, Any]:
    request = directory / "request.bin"
    request.write_bytes(REQUEST)
    command = [str(generator), "--port", str(port), "--request", str(request), "--warmup", "0.1", *options]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture
def cutting_server() -> Iterator[tuple[int, list[bytes]]]:
    """Answers each request with the next of a list's replies, in pieces of 1 to 9 bytes, each sent by itself."""
    replies: list[bytes] = []
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listener.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        numbers = chance("pieces")
        with connection:
            for at in range(10**9):
                if not connection.recv(65536):
                    return
                left = replies[at % len(replies)]
                while left:
                    size = numbers.randint(1, 9)
                    connection.sendall(left[:size])
                    left = left[size:]

    thread = threading.Thread(target=serve)
    thread.start()
    yield int(listener.getsockname()[1]), replies
    thread.join(10)
    listener.close()


def test_any_cut_and_every_type(generator: Path, tmp_path: Path, cutting_server: tuple[int, list[bytes]]) -> None:
    port, replies = cutting_server
    replies += [reply(EVERY_TYPE), reply(field(11, 0, string(bytes(500))) + b"\0"), reply(b"\0", kind=3)]
    found = run(generator, tmp_path, port, "--connections", "1", "--duration", "0.5", "--scan")
    assert found["replies"] > 30
    assert abs(found["exceptions"] - found["replies"] / 3) <= 1
    assert abs(found["reply_bytes"] - sum(map(len, replies)) / 3) < 20


def test_framed(generator: Path, tmp_path: Path, cutting_server: tuple[int, list[bytes]]) -> None:
    port, replies = cutting_server
    replies.append(string(reply(EVERY_TYPE)))
    found = run(generator, tmp_path, port, "--connections", "1", "--duration", "0.3", "--framed")
    assert found["replies"] > 10
    assert found["reply_bytes"] == len(replies[0])


def test_a_reply_of_15_mb(generator: Path, tmp_path: Path) -> None:
    """It came to no end when the first reply was not of a power of two; now a first reply is parsed in one go."""
    item = field(13, 1, pack(">bbi", 11, 11, 20) + 20 * (string(b"key") + string(bytes(60)))) + b"\0"
    count = 15_000_000 // len(item)
    path, port = tmp_path / "reply.bin", free_port()
    path.write_bytes(reply(field(15, 0, pack(">bi", 12, count) + count * item) + b"\0"))
    server = subprocess.Popen(
        [sys.executable, str(BARE_SERVER), "--port", str(port), "--reply", str(path)], stdout=subprocess.PIPE
    )
    try:
        assert server.stdout is not None
        assert server.stdout.readline() == b"ready\n"
        for options in ([], ["--scan"]):
            found = run(generator, tmp_path, port, "--connections", "2", "--duration", "1", *options)
            assert found["replies"] >= 2, found
            assert found["reply_bytes"] == path.stat().st_size
            assert found["all_replies"] >= found["replies"]
            assert found["loadgen_cpu_s"] / found["replies"] < 0.1  # 3 ms, 7 ms where all is parsed
        slow = run(generator, tmp_path, port, "--connections", "2", "--duration", "0.01", "--min-replies", "1")
        assert slow["all_replies"] >= 2, "the replies in flight at the end count"
    finally:
        server.terminate()
        server.wait(10)
        if server.stdout is not None:
            server.stdout.close()


def test_a_cycle_is_sent_in_turn_by_all_connections(generator: Path, tmp_path: Path) -> None:
    """Each call is another one than the last, whatever connection sends it; warm-up calls come first, uncounted."""
    seen: list[int] = []
    listener = socket.create_server(("127.0.0.1", 0))

    def serve(connection: socket.socket) -> None:
        with connection:
            while request := connection.recv(65536):
                seen.append(request[-2])
                connection.sendall(reply(b"\0"))

    def accept() -> None:
        for _ in range(2):
            threading.Thread(target=serve, args=(listener.accept()[0],)).start()

    threading.Thread(target=accept).start()
    path = tmp_path / "cycle.bin"
    messages = [REQUEST[:-2] + bytes([number]) + b"\0" for number in range(5)]
    path.write_bytes(b"".join(pack(">I", len(one)) + one for one in messages))
    command = [str(generator), "--port", str(listener.getsockname()[1]), "--cycle", str(path), "--connections", "2"]
    command += ["--warm-calls", "7", "--duration", "0", "--min-replies", "20"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    listener.close()
    found = json.loads(done.stdout)
    assert 20 <= found["replies"] <= 21 and 27 <= found["all_replies"] <= 30
    assert abs(max(map(seen.count, range(5))) - min(map(seen.count, range(5)))) <= 1
