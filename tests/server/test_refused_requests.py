"""Log lines of HTTP requests that are refused: what a client chooses makes no more of them."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import structlog

from hms_cache_proxy.config.http_transport import HttpTransportSection
from hms_cache_proxy.security.http_users import HttpUsers
from hms_cache_proxy.server.driver import Client
from hms_cache_proxy.server.http_connection import HttpConnection, HttpSide
from hms_cache_proxy.server.hub import Hub
from tests.methods.warm import opened
from tests.server.hubs import hub_of
from tests.server.scripted import ScriptedMetastore
from tests.testbed.processes import SOON_S

ASKED = 20
POST = b"POST /metastore HTTP/1.1\r\nHost: x\r\nx-actor-username: user%d\r\nContent-Length: 0\r\n\r\n"


async def asked(hub: Hub) -> bytes:
    """The answers to requests of many names from an address that is not trusted."""
    users = HttpUsers(HttpTransportSection(authentication="header", trusted_addresses=("10.9.8.7",)), None)
    begin = partial(HttpConnection, side=HttpSide(users.admit, 10**10))
    server = await asyncio.get_running_loop().create_server(lambda: Client(hub, begin), "127.0.0.1", 0)
    async with server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(b"".join(POST % number for number in range(ASKED)))
        writer.write_eof()
        try:
            return await asyncio.wait_for(reader.read(), SOON_S)
        finally:
            writer.close()


def test_each_name_is_no_line_of_its_own(scripted: ScriptedMetastore, tmp_path: Path) -> None:
    with opened(tmp_path) as bench, structlog.testing.capture_logs() as lines:
        assert asyncio.run(asked(hub_of(bench, scripted))).count(b"401 Unauthorized") == ASKED
    refused = [line for line in lines if line["event"] == "login refused"]
    assert 0 < len(refused) < 4, "one a second for an address"
    assert refused[0]["detail"] == "user0"
