"""Delegation tokens of the metastores, with which the proxy acts for its users.

Job: one token for each metastore and user, got over the proxy's own login, which must be a superuser's there
(hadoop.proxyuser), kept in memory, and replaced after an hour. Clients that need the same token at the same time wait
for one call. Must not know: how a login with a token is done, clients. Owner: one worker's loop; the calls are made in
threads.
Invariants: a token is only used for the user that it was asked for. One that has been refused is forgotten.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from time import monotonic
from typing import Final, NamedTuple

import structlog

from hms_cache_proxy.errors import UpstreamError, WireError
from hms_cache_proxy.security.tokens import Token, parse_token
from hms_cache_proxy.security.towards import Towards
from hms_cache_proxy.upstream.endpoints import Endpoint, UserRefused
from hms_cache_proxy.upstream.sasl_client import threads
from hms_cache_proxy.upstream.service import Declared, ServiceConnection

REPLACED_AFTER_S: Final = 3600.0  # a tenth of the shortest life that a token is likely to have
MOST: Final = 10_000  # tokens of one worker; the least recently used is forgotten first

log = structlog.get_logger()

_Key = tuple[str, str]


class _Kept(NamedTuple):
    token: Token
    until_s: float


class Delegation:
    """`secured`: how the proxy logs in as itself. `timeout_s`: of each wait for a metastore."""

    def __init__(self, secured: Towards, timeout_s: float, *, most: int = MOST) -> None:
        assert secured.logins is not None, "the proxy logs in to the metastores"
        self._secured = secured
        self._renewer = secured.logins.principal
        self._timeout_s = timeout_s
        self._most = most
        self._kept: OrderedDict[_Key, _Kept] = OrderedDict()
        self._asking: dict[_Key, asyncio.Task[Token]] = {}

    async def token(self, endpoint: Endpoint, user: str) -> Token:
        """The user's token there. UserRefused if the metastore does not give one for this user, UpstreamError if it
        cannot be asked."""
        key = endpoint.uri, user
        kept = self._kept.get(key)
        if kept is not None and monotonic() < kept.until_s:
            self._kept.move_to_end(key)
            return kept.token
        asking = self._asking.get(key)
        if asking is None:
            asking = asyncio.get_running_loop().create_task(self._ask(endpoint, user), name="ask for a token")
            self._asking[key] = asking
            asking.add_done_callback(lambda done: self._asked(key, done))
        return await asyncio.shield(asking)  # a client that goes away does not take it from the others

    def forget(self, endpoint: Endpoint, user: str, token: Token) -> None:
        """The metastore has refused it."""
        kept = self._kept.get((endpoint.uri, user))
        if kept is not None and kept.token == token:
            del self._kept[endpoint.uri, user]

    def _asked(self, key: _Key, done: asyncio.Task[Token]) -> None:
        del self._asking[key]
        if not done.cancelled():
            done.exception()  # those who wait for it have it, too

    async def _ask(self, endpoint: Endpoint, user: str) -> Token:
        key = endpoint.uri, user
        old = self._kept.pop(key, None)
        token = await asyncio.get_running_loop().run_in_executor(
            threads(), self._fetch, endpoint, user, None if old is None else old.token
        )
        self._kept[key] = _Kept(token, monotonic() + REPLACED_AFTER_S)
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)
        return token

    def _fetch(self, endpoint: Endpoint, user: str, old: Token | None) -> Token:
        """In a thread. The old one is cancelled, so that the metastore need not keep it for days."""
        where, secured = (endpoint.host, endpoint.port), self._secured
        with ServiceConnection(*where, timeout_s=self._timeout_s, secured=secured) as connection:
            given = {"token_owner": user.encode(), "renewer_kerberos_principal_name": self._renewer.encode()}
            try:
                token = parse_token(connection.call("get_delegation_token", **given).decode())
            except Declared as error:
                raise UserRefused(f"acting for {user}: {error}", uri=endpoint.uri) from error
            except (AttributeError, UnicodeDecodeError, WireError) as error:
                raise UpstreamError(f"acting for {user}: not a token", uri=endpoint.uri) from error
            if old is not None:
                self._cancel(connection, user, old)
        log.info("token of a metastore", user=user, uri=endpoint.uri)
        return token

    @staticmethod
    def _cancel(connection: ServiceConnection, user: str, old: Token) -> None:
        try:
            connection.call("cancel_delegation_token", token_str_form=old.text().encode())
        except UpstreamError as error:
            log.info("an old token of a metastore stays there until it expires", user=user, error=str(error))
