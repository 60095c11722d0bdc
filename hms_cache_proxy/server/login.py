"""Logins of clients with SASL: the negotiation with one client, and what it is called from then on.

Job: `Logins.let_in` negotiates on a SaslStream that has just begun, and makes the client's Client with its user. Each
login, and each that is refused, is one line of the log: who, from where, how, why not; no secret is in it. Must not
know: requests. Steps of the mechanism run in threads, as they take milliseconds and lock a file (the replay cache).
Owner: the worker's loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

import structlog

from hms_cache_proxy.errors import LimitError, WireError
from hms_cache_proxy.metrics import WorkerMetrics
from hms_cache_proxy.security.kerberos import Login
from hms_cache_proxy.security.kerberos_settings import Acceptance
from hms_cache_proxy.security.mechanism import LoginRefused
from hms_cache_proxy.security.principals import parse_principal
from hms_cache_proxy.server.sparing import SparingLog
from hms_cache_proxy.upstream.sasl_stream import SaslStream
from hms_cache_proxy.wire.message import NEED_MORE
from hms_cache_proxy.wire.sasl import Negotiation, named_layers

AT_ONCE: Final = 4  # steps of logins, and long frames that are unwrapped
MECHANISM: Final = "GSSAPI"

log = structlog.get_logger()


class Logins:
    """`serve` makes the protocol of a client that is called so. `limit_bytes`: of a wrapped frame."""

    def __init__(
        self,
        acceptance: Acceptance,
        serve: Callable[[str], asyncio.Protocol],
        metrics: WorkerMetrics,
        limit_bytes: int,
    ) -> None:
        self._acceptance = acceptance
        self._serve = serve
        self._metrics = metrics
        self._limit_bytes = limit_bytes
        self._say = SparingLog().say
        self._threads = ThreadPoolExecutor(AT_ONCE, "kerberos-clients")

    def stream(self, peer: str) -> SaslStream:
        """For a new connection."""
        return SaslStream(self._limit_bytes, self._threads, partial(self._broken, peer))

    async def let_in(self, stream: SaslStream, peer: str) -> None:
        """Negotiate. Then it is a Client, or its connection is closing."""
        negotiation, login = Negotiation(), self._acceptance.keytab.value.login()
        try:
            user = await self._negotiate(stream, negotiation, login)
        except (OSError, WireError) as error:
            self._metrics.handshake("sasl", "failed")
            why = error.detail if isinstance(error, LoginRefused) else str(error)
            log.warning("login refused", mechanism=negotiation.mechanism or None, peer=peer, why=why)
            if isinstance(error, WireError):
                stream.send(negotiation.refuse(str(error)))
            stream.close()
            return
        protection = login.protection
        self._metrics.handshake("sasl", "done")
        kind = named_layers(protection.layer)
        log.info("login", mechanism=MECHANISM, principal=login.principal, user=user, protection=kind, peer=peer)
        stream.open(self._serve(user), protection, negotiation.rest())

    async def _negotiate(self, stream: SaslStream, negotiation: Negotiation, login: Login) -> str:
        """The client's user. LoginRefused or WireError if it is not let in."""
        loop = asyncio.get_running_loop()
        while True:
            response = negotiation.next()
            if response is NEED_MORE:
                negotiation.add(await stream.more())
                continue
            if negotiation.mechanism != MECHANISM:
                raise LoginRefused(f"Unsupported mechanism type {negotiation.mechanism}")
            step = await loop.run_in_executor(self._threads, login.step, response)
            if not step.done:
                stream.send(negotiation.challenge(step.payload))
                continue
            user = self._user(login.principal)
            stream.send(negotiation.complete(step.payload))
            return user

    def _broken(self, peer: str, error: WireError) -> None:
        """A client that has logged in sends what is not a frame as agreed."""
        why, key = ("limit", "max_message_bytes") if isinstance(error, LimitError) else ("wire", "")
        if key:
            self._metrics.limit_broken(key)
        self._say("client closed", why + peer.rpartition(":")[0], why=why, detail=str(error), peer=peer)

    def _user(self, principal: str) -> str:
        try:
            user = self._acceptance.names.of(parse_principal(principal))
        except ValueError:
            user = None
        if user is None:
            raise LoginRefused(
                "No user has this principal's name", detail=f"no rule of kerberos.auth_to_local applies to {principal}"
            )
        return user
