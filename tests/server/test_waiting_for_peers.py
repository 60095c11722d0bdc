"""A call that other proxies must know of before it leaves, or before its reply is passed on."""

from __future__ import annotations

from dataclasses import replace

from hms_cache_proxy.methods.decision import Pending
from hms_cache_proxy.peers.requests import PeerAsk, PeerRequest
from hms_cache_proxy.server.commands import AskPeers, Close, OpenUpstream, ReadingUpstream, SendUpstream
from tests.server.playbook import READ, RELAY, Playbook, kinds, reply_to, sent

WRITE = PeerRequest(PeerAsk.WRITE, 5, (b"tx",))
OWED = PeerRequest(PeerAsk.NOTED, 7)


def test_a_write_leaves_when_the_peers_know_of_it() -> None:
    book = Playbook()
    book.dispatcher.asks = WRITE
    assert book.received(READ) == [AskPeers(WRITE)]
    assert book.received(READ) == [], "the next request waits behind it"
    assert kinds(book.core.peers_agreed(book.now)) == [OpenUpstream]
    assert kinds(book.opened()) == [SendUpstream]


def test_a_client_that_leaves_while_its_write_waits() -> None:
    book = Playbook()
    book.dispatcher.asks = WRITE
    book.received(READ)
    book.core.gone(book.now)
    assert book.dispatcher.hooks == [("failed", False)]
    assert book.core.closed
    assert book.core.peers_agreed(book.now) == []


def test_a_reply_is_passed_on_when_the_peers_know_of_it() -> None:
    book = Playbook()
    book.relaying()
    book.dispatcher.passing = OWED
    commands = book.upstream(reply_to(READ))
    assert commands[0] == AskPeers(OWED) and sent(commands) == b""
    assert book.core.mode == 0, "nothing may overtake it"
    book.dispatcher.passing = None
    assert sent(book.received(READ)) == b"", "what comes next waits, too"
    assert book.core.mode == 0, "also on the hot path"
    commands = book.core.peers_agreed(book.now)
    assert sent(commands) == reply_to(READ)
    assert SendUpstream in kinds(commands)


def test_the_rest_of_a_long_reply_waits_at_the_metastore() -> None:
    """Else all of it would be in memory, however long it is."""
    book = Playbook()
    book.dispatcher.decision = replace(RELAY, hold_bytes=100)
    book.relaying()
    book.dispatcher.passing = OWED
    reply = reply_to(READ, size=1000)
    assert book.upstream(reply[:500]) == [AskPeers(OWED), ReadingUpstream(False)]
    commands = book.core.peers_agreed(book.now)
    assert sent(commands) == reply[:500] and commands[-1] == ReadingUpstream(True)
    assert sent(book.upstream(reply[500:])) == reply[500:]


def test_a_request_that_has_come_already_is_looked_at_after_that() -> None:
    """Else there would be two questions, and the answer to one of them would pass on what the other is about."""
    book = Playbook()
    book.relaying()
    book.received(READ)
    book.dispatcher.passing, book.dispatcher.asks = OWED, WRITE
    commands = book.upstream(reply_to(READ))
    assert [one for one in commands if isinstance(one, AskPeers)] == [AskPeers(OWED)]
    book.dispatcher.passing = None
    commands = book.core.peers_agreed(book.now)
    assert sent(commands) == reply_to(READ)
    assert [one for one in commands if isinstance(one, AskPeers)] == [AskPeers(WRITE)]
    assert kinds(book.core.peers_agreed(book.now)) == [SendUpstream]


def test_an_end_waits_behind_a_reply_that_waits() -> None:
    book = Playbook()
    book.relaying()
    book.dispatcher.passing = OWED
    book.upstream(reply_to(READ))
    assert Close not in kinds(book.core.ended(book.now))
    commands = book.core.peers_agreed(book.now)
    assert sent(commands) == reply_to(READ)
    assert kinds(commands)[-1] is Close


def test_whoever_passes_on_that_a_call_is_sent_passes_on_what_peers_must_know() -> None:
    """A Pending around another one that forgot this would let a write leave that nobody knows of."""
    kinds_of_pending = [Pending]
    for kind in kinds_of_pending:
        kinds_of_pending += kind.__subclasses__()
    within = [kind for kind in kinds_of_pending[1:] if kind.__module__.startswith("hms_cache_proxy.")]
    without_peers = {"Writing", "_Both"}  # of TTL mode, with which there are no peers
    for kind in within:
        if "sending" in vars(kind) and kind.__name__ not in without_peers:
            assert "leaving" in vars(kind), kind
