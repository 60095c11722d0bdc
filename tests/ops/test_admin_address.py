"""The admin address: what it says to anything that has not the token."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from hms_cache_proxy.config import Config
from hms_cache_proxy.config.sections import AdminSection
from hms_cache_proxy.status.http import HttpServer

FLUSH = b"POST /admin/flush HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: %b\r\n\r\n"


async def answer(authorization: bytes) -> bytes:
    """To a flush; nothing is asked of what knows the proxy."""
    nobody: Any = None
    http, admin = (socket.create_server(("127.0.0.1", 0)) for _ in range(2))
    async with HttpServer(Config(admin=AdminSection(token="t")), nobody, http=[http], admin=[admin]):
        reader, writer = await asyncio.open_connection(*admin.getsockname())
        writer.write(FLUSH % authorization)
        try:
            return await reader.read()
        finally:
            writer.close()


@pytest.mark.parametrize("authorization", [b"", b"Bearer", b"Bearer x", b"Bearer \xff", b"Bearer t\xc3\xbc"], ids=repr)
def test_another_token(authorization: bytes) -> None:
    assert asyncio.run(answer(authorization)).startswith(b"HTTP/1.1 401 ")
