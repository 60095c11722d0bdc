"""A TCP proxy in front of a metastore that writes down what it is asked.

Job: `RecordingProxy(host, port)` passes bytes both ways and keeps the method and the decoded arguments of each request,
in order, whichever connection it came on. It can hold requests back until it is told to let them go.
Invariants: a request is written down before the metastore has it.
"""

from __future__ import annotations

import socket
import threading
from dataclasses import dataclass
from typing import Any

from hms_cache_proxy.wire import spec
from hms_cache_proxy.wire.message import NEED_MORE, parse_header
from hms_cache_proxy.wire.scan import end_of_struct
from tests.testbed.closing import Closing


@dataclass(frozen=True)
class Asked:
    """One request: its method and its arguments, strings as bytes."""

    method: str
    args: Any


class RecordingProxy(Closing):
    """Use as a context manager, or close()."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._lock = threading.Lock()
        self._asked: list[Asked] = []
        self._open: list[socket.socket] = []
        self._flowing = threading.Event()
        self._flowing.set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.uri = f"thrift://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def take(self, *methods: str) -> list[Asked]:
        """What was asked since the last time, of these methods (all but the proxy's own probe, if none is named)."""
        with self._lock:
            asked, self._asked = self._asked, []
        return [one for one in asked if (one.method in methods if methods else one.method != "getVersion")]

    def hold(self) -> None:
        """Requests are written down, and wait here."""
        self._flowing.clear()

    def let_go(self) -> None:
        """They pass again."""
        self._flowing.set()

    def close(self) -> None:
        """End all connections."""
        self._flowing.set()
        self._listener.close()
        for end in self._open:
            end.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # closed
            try:
                server = socket.create_connection(self._target)
            except OSError:  # the metastore has ended: its client sees that, too
                client.close()
                continue
            for end in (client, server):  # what is small does not wait until what went before is acknowledged
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._open += (client, server)
            threading.Thread(target=self._up, args=(client, server), daemon=True).start()
            threading.Thread(target=self._down, args=(server, client), daemon=True).start()

    def _up(self, client: socket.socket, server: socket.socket) -> None:
        pending = b""
        try:
            while data := client.recv(1 << 16):
                pending = self._note(pending + data)
                self._flowing.wait()
                server.sendall(data)
        except OSError:
            pass  # either end is gone: so is the other, below
        finally:
            server.close()

    def _down(self, server: socket.socket, client: socket.socket) -> None:
        try:
            while data := server.recv(1 << 16):
                client.sendall(data)
        except OSError:
            pass  # as above
        finally:
            client.close()

    def _note(self, data: bytes) -> bytes:
        """Write down every request that is whole; gives the rest."""
        while data:
            header = parse_header(data)
            if header is NEED_MORE:
                return data
            end = end_of_struct(data, header.body)
            if end is NEED_MORE:
                return data
            method = header.name.decode()
            args, _ = spec.decode(spec.args(method), data, header.body)
            with self._lock:
                self._asked.append(Asked(method, args))
            data = data[end:]
        return data
