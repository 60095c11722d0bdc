"""The yardstick: a uvloop server that answers every chunk it reads with the same bytes.

    python benchmarks/bare_server.py --port 9990 --reply reply.bin [--protocol plain|buffered]

Nothing of the proxy is imported. `--protocol` chooses asyncio.Protocol or asyncio.BufferedProtocol, to compare them.
"""

from __future__ import annotations

import argparse
import asyncio
import socket
from pathlib import Path
from typing import cast

import uvloop

BUFFER_BYTES = 65536


class Plain(asyncio.Protocol):
    """Answers through data_received."""

    reply = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._write = cast(asyncio.Transport, transport).write  # uvloop has classes of its own

    def data_received(self, data: bytes) -> None:
        self._write(self.reply)


class Buffered(asyncio.BufferedProtocol):
    """Answers through get_buffer and buffer_updated; takes the bytes out, as a server that looks at them must."""

    reply = b""

    def __init__(self) -> None:
        self._buffer = bytearray(BUFFER_BYTES)
        self._view = memoryview(self._buffer)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._write = cast(asyncio.Transport, transport).write  # uvloop has classes of its own

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._view

    def buffer_updated(self, nbytes: int) -> None:
        bytes(self._view[:nbytes])
        self._write(self.reply)


async def serve(host: str, port: int, factory: type[Plain] | type[Buffered]) -> None:
    """Listen until killed."""
    listener = socket.create_server((host, port), reuse_port=True, backlog=1024)
    server = await asyncio.get_running_loop().create_server(factory, sock=listener)
    print("ready", flush=True)
    await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--reply", type=Path, required=True, help="file with the bytes of the reply")
    parser.add_argument("--protocol", choices=["plain", "buffered"], default="plain")
    arguments = parser.parse_args()
    factory = Plain if arguments.protocol == "plain" else Buffered
    factory.reply = arguments.reply.read_bytes()
    uvloop.run(serve(arguments.host, arguments.port, factory))


if __name__ == "__main__":
    main()
