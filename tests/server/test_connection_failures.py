"""Playbooks: metastores that are away, die, are silent or lack a method, and calls that must not be sent twice."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from hms_cache_proxy.server.client_states import HotPathUse
from hms_cache_proxy.server.commands import (
    Close,
    CloseUpstream,
    Observe,
    OpenUpstream,
    ReadingUpstream,
    Send,
    SendUpstream,
    UpstreamTrouble,
    Why,
)
from hms_cache_proxy.upstream.endpoints import Endpoint
from tests.server.playbook import (
    READ,
    RELAY,
    REPLY,
    SECOND,
    Playbook,
    exception,
    exception_in,
    framed,
    kinds,
    over,
    reply_to,
    sent,
)
from tests.testbed.raw import encode_call


def test_no_upstream_at_all() -> None:
    book = Playbook()
    first = book.received(READ)[0]
    assert isinstance(first, OpenUpstream) and first.endpoint.host == "one"
    commands = book.core.upstream_refused("refused", book.now)
    assert kinds(commands) == [UpstreamTrouble, OpenUpstream]
    commands = book.core.upstream_refused("refused", book.now)
    assert b"no metastore can be reached: thrift://one:1: refused; thrift://two:2: refused" in exception_in(commands)
    assert commands[-1] == over("get_all_databases", "error", "no_upstream", len(sent(commands)))
    assert book.dispatcher.hooks == [("failed", False)]
    assert book.core.mode == HotPathUse.HOT


def test_a_write_whose_connection_dies() -> None:
    book = Playbook()
    book.relaying()
    commands = book.core.upstream_lost("reset", book.now)
    assert kinds(commands) == [UpstreamTrouble, CloseUpstream, Send, Observe]
    assert exception_in(commands)
    assert book.dispatcher.hooks == [("sending",), ("failed", True)]
    assert OpenUpstream in kinds(book.received(READ))


def test_a_reply_with_which_the_connection_closes() -> None:
    """The next request is sent over another one: it would be lost, and a write is not sent twice."""
    book = Playbook()
    book.relaying(READ + READ)
    commands = book.core.upstream_received(REPLY, book.now, closing=True)
    assert kinds(commands) == [CloseUpstream, Send, Observe, OpenUpstream]
    assert book.opened() == [SendUpstream(READ)]
    assert sent(book.upstream(REPLY)) == REPLY and book.core.upstream_idle


def test_a_read_is_sent_again_once() -> None:
    book = Playbook()
    book.dispatcher.decision = replace(RELAY, retry=True)
    book.relaying()
    assert kinds(book.core.upstream_lost("reset", book.now)) == [UpstreamTrouble, CloseUpstream, OpenUpstream]
    assert book.opened() == [SendUpstream(READ)]
    assert exception_in(book.core.upstream_lost("reset", book.now))
    assert book.dispatcher.hooks == [("sending",), ("sending",), ("failed", True)]


def test_a_read_goes_to_the_other_metastore_where_the_first_closes() -> None:
    book = Playbook()
    book.dispatcher.decision = replace(RELAY, retry=True)
    book.relaying()
    (opens,) = [c for c in book.core.upstream_lost("closed", book.now, orderly=True) if isinstance(c, OpenUpstream)]
    assert opens.endpoint.host == "two"


def _noted(suspected: list[str], endpoint: Endpoint) -> None:
    suspected.append(endpoint.host)


def test_a_call_that_waits_leaves_its_metastore_only_if_that_is_sick_and_another_is_not() -> None:
    for retry in (True, False):
        book = Playbook()
        suspected: list[str] = []
        book.endpoints.suspect = partial(_noted, suspected)  # type: ignore[method-assign]
        book.dispatcher.decision = replace(RELAY, retry=retry)
        book.relaying()
        one, two = book.endpoints.all
        book.now += 2 * SECOND
        assert (book.core.expire(book.now), suspected) == ([], ["one"])
        book.endpoints.refused(two, "away")
        book.endpoints.refused(one, "no answer to a probe")
        assert book.core.expire(book.now) == []
        book.endpoints.answered(two)
        commands = book.core.expire(book.now)
        assert kinds(commands) == ([UpstreamTrouble, CloseUpstream, OpenUpstream] if retry else [])


def test_a_new_call_does_not_go_to_a_sick_metastore() -> None:
    book = Playbook()
    book.relaying()
    book.upstream(REPLY)
    book.endpoints.refused(book.endpoints.all[0], "no answer to a probe")
    close, opens = book.received(READ)
    assert isinstance(close, CloseUpstream) and isinstance(opens, OpenUpstream) and opens.endpoint.host == "two"


def test_a_read_of_which_a_byte_was_seen_is_not_sent_again() -> None:
    book = Playbook()
    book.dispatcher.decision = replace(RELAY, retry=True)
    book.relaying()
    book.upstream(REPLY[:1])
    assert exception_in(book.core.upstream_lost("reset", book.now))


def test_a_reply_cut_in_the_middle_closes_the_client() -> None:
    book = Playbook()
    book.relaying()
    book.upstream(reply_to(READ, size=1000)[:500])
    commands = book.core.upstream_lost("reset", book.now)
    close = commands[-1]
    assert isinstance(close, Close) and close.why is Why.UPSTREAM
    assert sent(commands) == b""
    assert book.dispatcher.hooks == [("sending",), ("began",), ("failed", True)]
    assert book.core.closed


def test_an_idle_upstream_connection_that_ends_is_nobodys_trouble() -> None:
    book = Playbook()
    book.relaying()
    book.upstream(REPLY)
    assert book.core.upstream_lost("closed", book.now) == [CloseUpstream()]
    assert kinds(book.received(READ)) == [OpenUpstream]


def test_session_calls_are_repeated_first() -> None:
    book = Playbook()
    login = encode_call("set_ugi", "alice", ["g"], seqid=1)
    accepted = reply_to(login)
    book.dispatcher.decision = replace(RELAY, replay=True)
    book.relaying(login)
    book.upstream(accepted)
    book.core.upstream_lost("closed", book.now)
    book.dispatcher.decision = RELAY
    book.received(READ)
    assert book.opened() == [SendUpstream(login)]
    assert book.upstream(accepted) == [SendUpstream(READ)]


def test_a_session_call_that_is_too_long_is_not_repeated_in_part() -> None:
    """The metastore would wait for the rest of it, and the client for the metastore."""
    book = Playbook(upstreams=1)
    login = encode_call("set_ugi", "alice", ["g" * 1000] * 9000, seqid=1)
    book.dispatcher.decision = replace(RELAY, replay=True)
    for at in range(0, len(login), 1 << 18):
        book.received(login[at : at + (1 << 18)])
    passed = [command.data for command in book.opened() if isinstance(command, SendUpstream)]
    while sum(map(len, passed)) < len(login):
        passed += [command.data for command in book.core.turn(book.now) if isinstance(command, SendUpstream)]
    assert b"".join(passed) == login
    book.upstream(reply_to(login))
    book.core.upstream_lost("closed", book.now)
    book.dispatcher.decision = RELAY
    close = book.received(READ)[-1]
    assert isinstance(close, Close) and close.why is Why.SESSION


def test_only_the_last_set_ugi_is_repeated() -> None:
    book = Playbook(upstreams=1)
    away = book.endpoints.all[0]
    book.endpoints.refused(away, "away")
    calls = [encode_call("set_ugi", user, ["g"], seqid=1) for user in ("alice", "bob")]
    for login in calls:
        book.dispatcher.decision = replace(RELAY, replay=True, offline=reply_to(login))
        assert sent(book.received(login)) == reply_to(login)
    book.endpoints.answered(away)
    book.dispatcher.decision = RELAY
    book.received(READ)
    assert book.opened() == [SendUpstream(calls[1])]
    assert book.upstream(reply_to(calls[1])) == [SendUpstream(READ)]


def test_a_refused_session_call_closes_the_client() -> None:
    book = Playbook()
    login = encode_call("set_ugi", "alice", ["g"], seqid=1)
    book.dispatcher.decision = replace(RELAY, replay=True)
    book.relaying(login)
    book.upstream(reply_to(login))
    book.core.upstream_lost("closed", book.now)
    book.dispatcher.decision = RELAY
    book.received(READ)
    book.opened()
    commands = book.upstream(reply_to(login).replace(b"\x0b\0\0", b"\x0c\0\1\x0b\0\0", 1) + b"\0")
    assert isinstance(commands[-1], Close) and commands[-1].why is Why.SESSION
    assert SendUpstream not in kinds(commands)
    assert book.dispatcher.hooks[-1] == ("failed", False)


def test_a_session_call_of_unknown_outcome_closes_the_client() -> None:
    book = Playbook()
    book.dispatcher.decision = replace(RELAY, replay=True)
    book.relaying(encode_call("set_ugi", "alice", ["g"], seqid=1))
    close = book.core.upstream_lost("reset", book.now)[-1]
    assert isinstance(close, Close) and close.why is Why.SESSION


def test_time_out_of_the_metastore() -> None:
    book = Playbook()
    book.relaying()
    book.now += 9 * SECOND
    assert book.core.expire(book.now) == []
    book.now += 2 * SECOND
    assert exception_in(book.core.expire(book.now))
    assert book.dispatcher.hooks[-1] == ("failed", True)


def test_a_slow_client_is_not_the_metastores_time_out() -> None:
    book = Playbook()
    book.relaying()
    book.upstream(reply_to(READ, size=1000)[:500])
    book.core.client_blocked()
    book.now += 50 * SECOND
    assert book.core.expire(book.now) == []
    book.now += 20 * SECOND
    close = book.core.expire(book.now)[-1]
    assert isinstance(close, Close) and close.why is Why.IDLE


def test_a_framed_reply_that_stops_is_given_up_in_time() -> None:
    """It is kept until it is complete: so what its client reads does not matter, and nothing of it has left."""
    book = Playbook(idle_s=15, request_s=10)
    book.relaying(framed(READ))
    reply = reply_to(READ, size=1000)
    for at in range(0, 500, 100):
        assert sent(book.upstream(reply[at : at + 100])) == b""
        book.now += 9 * SECOND
        assert book.core.expire(book.now) == [], "the metastore sends, and the client waits"
    book.now += 2 * SECOND
    answer = sent(book.core.expire(book.now))
    assert answer[4 + 3] == 3 and b"did not answer" in answer
    assert not book.core.closed


def test_a_write_goes_on_without_its_client_and_a_read_does_not() -> None:
    book = Playbook()
    book.relaying()
    assert book.core.gone(book.now) == [ReadingUpstream(True)]
    assert not book.core.closed
    commands = book.upstream(REPLY)
    assert sent(commands) == b"" and CloseUpstream in kinds(commands)
    assert book.dispatcher.hooks == [("sending",), ("began",), ("done", None)]
    assert book.core.closed

    book = Playbook()
    book.dispatcher.decision = replace(RELAY, retry=True)
    book.relaying()
    assert book.core.gone(book.now) == [CloseUpstream()]
    assert book.core.closed


def test_a_method_that_the_metastore_lacks_is_asked_by_its_twin_and_remembered() -> None:
    book = Playbook(upstreams=1)
    request = encode_call("get_table", "db", "t", seqid=7)
    unknown = exception(request, 1, b"Invalid method name: 'get_table'")
    book.dispatcher.decision = replace(RELAY, hold_bytes=1000, retry=True)
    book.relaying(request)
    (again,) = book.upstream(unknown)
    assert isinstance(again, SendUpstream) and b"get_table_req" in again.data
    assert ("began",) not in book.dispatcher.hooks
    table = b"\x0c\0\1" + b"\x0b\0\1\0\0\0\1t" + b"\0"
    twin_reply = reply_to(again.data)[: again.data.index(b"get_table_req") + 17]
    commands = book.upstream(twin_reply + b"\x0c\0\0" + table + b"\0\0")
    expected = reply_to(request)[: request.index(b"get_table") + 13] + b"\x0c\0\0" + table[3:] + b"\0"
    assert sent(commands) == expected
    assert book.dispatcher.hooks[-1] == ("done", expected)
    (straight,) = book.received(request)
    assert isinstance(straight, SendUpstream) and b"get_table_req" in straight.data
