"""A metastore over HTTP that closes its connection with each answer: what a client has sent meanwhile is not lost."""

from __future__ import annotations

import asyncio
from pathlib import Path

from hms_cache_proxy.security.metastore_security import MetastoreSecurity
from hms_cache_proxy.server.driver import Client
from hms_cache_proxy.server.hub import Hub
from hms_cache_proxy.upstream.endpoints import Endpoints
from hms_cache_proxy.wire.message import MessageType, message_header
from tests.methods.warm import opened
from tests.server.hubs import hub_of
from tests.server.scripted import ScriptedMetastore
from tests.testbed.processes import SOON_S
from tests.testbed.raw import encode_call
from tests.upstream.test_http_client import answer, names, serving

WRITES = [encode_call("drop_table", "sales", "orders", True, seqid=seqid) for seqid in (1, 2, 3)]
REPLIES = [message_header(b"drop_table", MessageType.REPLY, seqid) + b"\0" for seqid in (1, 2, 3)]


async def answered(hub: Hub) -> bytes:
    """All that a client gets that sends everything at once."""
    server = await asyncio.get_running_loop().create_server(lambda: Client(hub), "127.0.0.1", 0)
    async with server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(b"".join(WRITES))
        writer.write_eof()
        try:
            return await asyncio.wait_for(reader.read(), SOON_S)
        finally:
            writer.close()


def test_writes_that_came_together(scripted: ScriptedMetastore, tmp_path: Path) -> None:
    """With a length, and with the end of the connection as the end of the answer."""
    said = [answer(one, "200 OK", "Connection: close") for one in REPLIES]
    said[1] = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + REPLIES[1]
    with opened(tmp_path) as bench, serving(*said) as server:
        hub = hub_of(bench, scripted)
        towards = MetastoreSecurity(http=names("service", upstream_user="proxy"))
        hub.endpoints = Endpoints([("127.0.0.1", server.port)], towards)
        assert asyncio.run(answered(hub)) == b"".join(REPLIES)
        assert [len(heads) for heads in server.heads] == [1, 1, 1]
