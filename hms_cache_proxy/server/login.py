"""Logins of clients with SASL: the negotiation with one client, and its name from then on.

Job: `Logins.let_in` negotiates on a new SaslStream, and makes a Client for the user that logs in. `watch` closes a
client whose login is no longer valid: its token has expired or was cancelled, or a metastore is found to ignore users.
Must not know: requests, what a mechanism does (mechanisms.py). Owner: the worker's loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

from hms_cache_proxy.budget import Budget
from hms_cache_proxy.errors import LimitError, WireError
from hms_cache_proxy.rate_limited_log import RateLimitedLog
from hms_cache_proxy.security.mechanism import Admitted, IncomingLogin, LoginRefused
from hms_cache_proxy.server.audit_log import transport_name
from hms_cache_proxy.server.driver import Client
from hms_cache_proxy.server.hub import Hub
from hms_cache_proxy.server.login_reports import LoginReports
from hms_cache_proxy.server.mechanisms import Entered, Mechanism
from hms_cache_proxy.server.set_ugi_check import SetUgiCheck
from hms_cache_proxy.upstream.sasl_stream import SaslStream
from hms_cache_proxy.wire.message import NEED_MORE
from hms_cache_proxy.wire.sasl import Negotiation

AT_ONCE: Final = 4  # long frames that are unwrapped
WATCH_INTERVAL_S: Final = 1.0  # a login holds no longer, and its connection goes on, for no longer
_WATCHED_AT_ONCE: Final = 200  # in one turn of the loop


class Logins:
    """`serve` makes the Client of one who has logged in. `limit_bytes`: of a wrapped frame; `memory`: for
    all of them. `heeding`: whether the metastores heed users."""

    def __init__(
        self,
        mechanisms: Sequence[Mechanism],
        serve: Callable[[Admitted], Client],
        hub: Hub,
        limit_bytes: int,
        memory: Budget | None = None,
        heeding: SetUgiCheck | None = None,
    ) -> None:
        self._heeding = heeding
        self._mechanisms = {mechanism.name: mechanism for mechanism in mechanisms}
        self._serve = serve
        self._metrics = hub.metrics
        self._limit_bytes = limit_bytes
        self._memory = memory
        self._say = RateLimitedLog().warn
        self._threads = ThreadPoolExecutor(AT_ONCE, "frames")
        self._reports = LoginReports(hub.metrics, hub.logs.audit)
        self._for_a_time: dict[Client, Callable[[], str]] = {}  # why its login is over

    def stream(self, peer: str) -> SaslStream:
        """For a new connection."""
        return SaslStream("client", self._limit_bytes, self._threads, partial(self._broken, peer), self._memory)

    async def let_in(self, stream: SaslStream, peer: str, *, within_tls: bool) -> None:
        """Negotiate. Then it is a Client, or its connection is closing."""
        negotiation, transport = Negotiation(), transport_name("sasl", over_tls=within_tls)
        try:
            login, who = await self._negotiate(stream, negotiation, within_tls=within_tls)
            stream.check_open()
        except (OSError, WireError) as error:
            self._reports.refused(peer, transport, negotiation.mechanism, error)
            if isinstance(error, WireError):
                stream.send(negotiation.refuse(str(error)))
            stream.close()
            return
        protection, admitted = login.protection, Admitted(who.user, negotiation.mechanism)
        self._reports.done(peer, transport, admitted, protection.layer, who.details)
        client = self._serve(admitted)
        if who.why_over is not None or self._heeding is not None:
            self._for_a_time[client] = partial(self._why_over, who.why_over)
        stream.open(client, protection, negotiation.rest())

    async def watch(self) -> None:
        """Close the clients whose logins hold no longer; runs until it is cancelled."""
        while True:
            await asyncio.sleep(WATCH_INTERVAL_S)
            for number, (client, why_over) in enumerate(list(self._for_a_time.items())):
                if number % _WATCHED_AT_ONCE == _WATCHED_AT_ONCE - 1:
                    await asyncio.sleep(0)
                self._look_at(client, why_over)

    def _look_at(self, client: Client, why_over: Callable[[], str]) -> None:
        why = why_over()
        if client.lost or why:
            del self._for_a_time[client]
        if why and not client.lost:
            client.end_login(why)

    def _why_over(self, why_over: Callable[[], str] | None) -> str:
        """Why a client is not served any more; empty: it is."""
        if self._heeding is not None and self._heeding.ignoring:
            return self._heeding.ignoring
        return "" if why_over is None else why_over()

    async def _negotiate(
        self, stream: SaslStream, negotiation: Negotiation, *, within_tls: bool
    ) -> tuple[IncomingLogin, Entered]:
        """The login that has succeeded, and whose it is. LoginRefused or WireError if it is not let in."""
        loop = asyncio.get_running_loop()
        mechanism, login = None, None
        while True:
            response = negotiation.next()
            if response is NEED_MORE:
                negotiation.add(await stream.more())
                continue
            if mechanism is None or login is None:
                mechanism = self._chosen(negotiation.mechanism, within_tls=within_tls)
                login = mechanism.begin()
            step = await loop.run_in_executor(mechanism.threads, login.step, response)
            if not step.done:
                stream.send(negotiation.challenge(step.payload))
                continue
            who = mechanism.entered(login.principal)
            if why := self._why_over(None):
                raise LoginRefused(why)
            stream.send(negotiation.complete(step.payload))
            return login, who

    def _chosen(self, name: str, *, within_tls: bool) -> Mechanism:
        """The mechanism that a client wants."""
        mechanism, text = self._mechanisms.get(name), f"Unsupported mechanism type {name}"
        if mechanism is None:
            raise LoginRefused(text)
        if mechanism.only_within_tls and not within_tls:
            raise LoginRefused(text, detail=f"{text}: it is accepted within TLS only")
        return mechanism

    def _broken(self, peer: str, error: WireError) -> None:
        """A client that has logged in sends what is not a frame as agreed."""
        why = "wire"
        if isinstance(error, LimitError):
            why = "limit"
            self._metrics.limit_broken("memory_bytes" if error.limit == "memory_bytes" else "max_message_bytes")
        self._say("client closed", why + peer.rpartition(":")[0], why=why, detail=str(error), peer=peer)
