"""A metastore that lets the proxy in and closes at once, before the proxy has looked at its last words."""

from __future__ import annotations

import asyncio
import threading
from base64 import b64encode
from functools import partial
from typing import cast

import pytest
import uvloop

from hms_cache_proxy.errors import UpstreamError
from hms_cache_proxy.security.digest_md5 import ClientLogin, ServerLogin
from hms_cache_proxy.security.service_login import ServiceLogins
from hms_cache_proxy.upstream.endpoints import CallUser, Endpoint
from hms_cache_proxy.upstream.link import LinkOwner, connect
from hms_cache_proxy.wire.message import NEED_MORE
from hms_cache_proxy.wire.sasl import Layers, Negotiation
from tests.testbed.processes import SOON_S

NAME, PASSWORD = b64encode(b"identifier"), b64encode(b"password")
SETTLE_S = 0.3  # in which the loop has noticed that the metastore has closed
NOBODY = cast(LinkOwner, None)  # is told of nothing


class LateLogin(ClientLogin):
    """Its last step takes until the metastore has closed."""

    closed: threading.Event

    def finish(self, payload: bytes) -> None:
        assert self.closed.wait(SOON_S)
        super().finish(payload)


class LateLogins:
    """The logins of one metastore."""

    def __init__(self) -> None:
        self.closed = threading.Event()

    def login(self, host: str) -> LateLogin:
        made = LateLogin(NAME, PASSWORD, Layers.AUTH)
        made.closed = self.closed
        return made


async def let_in(closed: asyncio.Event, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """The metastore's side of a login, and its end."""
    negotiation, login = Negotiation(), ServerLogin(lambda name: PASSWORD, Layers.AUTH)
    while not negotiation.done:
        response = negotiation.next()
        if response is NEED_MORE:
            data = await reader.read(1 << 16)
            assert data, "the proxy goes on"
            negotiation.add(data)
            continue
        step = login.step(response)
        writer.write(negotiation.complete(step.payload) if step.done else negotiation.challenge(step.payload))
    writer.close()
    closed.set()


def test_it_is_a_metastore_that_has_closed() -> None:
    logins = LateLogins()

    async def connected() -> None:
        closed = asyncio.Event()
        server = await asyncio.start_server(partial(let_in, closed), "127.0.0.1", 0)
        async with server:
            host, port = server.sockets[0].getsockname()
            endpoint = Endpoint(host, port, logins=cast(ServiceLogins, logins))
            connecting = asyncio.create_task(connect(endpoint, NOBODY, SOON_S, CallUser(None)))
            await asyncio.wait_for(closed.wait(), SOON_S)
            await asyncio.sleep(SETTLE_S)
            logins.closed.set()
            with pytest.raises(UpstreamError, match="closed the connection after the login"):
                await connecting

    uvloop.run(connected())
