"""A connection for which the system has no more threads: it is closed, and the metastore goes on."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest

from hms_cache_proxy.embedded.server import STACK_BYTES, ThriftServer
from tests.embedded.within import service_in
from tests.methods.oracle import parsed, request
from tests.testbed.raw import RawConnection

TOO_LARGE = 1 << 50
"""Bytes of a stack for which no address space is left: the system refuses a thread, as at a limit of processes."""


def version(port: int) -> bytes:
    with RawConnection("127.0.0.1", port, timeout_s=30) as connection:
        found: bytes = parsed("getVersion", connection.call(request("getVersion", {}))).value.success
    return found


def test_it_is_closed_and_the_next_one_is_served(tmp_path: Path) -> None:
    with service_in(tmp_path) as service, socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        server = ThriftServer(service, listener)
        serving = threading.Thread(target=server.serve)
        serving.start()
        try:
            assert version(port) == b"4.2.0"
            threading.stack_size(TOO_LARGE)
            with pytest.raises(ConnectionError):
                version(port)
            threading.stack_size(STACK_BYTES)
            assert version(port) == b"4.2.0"
        finally:
            threading.stack_size(0)
            ended = server.stop(timeout_s=30)
            serving.join()
        assert ended
