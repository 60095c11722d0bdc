"""Calls that a login settles, without connections: what is answered, refused, and passed on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from thrift.Thrift import TApplicationException

from hms_cache_proxy.config.tokens import TokensSection
from hms_cache_proxy.methods.decision import ClientCall, ClientSession, Decision, Forward, Serve
from hms_cache_proxy.methods.effects import SessionCall
from hms_cache_proxy.methods.logins import TOKEN_STORE, LoginDispatcher
from hms_cache_proxy.methods.relay import RelayDispatcher
from hms_cache_proxy.methods.token_calls import TOKENS
from hms_cache_proxy.security.cancelled_tokens import CancelledTokens
from hms_cache_proxy.security.mechanism import Admitted
from hms_cache_proxy.security.principals import ShortNames
from hms_cache_proxy.security.token_issuer import Caller, NotAllowed, TokenIssuer
from hms_cache_proxy.security.token_keys import followed_keys
from hms_cache_proxy.upstream.replay import user_named
from hms_cache_proxy.wire.message import Header, parse_header
from tests.testbed.raw import decode_reply, encode_call

ALL = ("token_store", "foreign_cancellations")


def issuer_in(directory: Path, **more: Any) -> TokenIssuer:
    """With a key of its own."""
    names = ShortNames(["DEFAULT"], "LAB.TEST", key="x")
    keys = followed_keys("", directory / "token-key")
    return TokenIssuer(TokensSection(), keys, CancelledTokens(directory / "cancelled"), names, **more)


def decided(dispatcher: LoginDispatcher, how: str, method: str, *args: str) -> Decision:
    """For a client that has logged in so; empty: for one that has not."""
    message = encode_call(method, *args, seqid=3)
    header = parse_header(message)
    assert isinstance(header, Header)
    session = ClientSession("10.0.0.1:7", login=Admitted("alice", how) if how else None)
    return dispatcher.decide(ClientCall.of(session, header, message, 0))


def refusal(decision: Decision) -> str:
    """The words of an exception."""
    assert isinstance(decision, Serve) and (decision.outcome, decision.reason) == ("error", "blocked")
    assert isinstance(decision.chunks, bytes)
    result = decode_reply(decision.chunks)[2]
    return str(result.message if isinstance(result, TApplicationException) else (result.o1 or result.o2).message)


@pytest.mark.parametrize("upstream", [False, True])
@pytest.mark.parametrize("groups, complete", [(5, True), (300, True), (300, False)])
def test_what_a_connection_keeps_of_a_user_is_bounded(groups: int, complete: bool, upstream: bool) -> None:
    """Each of thousands of idle connections would keep as much as the longest request has."""
    message = encode_call("set_ugi", "alice", ["g" * 1000] * groups)
    header, session = parse_header(message), ClientSession()
    assert isinstance(header, Header)
    call = ClientCall.of(session, header, message, 0, complete=complete)
    decision = LoginDispatcher(RelayDispatcher("no_store"), upstream=upstream, block=ALL).decide(call)
    kept = session.identity
    if isinstance(decision, Forward):
        assert isinstance(decision.pending, SessionCall)
        kept = decision.pending.identity
    if kept is None:  # it was refused
        assert upstream and not complete and "too long" in str(decision.chunks)  # type: ignore[union-attr]
    else:
        assert user_named(kept) == "alice" and session.relay_for_good is (groups == 300)
        assert kept == message[header.body :] if groups == 5 else len(kept) < 100


@pytest.mark.parametrize("method", sorted(name.decode() for name in TOKEN_STORE))
@pytest.mark.parametrize("upstream", [False, True])
def test_calls_of_the_token_store(method: str, upstream: bool) -> None:
    for how in ("", "GSSAPI", "jwt"):
        blocking = LoginDispatcher(RelayDispatcher("no_store"), upstream=upstream, block=ALL)
        decision = decided(blocking, how, method)
        if how or upstream:
            assert f"refuses {method}: " in refusal(decision) and "security.block" in refusal(decision)
        else:
            assert isinstance(decision, Forward)
        open_one = LoginDispatcher(RelayDispatcher("no_store"), upstream=upstream, block=())
        assert isinstance(decided(open_one, how, method), Forward)


@pytest.mark.parametrize("method", sorted(name.decode() for name in TOKENS))
def test_calls_for_tokens(method: str, tmp_path: Path) -> None:
    """Never those of a metastore that the proxy logs in to."""
    for upstream in (False, True):
        dispatcher = LoginDispatcher(
            RelayDispatcher("no_store"), upstream=upstream, block=(), tokens=issuer_in(tmp_path)
        )
        assert isinstance(decided(dispatcher, "GSSAPI", method, "alice"), Serve)
        for how in ("", "jwt", "header"):
            decision = decided(dispatcher, how, method, "alice")
            if upstream:
                assert "only to clients that have logged in with Kerberos" in refusal(decision)
            else:
                assert isinstance(decision, Forward)


def test_cancelling_tokens_of_others(tmp_path: Path) -> None:
    alice, bob = Caller("alice", "::1", False), Caller("bob", "::1", False)
    for name, any_may in (("closed", False), ("open", True)):
        (tmp_path / name).mkdir()
        issuer = issuer_in(tmp_path / name, any_may_cancel=any_may)
        text, _ = issuer.issue(alice, "alice", "nobody")
        if not any_may:
            with pytest.raises(NotAllowed, match="bob is not authorized to cancel the token of alice"):
                issuer.cancel(bob, text)
        issuer.cancel(bob if any_may else alice, text)
        with pytest.raises(NotAllowed, match="has been cancelled"):
            issuer.cancel(alice, text)
