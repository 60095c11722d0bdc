"""A TCP proxy that cuts, delays, garbles, goes deaf, forgets connections and refuses, before a metastore or a database.

Job: `FaultProxy(target)` listens on a port of its own and passes bytes both ways until told otherwise.
Must not know: what protocol passes.
Invariants: all sockets belong to one event-loop thread; a method returns when its fault is in force; while
refusing, the port stays bound, not listening, so that no free_port() hands it out.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import os
import socket
import struct
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from tests.testbed.closing import Closing

CHUNK_BYTES = 1 << 16
COMMAND_TIMEOUT_S = 60.0
RESET_ON_CLOSE = struct.pack("ii", 1, 0)  # SO_LINGER with 0 s: close sends RST
T = TypeVar("T")


class Direction(enum.Enum):
    """Which way bytes go."""

    UP = "to the target"
    DOWN = "to the client"


class FaultProxy(Closing):
    """Use as a context manager, or close()."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._delay_s = {Direction.UP: 0.0, Direction.DOWN: 0.0}
        self._cut_after: dict[Direction, int | None] = {Direction.UP: None, Direction.DOWN: None}
        self.bytes_taken = {Direction.UP: 0, Direction.DOWN: 0}  # read from a sender; a fault may hold them back
        self.bytes_passed = {Direction.UP: 0, Direction.DOWN: 0}  # counted before the receiver can see them
        self.accepted = 0  # connections since the start
        self._garbled: Direction | None = None
        self._slamming = False
        self._links: set[_Link] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fault proxy", daemon=True)
        self._thread.start()
        self._serving: set[asyncio.Task[None]] = set()
        self._listener: socket.socket | None = None
        self._reserved: socket.socket | None = None
        self.host, self.port = "127.0.0.1", 0
        self._flowing = {direction: asyncio.Event() for direction in Direction}
        for flowing in self._flowing.values():
            flowing.set()
        self._run(self._listen())

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens."""
        return (self.host, self.port)

    @property
    def open_connections(self) -> int:
        """Connections that pass bytes now."""
        return len(self._links)

    def cut(self) -> None:
        """Reset every open connection on both sides; new ones are welcome."""
        self._run(self._cut())

    def cut_after(self, direction: Direction, size: int) -> None:
        """Reset a connection once it passed `size` more bytes that way: the fault strikes once."""
        self._run(self._set(lambda: self._cut_after.__setitem__(direction, size)))

    def delay(self, seconds: float, direction: Direction | None = None) -> None:
        """Hold every chunk this long before it is passed, one way or both."""
        chosen = list(Direction) if direction is None else [direction]
        self._run(self._set(lambda: self._delay_s.update(dict.fromkeys(chosen, seconds))))

    def stall(self, direction: Direction | None = None) -> None:
        """Go deaf, one way or both: connections stay open and are accepted, no byte passes that way."""
        chosen = list(Direction) if direction is None else [direction]
        self._run(self._set(lambda: [self._flowing[one].clear() for one in chosen]))  # type: ignore[func-returns-value]

    def half_open(self) -> None:
        """Forget every open connection: neither side hears of the other any more, nor of its end; new ones work."""
        self._run(self._set(self._forget))

    def garble(self, direction: Direction) -> None:
        """Pass as many bytes as come that way, but random ones."""
        self._run(self._set(lambda: setattr(self, "_garbled", direction)))

    def slam(self) -> None:
        """Cut all connections; accept new ones, and close them at once."""
        self._run(self._slam())

    def refuse(self) -> None:
        """Cut all connections and refuse new ones."""
        self._run(self._refuse())

    def restore(self) -> None:
        """Undo every fault; what a stall held back is passed on."""
        self._run(self._restore())

    def close(self) -> None:
        """End the proxy and its connections."""
        if self._loop.is_closed():
            return
        self._run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(COMMAND_TIMEOUT_S)

    async def _set(self, change: Any) -> None:
        change()

    async def _listen(self) -> None:
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((self.host, self.port))
        self.port = listener.getsockname()[1]
        listener.setblocking(False)
        listener.listen(100)
        self._listener = listener
        self._loop.add_reader(listener, self._accept)

    def _accept(self) -> None:
        """Not asyncio's server: one that is closed while it accepts leaves that connection open (Python 3.11)."""
        assert self._listener is not None
        with contextlib.suppress(BlockingIOError, ConnectionAbortedError):
            client, _ = self._listener.accept()
            task = self._loop.create_task(self._serve(client))
            self._serving.add(task)
            task.add_done_callback(self._serving.discard)

    async def _serve(self, client: socket.socket) -> None:
        if self._slamming:
            self.accepted += 1
            client.close()
            return
        client.setblocking(False)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # asyncio does this for its own sockets only
        reader, writer = await asyncio.open_connection(sock=client, limit=CHUNK_BYTES)
        link = _Link(self, reader, writer)
        self._links.add(link)
        self.accepted += 1
        try:
            await link.run(self._target)
        finally:
            self._links.discard(link)

    async def _cut(self) -> None:
        links = self._links.copy()
        for link in links:
            link.reset()
        while links & self._links:  # one that comes meanwhile is new
            await asyncio.sleep(0.001)

    def _forget(self) -> None:
        for link in self._links:
            link.forgotten = True

    async def _slam(self) -> None:
        self._slamming = True
        await self._cut()

    async def _refuse(self) -> None:
        if self._listener is None:
            return
        self._loop.remove_reader(self._listener)
        self._listener.close()
        self._listener = None
        self._reserved = socket.socket()
        self._reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._reserved.bind((self.host, self.port))
        while self._serving:  # one that was accepted just now becomes a link in some turns of the loop
            await self._cut()
            await asyncio.sleep(0)

    async def _restore(self) -> None:
        self._delay_s = dict.fromkeys(Direction, 0.0)
        self._cut_after = dict.fromkeys(Direction)
        self._garbled, self._slamming = None, False
        for link in list(self._links):
            if link.forgotten:
                link.reset()
        if self._reserved is not None:
            self._reserved.close()
            self._reserved = None
        if self._listener is None:
            await self._listen()
        for flowing in self._flowing.values():
            flowing.set()

    async def _end(self) -> None:
        await self._refuse()
        assert self._reserved is not None
        self._reserved.close()
        self._reserved = None

    async def hold(self, direction: Direction) -> None:
        """Wait as long as the faults in force say."""
        if self._delay_s[direction]:
            await asyncio.sleep(self._delay_s[direction])
        await self._flowing[direction].wait()

    def let_through(self, direction: Direction, chunk: bytes) -> tuple[bytes, bool]:
        """(bytes to pass, cut afterwards?)"""
        if self._garbled is direction:
            chunk = os.urandom(len(chunk))
        budget = self._cut_after[direction]
        if budget is not None and budget <= len(chunk):
            self._cut_after[direction] = None
            return chunk[:budget], True
        if budget is not None:
            self._cut_after[direction] = budget - len(chunk)
        return chunk, False


class _Link:
    """One client connection and its connection to the target."""

    def __init__(self, proxy: FaultProxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._proxy = proxy
        self._client = (reader, writer)
        self._writers = [writer]
        self._task = asyncio.current_task()
        self.forgotten = False  # swallows what comes

    async def run(self, target: tuple[str, int]) -> None:
        """Pass bytes until both sides have ended or the link is reset."""
        try:
            await self._proxy.hold(Direction.UP)
            reader, writer = await asyncio.open_connection(*target, limit=CHUNK_BYTES)
            self._writers.append(writer)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pump(Direction.UP, self._client[0], writer))
                group.create_task(self._pump(Direction.DOWN, reader, self._client[1]))
        except* (OSError, asyncio.CancelledError):
            self._abort()
        finally:
            for writer in self._writers:
                writer.close()

    def reset(self) -> None:
        """End both connections with a reset."""
        assert self._task is not None
        self._task.cancel()

    def _abort(self) -> None:
        for writer in self._writers:
            with contextlib.suppress(OSError):  # already closed by its peer
                sock = writer.get_extra_info("socket")
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
            writer.transport.abort()

    async def _pump(self, direction: Direction, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while chunk := await source.read(CHUNK_BYTES):
            self._proxy.bytes_taken[direction] += len(chunk)
            await self._proxy.hold(direction)
            if self.forgotten:
                continue
            passed, cut = self._proxy.let_through(direction, chunk)
            self._proxy.bytes_passed[direction] += len(passed)
            sink.write(passed)
            await sink.drain()
            if cut:
                raise ConnectionResetError("cut by the fault proxy")
        await self._proxy.hold(direction)
        if self.forgotten:
            await asyncio.Event().wait()  # until it is reset
        if sink.can_write_eof():
            sink.write_eof()
