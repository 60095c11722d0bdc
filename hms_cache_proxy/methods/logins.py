"""Handles calls about users that a login has decided already: they are answered here or refused, and never sent to a
metastore.

Job: be a dispatcher in front of another. After a login, or with an HTTP request, the user is known. So set_ugi changes
nothing, and is answered as Hive answers it over SASL and HTTP: with the given groups and the given name. The same
applies to every client if the proxy itself logs in to the metastores. If a client that has logged in with SASL asks for
delegation tokens, it gets tokens of the proxy (token_calls.py). If another client does, and the proxy logs in to the
metastores, the call is refused: the answer would let the client act as the proxy, or as anybody the proxy may act for.
Clients whose logins are passed through get the metastore's tokens, but must not cancel tokens of others: the owner is
known from the token that was used for the login (`security.block`). Calls of the token store are refused to clients
that have logged in, and wherever the proxy logs in to the metastores, because a metastore shows its keys to everybody
who has logged in.
Must not know: how a login is done, sockets. Owner: one per worker, on its loop.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import Final

from hms_cache_proxy.errors import WireError
from hms_cache_proxy.security.token_issuer import TokenIssuer
from hms_cache_proxy.security.tokens import parse_identifier, parse_token
from hms_cache_proxy.wire import spec
from hms_cache_proxy.wire.message import ApplicationError, Header, MessageType, exception_message, message_header

from .decision import ClientCall, Decision, Dispatcher, Serve
from .effects import named_user
from .refusal import refusal
from .token_calls import BLOCKED, BY_KERBEROS, CANCEL, LOGIN, TOKENS, TokenCalls

SET_UGI: Final = b"set_ugi"
TOKEN_STORE: Final = frozenset(
    b"add_token remove_token get_token get_all_token_identifiers add_master_key update_master_key remove_master_key"
    b" get_master_keys".split()
)
_NOT_FOR_THIS_USER: Final = "it issues delegation tokens only to clients that have logged in with Kerberos"
_NOT_ITS_OWN: Final = (
    "it is not known to be the client's own token, and the metastore would cancel anybody's (security.block ="
    " foreign_cancellations)"
)
_BLOCKED_BY: Final = "it would show or change the keys and tokens of all users (security.block = token_store)"


class LoginDispatcher:
    """Decides as `inner` does about all other calls. `upstream`: the proxy logs in to the metastores. `block`: the
    setting; `tokens`: the proxy's own. `passed`: clients log in at the metastores, through the proxy."""

    def __init__(
        self,
        inner: Dispatcher,
        *,
        upstream: bool,
        block: Collection[str],
        tokens: TokenIssuer | None = None,
        passed: bool = False,
    ) -> None:
        self._inner = inner
        self._upstream = upstream
        self._passed = passed
        self._only_own = passed and "foreign_cancellations" in block
        self._token_calls = None if tokens is None else TokenCalls(tokens)
        self._token_store = TOKEN_STORE if "token_store" in block else frozenset[bytes]()
        self.hot = inner.hot
        self.hot_wait = inner.hot_wait
        self.moved = inner.moved
        self.looked_ns = inner.looked_ns

    def decide(self, call: ClientCall) -> Decision:
        """A Serve for what is settled here."""
        session, header = call.session, call.header
        if header.name == SET_UGI and (session.login is not None or self._upstream):
            return self._set_ugi(call)
        if header.name in TOKENS and self._token_calls is not None:
            if session.login is not None and session.login.how in BY_KERBEROS:
                return self._token_calls.answer(call)
        if header.name in TOKENS and self._upstream and not self._passed:
            return _refusal(header, _NOT_FOR_THIS_USER)
        if header.name == CANCEL and self._only_own and not _is_own(call):
            return _refusal(header, _NOT_ITS_OWN)
        if header.name in self._token_store and (session.login is not None or self._upstream):
            return _refusal(header, _BLOCKED_BY)
        return self._inner.decide(call)

    def _set_ugi(self, call: ClientCall) -> Serve:
        session, header, message = call.session, call.header, call.message
        refuse = partial(_exception, header, ApplicationError.PROTOCOL_ERROR)
        if not call.complete:
            return refuse("set_ugi is too long")
        try:
            args, _ = spec.decode(spec.args("set_ugi"), message, header.body)
        except WireError as error:
            return refuse(str(error))
        if session.login is None:
            session.identity = named_user(call)  # for the access log: the metastore is not told
        names = [*(args.group_names or []), args.user_name or b""]
        body = spec.encode(spec.result("set_ugi")(success=names))
        return Serve(message_header(header.name, MessageType.REPLY, header.seqid) + body, "set_ugi", "relay", LOGIN)


def _is_own(call: ClientCall) -> bool:
    """Does this cancel a token of the user who has logged in?"""
    login = call.session.login
    try:
        message = call.message if call.complete else b""
        args, _ = spec.decode(spec.args("cancel_delegation_token"), message, call.header.body)
        owner = parse_identifier(parse_token((args.token_str_form or b"").decode()).identifier).owner
    except (UnicodeDecodeError, WireError):
        return False
    return login is not None and bool(owner) and owner == login.user


def _refusal(header: Header, why: str) -> Serve:
    method = header.name.decode()
    text = f"hms-cache-proxy refuses {method}: {why}"
    return Serve(refusal(method, header, text), method, "error", BLOCKED)


def _exception(header: Header, kind: ApplicationError, text: str) -> Serve:
    reply = exception_message(header.name, header.seqid, kind, text)
    return Serve(reply, header.name.decode(), "error", BLOCKED)
