"""Negotiations of SASL, by the bytes that Hive's metastore and its Java client were seen to send."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hms_cache_proxy.errors import LimitError, WireError
from hms_cache_proxy.wire.message import NEED_MORE
from hms_cache_proxy.wire.sasl import (
    MESSAGE_BYTES,
    LayerChoice,
    Layers,
    Message,
    Negotiation,
    Status,
    message,
    offer,
    parse_choice,
    parse_message,
)

SEEN = [
    (bytes.fromhex("0100000006") + b"GSSAPI", Status.START, b"GSSAPI"),
    (bytes.fromhex("010000000a") + b"DIGEST-MD5", Status.START, b"DIGEST-MD5"),
    (bytes.fromhex("0100000005") + b"PLAIN", Status.START, b"PLAIN"),
    (bytes.fromhex("0200000000"), Status.OK, b""),
    (bytes.fromhex("050000000d") + b"\0alice\0secret", Status.COMPLETE, b"\0alice\0secret"),
    (bytes.fromhex("0500000000"), Status.COMPLETE, b""),
    (bytes.fromhex("030000001a") + b"Error validating the login", Status.BAD, b"Error validating the login"),
]


@pytest.mark.parametrize(("data", "status", "payload"), SEEN)
def test_messages(data: bytes, status: Status, payload: bytes) -> None:
    assert message(status, payload) == data
    assert parse_message(data + b"next") == Message(status, payload, len(data))
    assert parse_message(b"ab" + data, 2) == Message(status, payload, len(data) + 2)
    assert all(parse_message(data[:size]) is NEED_MORE for size in range(len(data)))


def test_messages_that_are_refused() -> None:
    for first in (0, 6, 0x16, 0x80, 0xFF):
        with pytest.raises(WireError, match="not a status"):
            parse_message(bytes([first]))
    with pytest.raises(LimitError):
        parse_message(b"\1" + (MESSAGE_BYTES + 1).to_bytes(4, "big"))
    with pytest.raises(LimitError):
        parse_message(b"\2\xff\xff\xff\xff")


@pytest.mark.parametrize("size", [1, 2, 7, 1000], ids=lambda size: f"{size} bytes at a time")
def test_gssapi(size: int) -> None:
    """Ticket, an empty response, the choice of a layer; and a call right behind it."""
    ticket, choice, call = b"\x60" * 709, b"wrapped choice", b"\0\0\0\4call"
    negotiation, got = Negotiation(), list[bytes]()
    for sent in (
        message(Status.START, b"GSSAPI") + message(Status.OK, ticket),
        message(Status.OK),
        message(Status.COMPLETE, choice) + call,
    ):
        for at in range(0, len(sent), size):
            negotiation.add(sent[at : at + size])
            if negotiation.done or (response := negotiation.next()) is NEED_MORE:
                continue
            got.append(response)
            if len(got) < 3:
                assert negotiation.challenge(b"%d" % len(got)) == message(Status.OK, b"%d" % len(got))
            else:
                assert negotiation.complete() == message(Status.COMPLETE)
    assert negotiation.mechanism == "GSSAPI" and got == [ticket, b"", choice]
    assert negotiation.done and negotiation.rest() == call


def test_plain_is_over_with_one_response() -> None:
    negotiation = Negotiation()
    negotiation.add(SEEN[2][0] + SEEN[4][0])
    assert negotiation.next() == b"\0alice\0secret" and negotiation.mechanism == "PLAIN"
    assert negotiation.refuse("Error validating the login") == SEEN[6][0]
    assert negotiation.done


@pytest.mark.parametrize(
    ("sent", "problem"),
    [
        (message(Status.OK, b"x"), "begins with OK"),
        (message(Status.COMPLETE), "begins with COMPLETE"),
        (message(Status.START, b""), "not the name of a mechanism"),
        (message(Status.START, b"gssapi"), "not the name of a mechanism"),
        (message(Status.START, b"A" * 21), "not the name of a mechanism"),
        (message(Status.START, b"GSSAPI") + message(Status.START, b"PLAIN"), "with START: PLAIN"),
        (message(Status.START, b"GSSAPI") + message(Status.BAD, b"no"), "with BAD: no"),
        (message(Status.START, b"GSSAPI") + b"\x80\1\0\1", "not a status"),
    ],
)
def test_the_order(sent: bytes, problem: str) -> None:
    negotiation = Negotiation()
    negotiation.add(sent)
    with pytest.raises(WireError, match=problem):
        negotiation.next()


def test_a_client_that_does_not_wait_is_limited() -> None:
    negotiation = Negotiation(limit=100)
    negotiation.add(message(Status.START, b"GSSAPI") + message(Status.OK, b"x" * 100))
    with pytest.raises(LimitError):
        negotiation.add(b"y" * 100)


def test_layers() -> None:
    assert offer(Layers.AUTH) == bytes.fromhex("01000000")
    assert offer(Layers.AUTH | Layers.AUTH_INT | Layers.AUTH_CONF) == bytes.fromhex("07010000")
    every = Layers(7)
    assert parse_choice(bytes.fromhex("01000000"), every) == LayerChoice(Layers.AUTH, 0, "")
    assert parse_choice(bytes.fromhex("04010000") + b"alice@LAB.TEST", every) == LayerChoice(
        Layers.AUTH_CONF, 65536, "alice@LAB.TEST"
    )
    for wrong, offered in (("00000000", 7), ("03000000", 7), ("02000000", 1), ("08000000", 7), ("010000", 7)):
        with pytest.raises(WireError):
            parse_choice(bytes.fromhex(wrong), Layers(offered))
    with pytest.raises(WireError, match="UTF-8"):
        parse_choice(b"\1\0\0\0\xff", every)


@settings(deadline=None, max_examples=300)
@given(st.lists(st.binary(max_size=30) | st.sampled_from([data for data, _, _ in SEEN]), max_size=8))
def test_any_bytes_are_responses_or_a_wire_error(pieces: list[bytes]) -> None:
    negotiation = Negotiation(limit=64)
    try:
        for piece in pieces:
            negotiation.add(piece)
            while negotiation.next() is not NEED_MORE:
                negotiation.challenge(b"more")
    except WireError:
        pass
    assert not negotiation.done
