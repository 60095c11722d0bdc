"""An HTTP proxy before an object store, which refuses requests, holds answers, cuts them short and changes bytes.

Job: pass every request on, or do to it what `choose` says. Must not know: which store it is, whose requests they are.
Invariant: what is passed on is what the client has sent, with its headers, so signatures stay valid.
"""

from __future__ import annotations

import enum
import http.client
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.testbed.closing import Closing

TIMEOUT_S = 120.0
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)  # SO_LINGER with 0 s
_REFUSAL = '<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{}</Code><Message>{}</Message></Error>'
_NOT_PASSED = frozenset(("connection", "content-length", "expect", "keep-alive", "transfer-encoding"))


class Fault(enum.Enum):
    """What happens to a request."""

    SLOW_DOWN = "refused with 503: too many requests"
    BROKEN = "refused with 500"
    RESET = "its connection is reset"
    CUT = "half of the answer's body arrives"
    FLIPPED = "one bit of the answer's body is wrong"
    HELD = "the store has done it, and its answer waits until `release` is set"


_REFUSED = {
    Fault.SLOW_DOWN: (503, "SlowDown", "Please reduce your request rate."),
    Fault.BROKEN: (500, "InternalError", "We encountered an internal error. Please try again."),
}
Choose = Callable[[str, str, int], Fault | None]
"""Method, path with query, and how often this was asked for before."""


def nothing(_method: str, _path: str, _before: int) -> Fault | None:
    """Every request is passed on."""
    return None


class HttpFaults(Closing):
    """`choose` may be replaced at any time; `done` counts what was done; `held` has the paths, without query, of which
    an answer was held."""

    def __init__(self, port: int, choose: Choose = nothing) -> None:
        self.target = port
        self.choose = choose
        self.done: Counter[Fault | None] = Counter()
        self.held: set[str] = set()
        self.release = threading.Event()
        self._asked: Counter[tuple[str, str]] = Counter()
        self._mutex = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.owner = self
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, name="HTTP faults", daemon=True)
        self._thread.start()

    def fault(self, method: str, path: str) -> Fault | None:
        """What is to be done with a request."""
        with self._mutex:
            before = self._asked[method, path]
            self._asked[method, path] += 1
            found = self.choose(method, path, before)
            self.done[found] += 1
            return found

    def hold(self, path: str) -> None:
        """Wait until answers are released."""
        with self._mutex:
            self.held.add(path.partition("?")[0])
        self.release.wait(TIMEOUT_S)

    def close(self) -> None:
        """End it."""
        self.release.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64
    owner: HttpFaults


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def _request(self) -> None:
        body = self._body()
        fault = self.server.owner.fault(self.command, self.path)
        if fault is Fault.RESET:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            self.close_connection = True
        elif fault in _REFUSED:
            status, *words = _REFUSED[fault]
            self._answer(status, [("Content-Type", "application/xml")], _REFUSAL.format(*words).encode(), None)
        else:
            self._pass(body, fault)

    do_DELETE = do_GET = do_HEAD = do_POST = do_PUT = _request

    def _pass(self, body: bytes, fault: Fault | None) -> None:
        target = http.client.HTTPConnection("127.0.0.1", self.server.owner.target, timeout=TIMEOUT_S)
        try:
            target.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() not in ("connection", "expect"):
                    target.putheader(name, value)
            target.endheaders(body or None)
            answer = target.getresponse()
            found = answer.read()
            if fault is Fault.HELD:
                self.server.owner.hold(self.path)
            self._answer(answer.status, answer.getheaders(), found, fault)
        finally:
            target.close()

    def _body(self) -> bytes:
        """As it is on the wire, with the sizes of chunks."""
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        found, size = bytearray(), -1
        while size:
            line = self.rfile.readline()
            size = int(line.partition(b";")[0], 16)
            found += line + self.rfile.read(size + 2)
        return bytes(found)

    def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes, fault: Fault | None) -> None:
        self.send_response_only(status)
        length = str(len(body))
        for name, value in headers:
            if self.command == "HEAD" and name.lower() == "content-length":
                length = value
            if name.lower() not in _NOT_PASSED:
                self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", length)
        self.end_headers()
        if self.command == "HEAD":
            return
        if fault is Fault.FLIPPED and body:
            body = body[: len(body) // 2] + bytes([body[len(body) // 2] ^ 1]) + body[len(body) // 2 + 1 :]
        if fault is Fault.CUT and body:
            body = body[: len(body) // 2]
            self.close_connection = True
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is printed."""
