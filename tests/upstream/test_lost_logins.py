"""A metastore that closes the connection when it has accepted the login: there is none, and another may be tried."""

from __future__ import annotations

import socket
import threading
import time
from typing import cast

import pytest
import uvloop

from hms_cache_proxy.errors import UpstreamError
from hms_cache_proxy.security.mechanism import UNPROTECTED, OwnLogin, Step
from hms_cache_proxy.security.service_login import ServiceLogins
from hms_cache_proxy.upstream.endpoints import CallUser, Endpoint
from hms_cache_proxy.upstream.link import LinkOwner, connect
from tests.server.logged_in import COMPLETE, OK, START, SaslConnection, message
from tests.testbed.processes import SOON_S

NOBODY = cast(LinkOwner, None)  # is told of nothing
LONG_ENOUGH_S = 0.5  # for the loop to hear of the end


class Slow:
    """A mechanism whose last step takes a while, as one that asks a KDC may."""

    mechanism = "GSSAPI"
    protection = UNPROTECTED

    def step(self, challenge: bytes) -> Step:
        return Step(b"response", bool(challenge))

    def finish(self, payload: bytes) -> None:
        time.sleep(LONG_ENOUGH_S)


class Logins:
    """Logs in with it."""

    def login(self, host: str) -> OwnLogin:
        return Slow()


def test_a_metastore_that_closes_after_the_login() -> None:
    def serve() -> None:
        taken, _ = listener.accept()
        with SaslConnection.opened(taken) as accepted:
            accepted.send_bytes(message(OK, b"challenge") + message(COMPLETE))
            accepted.answer(START)
            accepted.answer(OK)

    async def connected() -> None:
        await connect(endpoint, NOBODY, SOON_S, CallUser(None))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        endpoint = Endpoint("127.0.0.1", listener.getsockname()[1], logins=cast(ServiceLogins, Logins()))
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            with pytest.raises(UpstreamError, match="the metastore closed the connection during the login"):
                uvloop.run(connected())
        finally:
            thread.join()
