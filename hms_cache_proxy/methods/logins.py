"""Calls about users that a login settles: answered here, or refused, and never sent to a metastore.

Job: a Decider in front of another. After a client's login its user is known, as is that of an HTTP request, so set_ugi
changes nothing, and is answered as Hive answers it over SASL and HTTP: with the given groups and the given name. The
same holds for every client where the proxy itself logs in to the metastores, which then take all calls to come from the
proxy's principal. There, calls for delegation tokens are refused, too: their answers would let a client act as the
proxy, or as whomever the proxy may act for; and those of the token store, because a metastore shows its keys to whoever
has logged in.
Must not know: how a login is done, sockets. Owner: one per worker, on its loop.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from hms_cache_proxy.errors import WireError
from hms_cache_proxy.wire import spec
from hms_cache_proxy.wire.message import ApplicationError, Header, MessageType, exception_message, message_header

from .decision import ClientSession, Decider, Decision, Serve

SET_UGI: Final = b"set_ugi"
TOKENS: Final = frozenset((b"get_delegation_token", b"renew_delegation_token", b"cancel_delegation_token"))
TOKEN_STORE: Final = frozenset(
    b"add_token remove_token get_token get_all_token_identifiers add_master_key update_master_key remove_master_key"
    b" get_master_keys".split()
)
LOGIN, BLOCKED = "login", "blocked"  # reasons
_REFUSAL: Final = (
    "hms-cache-proxy refuses %s: it logs in to the metastore as itself, and the answer would not be for this user only"
)


class LoginDecider:
    """Decides as `inner` does about all other calls. `upstream`: the proxy logs in to the metastores."""

    def __init__(self, inner: Decider, *, upstream: bool) -> None:
        self._inner = inner
        self._upstream = upstream
        self._blocked = TOKENS | TOKEN_STORE if upstream else frozenset[bytes]()
        self.hot = inner.hot
        self.hot_wait = inner.hot_wait
        self.moved = inner.moved
        self.looked_ns = inner.looked_ns

    def decide(
        self,
        session: ClientSession,
        header: Header,
        message: bytes,
        now_ns: int,
        *,
        complete: bool = True,
        patient: bool = False,
    ) -> Decision:
        """A Serve for what is settled here."""
        if header.name == SET_UGI and (session.logged_in or self._upstream):
            return self._set_ugi(session, header, message, complete=complete)
        if header.name in self._blocked:
            return _refusal(header)
        return self._inner.decide(session, header, message, now_ns, complete=complete, patient=patient)

    def _set_ugi(self, session: ClientSession, header: Header, message: bytes, *, complete: bool) -> Serve:
        refuse = partial(_exception, header, ApplicationError.PROTOCOL_ERROR)
        if not complete:
            return refuse("set_ugi is too long")
        try:
            args, _ = spec.decode(spec.args("set_ugi"), message, header.body)
        except WireError as error:
            return refuse(str(error))
        if not session.logged_in:
            session.identity = message[header.body :]  # for the access log: the metastore is not told
        names = [*(args.group_names or []), args.user_name or b""]
        body = spec.encode(spec.result("set_ugi")(success=names))
        return Serve(message_header(header.name, MessageType.REPLY, header.seqid) + body, "set_ugi", "relay", LOGIN)


def _refusal(header: Header) -> Serve:
    """An exception that the method declares, or, where it declares none, of the protocol."""
    method = header.name.decode()
    text = _REFUSAL % method
    declared = next((row.name for row in spec.METHODS[method].result if row.type == "MetaException"), None)
    if declared is None:
        return _exception(header, ApplicationError.INTERNAL_ERROR, text)
    error = spec.struct("MetaException")(message=text.encode())
    body = spec.encode(spec.result(method)(**{declared: error}))
    return Serve(message_header(header.name, MessageType.REPLY, header.seqid) + body, method, "error", BLOCKED)


def _exception(header: Header, kind: ApplicationError, text: str) -> Serve:
    reply = exception_message(header.name, header.seqid, kind, text)
    return Serve(reply, header.name.decode(), "error", BLOCKED)
