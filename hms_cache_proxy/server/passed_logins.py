"""Passes logins of clients through to a metastore, which decides as if the proxy were not there.

Job: `PassedLogins.let_in` connects to a metastore, passes the negotiation on (passed_login.py), and makes a Client of
both connections. From then on the client is served like any other; its relayed calls go over that connection, which the
metastore takes for the client's own. Must not know: mechanisms, requests.
Invariants: a client has one connection to one metastore from its login to its end. This connection is never released,
replaced or given to another client. When it is lost, the client is closed as soon as it needs it.
Owner: the worker's loop.
"""

from __future__ import annotations

from typing import Any

from hms_cache_proxy.errors import UpstreamError, WireError
from hms_cache_proxy.security.mechanism import UNPROTECTED, Admitted
from hms_cache_proxy.security.passed_login import PassedLogin
from hms_cache_proxy.server.audit_log import transport_name
from hms_cache_proxy.server.connection import ClientConnection
from hms_cache_proxy.server.driver import Client
from hms_cache_proxy.server.exchange import Exchange
from hms_cache_proxy.server.hub import Hub
from hms_cache_proxy.server.login_reports import LoginReports
from hms_cache_proxy.server.upstream_states import Idle
from hms_cache_proxy.upstream.endpoints import Endpoint
from hms_cache_proxy.upstream.link import UpstreamLink, first_reached
from hms_cache_proxy.upstream.sasl_client import REPLY_BYTES, begin_login, threads
from hms_cache_proxy.upstream.sasl_stream import SaslStream
from hms_cache_proxy.wire.sasl import Layers, Status, message


class PassedConnection(ClientConnection):
    """The logic of a client whose connection to a metastore is open, after its own login there."""

    def __init__(self, *, at: Endpoint, login: Admitted, **given: Any) -> None:
        self._at = at
        super().__init__(login=login, **given)
        if not login.user:
            self.session.identity = None

    def _new_exchange(self, user: str | None) -> Exchange:
        exchange = super()._new_exchange(user)
        exchange.state = Idle(self._at)
        exchange.calls.problem = "the client has to log in again: its connection to the metastore is lost"
        return exchange


class PassedLogins:
    """One per worker."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._reports = LoginReports(hub.metrics, hub.logs.audit)

    def stream(self, peer: str) -> SaslStream:
        """For a new connection."""
        return SaslStream("client", REPLY_BYTES, threads())  # no frame has to be whole: there is no layer

    async def let_in(self, stream: SaslStream, peer: str, *, within_tls: bool) -> None:
        """Pass the negotiation on. Then it is a Client, or its connection is closing."""
        login, transport = PassedLogin(), transport_name("sasl", over_tls=within_tls)
        try:
            await self._open(stream, login, peer, transport)
        except (OSError, UpstreamError, WireError) as error:
            self._reports.refused(peer, transport, login.mechanism, error)
            if not isinstance(error, OSError):
                stream.send(message(Status.BAD, str(error).encode()))
            stream.close()

    async def _open(self, stream: SaslStream, login: PassedLogin, peer: str, transport: str) -> None:
        hub = self._hub
        try:
            endpoint, metastore = await first_reached(hub.endpoints, hub.allowed.connect_s, begin_login)
        except UpstreamError as error:
            raise UpstreamError(f"no metastore can be reached: {error}") from error
        client = Client(hub, lambda **given: PassedConnection(at=endpoint, login=login.admitted, **given))
        if not hub.places.take(endpoint, client):
            hub.leave_place(endpoint, client)
            metastore.abort()
            limit = f"upstream_options.max_connections = {hub.allowed.upstream_connections}"
            raise UpstreamError(f"all connections are taken ({limit})")
        try:
            await _negotiate(stream, metastore, login)
            metastore.check_open()
            stream.check_open()
        except BaseException:  # the time is over, too
            hub.leave_place(endpoint, client)
            metastore.abort()
            if not login.clients_turn:
                hub.endpoints.suspect(endpoint)  # it hangs, or has closed; the next client may need another
            raise
        self._reports.done(peer, transport, login.admitted, Layers.AUTH, {"passed_to": endpoint.uri})
        link = UpstreamLink(client)
        client.has_logged_in_at(endpoint, link)
        of_client, of_metastore = login.rest()
        metastore.open(link, UNPROTECTED, of_metastore)
        stream.open(client, UNPROTECTED, of_client)


async def _negotiate(client: SaslStream, metastore: SaslStream, login: PassedLogin) -> None:
    """In turn, until the metastore lets the client in. OSError or WireError if it does not."""
    while not login.done:
        if login.clients_turn:
            metastore.send(login.from_client(await client.more()))
        else:
            client.send(login.from_metastore(await metastore.more()))
