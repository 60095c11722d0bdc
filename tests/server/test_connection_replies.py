"""Playbooks: replies that are held, spooled, cut into slices, or wait for a slow client."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hms_cache_proxy.methods.decision import Serve
from hms_cache_proxy.server.commands import (
    Again,
    ReadingUpstream,
    Send,
)
from tests.server.playbook import (
    READ,
    RELAY,
    REPLY,
    Playbook,
    framed,
    over,
    reply_to,
    sent,
)


def test_a_held_reply_leaves_after_it_was_looked_at() -> None:
    book = Playbook()
    book.dispatcher.decision = replace(RELAY, hold_bytes=1000)
    book.relaying()
    assert book.upstream(REPLY[:20]) == []
    assert book.upstream(REPLY[20:-1]) == []
    assert book.dispatcher.hooks[-1] == ("began",)
    assert sent(book.upstream(REPLY[-1:])) == REPLY
    assert book.dispatcher.hooks[-1] == ("done", REPLY)


def test_a_reply_too_long_to_be_held_is_said_so_before_its_first_byte_leaves() -> None:
    book = Playbook()
    book.dispatcher.decision = replace(RELAY, hold_bytes=100)
    book.relaying()
    reply = reply_to(READ, size=200)
    assert book.upstream(reply[:90]) == []
    assert book.dispatcher.hooks == [("sending",), ("began",)]
    assert sent(book.upstream(reply[90:150])) == reply[:150]
    assert book.dispatcher.hooks == [("sending",), ("began",), ("done", None)]
    assert sent(book.upstream(reply[150:])) == reply[150:]
    assert book.dispatcher.hooks == [("sending",), ("began",), ("done", None)]


def test_a_long_reply_in_one_piece_is_not_held() -> None:
    book = Playbook()
    book.dispatcher.decision = replace(RELAY, hold_bytes=10)
    book.relaying()
    assert sent(book.upstream(REPLY)) == REPLY
    assert book.dispatcher.hooks[-1] == ("done", None)


def test_nothing_leaves_before_the_header_is_known() -> None:
    book = Playbook()
    book.relaying()
    for byte in REPLY[:10]:
        assert book.upstream(bytes([byte])) == []
    assert book.dispatcher.hooks == [("sending",)]
    assert sent(book.upstream(REPLY[10:])) == REPLY


def test_the_metastore_is_not_read_from_while_the_client_is_slow() -> None:
    book = Playbook()
    book.relaying()
    reply = reply_to(READ, size=1000)
    assert sent(book.upstream(reply[:500])) == reply[:500]
    assert book.core.client_blocked() == [ReadingUpstream(False)]
    assert sent(book.upstream(reply[500:600])) == reply[500:600]  # was already on its way
    assert book.core.client_writable(book.now) == [ReadingUpstream(True)]
    assert sent(book.upstream(reply[600:])) == reply[600:]


def test_a_framed_reply_is_spooled_until_its_length_is_known() -> None:
    book = Playbook()
    book.relaying(framed(READ))
    reply = reply_to(READ, size=1000)
    assert book.upstream(reply[:500]) == []
    assert sent(book.upstream(reply[500:])) == framed(reply)


def slices(pieces: list[bytes], turns: list[int]) -> Iterator[bytes]:
    for number, piece in enumerate(pieces):
        turns.append(number)
        yield piece


def test_slices_one_a_turn() -> None:
    book = Playbook()
    turns: list[int] = []
    book.dispatcher.decision = Serve(slices([b"a", b"b", b"c"], turns), "get_partitions")
    assert book.received(READ) == [Send(b"a"), Again()]
    assert turns == [0]
    assert book.core.turn(book.now) == [Send(b"b"), Again()]
    assert book.core.turn(book.now) == [Send(b"c"), Again()]
    assert book.core.turn(book.now) == [over("get_partitions", "hit", "", 3)]


def test_slices_are_finished_into_the_spool_while_the_client_is_slow() -> None:
    book = Playbook()
    turns: list[int] = []
    book.dispatcher.decision = Serve(slices([b"a", b"b", b"c"], turns), "get_partitions")
    assert book.received(READ + READ)[0] == Send(b"a")
    book.core.client_blocked()
    for _ in range(3):
        assert sent(book.core.turn(book.now)) == b""
    assert turns == [0, 1, 2]  # the iterator is done: no snapshot is held for the client's sake
    book.dispatcher.decision = Serve(b"next", "get_table")
    commands = book.core.client_writable(book.now)
    assert sent(commands) == b"bcnext"  # the next request waited for the spool


def test_slices_for_a_framed_client() -> None:
    book = Playbook()
    book.dispatcher.decision = Serve(iter([b"a", b"b"]), "get_partitions")
    book.received(framed(READ))
    book.core.turn(book.now)
    assert sent(book.core.turn(book.now)) == framed(b"ab")
