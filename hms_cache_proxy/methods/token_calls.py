"""Answers calls for delegation tokens (get, renew and cancel) of clients that have logged in.

Job: pass arguments to security/token_issuer.py, and its answer or refusal (a MetaException, as in Hive) to the client.
Each call is one line of the log: what, whose token, who asked, from where. No line has a secret. Must not know: who may
do what, how a token is made. Owner: one per worker, on its loop.
"""

from __future__ import annotations

from typing import Final

import structlog

from hms_cache_proxy.errors import WireError
from hms_cache_proxy.security.digest_md5 import MECHANISM
from hms_cache_proxy.security.token_issuer import Caller, TokenIssuer
from hms_cache_proxy.security.tokens import Identifier
from hms_cache_proxy.wire import spec
from hms_cache_proxy.wire.message import MessageType, message_header
from hms_cache_proxy.wire.spec import Struct

from .decision import ClientCall, Serve
from .refusal import refusal

GET, RENEW, CANCEL = b"get_delegation_token", b"renew_delegation_token", b"cancel_delegation_token"
TOKENS: Final = frozenset((GET, RENEW, CANCEL))
BY_KERBEROS: Final = frozenset(("GSSAPI", MECHANISM))
LOGIN, BLOCKED = "login", "blocked"  # reasons

log = structlog.get_logger()


class TokenCalls:
    """Answers them with this issuer's tokens."""

    def __init__(self, issuer: TokenIssuer) -> None:
        self._issuer = issuer

    def answer(self, call: ClientCall) -> Serve:
        """The whole answer to a client that has logged in with SASL."""
        session, header = call.session, call.header
        assert session.login is not None
        method, login = header.name.decode(), session.login
        caller = Caller(login.user, session.peer.rpartition(":")[0], login.how == MECHANISM)
        try:
            if not call.complete:
                raise WireError("the call is too long")
            args, _ = spec.decode(spec.args(method), call.message, header.body)
            token, success = self._do(header.name, caller, args)
        except WireError as error:
            log.warning("token call refused", method=method, user=login.user, peer=session.peer, why=str(error))
            return Serve(refusal(method, header, str(error)), method, "error", BLOCKED)
        log.info(
            "token call",
            method=method,
            user=login.user,
            owner=token.owner,
            renewer=token.renewer,
            token=token.number,
            peer=session.peer,
        )
        result = spec.result(method)() if success is None else spec.result(method)(success=success)
        reply = message_header(header.name, MessageType.REPLY, header.seqid) + spec.encode(result)
        return Serve(reply, method, "relay", LOGIN)

    def _do(self, method: bytes, caller: Caller, args: Struct) -> tuple[Identifier, bytes | int | None]:
        """Which token it is about, and the result."""
        if method == GET:
            text, made = self._issuer.issue(
                caller, _text(args.token_owner), _text(args.renewer_kerberos_principal_name)
            )
            return made, text.encode()
        text = _text(args.token_str_form)
        if method == RENEW:
            found = self._issuer.renew(caller, text)
            return found, found.latest_ms
        return self._issuer.cancel(caller, text), None


def _text(given: bytes | None) -> str:
    try:
        return (given or b"").decode()
    except UnicodeDecodeError as error:
        raise WireError("a text that is not UTF-8") from error
