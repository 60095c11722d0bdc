"""Messages, frames, handshake: golden bytes, round trips, and whatever else may arrive."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hms_cache_proxy.cache.targets import ALL
from hms_cache_proxy.errors import LimitError, WireError
from hms_cache_proxy.peers import frames, messages
from hms_cache_proxy.peers.frames import FRAME_BYTES, MAC_BYTES, VERSION, Greeted, Handshake, PeerRole
from hms_cache_proxy.peers.messages import (
    Acknowledged,
    AnswersNothing,
    CallsCounted,
    EventReached,
    FenceLifted,
    FenceOwed,
    FenceRaised,
    Hello,
    LeaseAsked,
    LeaseGiven,
    LockWaits,
    MissedTargets,
    RefusedPeer,
    Replayed,
    TokensCancelled,
    Welcome,
    decode,
    encode,
    short,
    since,
    understood,
)
from hms_cache_proxy.security.cancelled_tokens import MOST, RECORD_BYTES

EVERY = (
    (Hello(b"m", b"h:1", b"", 5), "01 00000001 6d 00000003 683a31 00000000 0000000000000005"),
    (Welcome(), "02"),
    (RefusedPeer(b"no"), "03 00000002 6e6f"),
    (
        FenceRaised(b"i" * 16, 7, (b"*", b"F")),
        "04 00000010" + "69" * 16 + "0000000000000007 00000002 00000001 2a 00000001 46",
    ),
    (FenceLifted(b"i" * 16, 7, 1), "05 00000010" + "69" * 16 + "0000000000000007 0000000000000001"),
    (Replayed(1), "06 0000000000000001"),
    (MissedTargets(()), "07 00000000"),
    (FenceOwed((b"R",)), "08 00000001 00000001 52"),
    (EventReached(9), "09 0000000000000009"),
    (LockWaits(-1, ()), "0a ffffffffffffffff 00000000"),
    (LeaseGiven(1, 2, 3), "0b 0000000000000001 0000000000000002 0000000000000003"),
    (LeaseAsked(1), "0c 0000000000000001"),
    (Acknowledged(4), "0d 0000000000000004"),
    (AnswersNothing(), "0e"),
    (CallsCounted(3, 4), "0f00000000000000030000000000000004"),
    (TokensCancelled((b"d" * 24,)), "10 00000001 00000018" + "64" * 24),
)


@pytest.mark.parametrize(("message", "data"), EVERY, ids=lambda one: type(one).__name__)
def test_each_message(message: messages.PeerMessage, data: str) -> None:
    raw = bytes.fromhex(data)
    assert encode(message) == raw
    assert decode(raw) == message
    for end in range(len(raw)):
        with pytest.raises(WireError):
            decode(raw[:end])
    with pytest.raises(WireError):
        decode(raw + b"\0")


@given(st.binary(max_size=60))
def test_whatever_arrives_is_a_message_or_an_error(data: bytes) -> None:
    with contextlib.suppress(WireError):
        assert encode(decode(data)) == data


@pytest.mark.parametrize("message", [FenceRaised(b"i" * 15, 1, ()), FenceLifted(b"i" * 16, -1, 1)])
def test_writes_that_no_proxy_has(message: messages.PeerMessage) -> None:
    with pytest.raises(WireError, match="no proxy can have"):
        decode(encode(message))


def test_targets_of_an_unknown_kind_are_everything() -> None:
    assert understood((b"tx", b"Zx")) == (ALL,)
    assert understood((b"tx", b"")) == (ALL,)
    assert understood((b"tx",)) == (b"tx",)


def test_targets_that_are_too_long_for_a_frame_are_everything() -> None:
    assert short((b"t" * (messages.MOST_TARGET_BYTES + 1),)) == (ALL,)
    assert short((b"t",) * 1000) == (b"t",) * 1000


def shake(left: Handshake, right: Handshake, piece: int = 1 << 20) -> tuple[Greeted, Greeted]:
    """`left` is the dialler. The bytes arrive in pieces."""
    found: dict[int, Greeted] = {}
    queue = [(1, left.out)]
    while queue:
        side, data = queue.pop(0)
        for at in range(0, len(data), piece):
            one = (left, right)[side].received(data[at : at + piece])
            if one is not None:
                found[side] = one
            out = (left, right)[side].out
            if out:
                queue.append((1 - side, out))
    return found[0], found[1]


def two(secret: bytes = b"s", other: bytes = b"s") -> tuple[Handshake, Handshake]:
    return (
        Handshake(PeerRole.DIALLER, secret, b"A" * 16, b"n" * 32),
        Handshake(PeerRole.ACCEPTOR, other, b"B" * 16, b"N" * 32),
    )


@pytest.mark.parametrize("piece", [1, 7, 1000])
def test_a_handshake_and_frames_behind_it(piece: int) -> None:
    a, b = shake(*two(), piece)
    assert (a.incarnation, b.incarnation, a.rest, b.rest) == (b"B" * 16, b"A" * 16, b"", b"")
    sent = [b"one", b"", b"x" * 5000]
    data = b"".join(a.frames.seal(one) for one in sent)
    got = [one for at in range(0, len(data), piece) for one in b.frames.received(data[at : at + piece])]
    assert got == sent
    assert a.frames.received(b.frames.seal(b"back")) == [b"back"]


def test_another_secret() -> None:
    with pytest.raises(WireError, match="peer_secret"):
        shake(*two(b"s", b"t"))


def test_what_is_no_peer() -> None:
    with pytest.raises(WireError, match="no peer"):
        two()[1].received(b"GET / HTTP/1.1\r\n")


def test_no_common_version() -> None:
    dialler, acceptor = two()
    first = dialler.out[:8] + b"\0\x07\0\x09" + dialler.out[12:]
    with pytest.raises(WireError, match="versions 7 to 9"):
        acceptor.received(first)
    assert acceptor.out[:2] == b"\0\0", "the dialler is told"


def test_an_older_peer() -> None:
    """The version is the highest that both speak, whoever dials."""
    a, b = shake(*two())
    assert (a.version, b.version) == (VERSION, VERSION)
    for older in PeerRole:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(frames, "VERSION", 1)
            dialler, acceptor = two()
            left = dialler.out
            if older is PeerRole.DIALLER:
                patch.undo()
            acceptor.received(left)
            answer = acceptor.out
            if older is PeerRole.ACCEPTOR:
                patch.undo()
            greeted = dialler.received(answer)
            assert greeted is not None and greeted.version == 1
            last = acceptor.received(dialler.out)
            assert last is not None and last.version == 1


def test_which_version_has_a_message() -> None:
    assert [type(message) for message, _ in EVERY if since(message) > 1] == [TokensCancelled]
    assert max(since(message) for message, _ in EVERY) == VERSION


def test_all_cancelled_tokens_fit_into_a_frame() -> None:
    assert len(encode(TokensCancelled((b"d" * RECORD_BYTES,) * MOST))) + MAC_BYTES <= FRAME_BYTES


def test_an_echo_is_no_proof() -> None:
    """A peer that only sends back what it receives cannot take part."""
    dialler, _ = two()
    mirror = Handshake(PeerRole.DIALLER, b"s", b"A" * 16, b"n" * 32)
    with pytest.raises(WireError):
        dialler.received(mirror.out + b"\0" * 100)


@pytest.mark.parametrize("how", ["changed", "repeated", "left out", "reflected"])
def test_frames_that_the_peer_has_not_sent(how: str) -> None:
    a, b = shake(*two())
    first, second = a.frames.seal(b"first"), a.frames.seal(b"second")
    data = {
        "changed": first[:5] + b"F" + first[6:],
        "repeated": first + first,
        "left out": second,
        "reflected": b.frames.seal(b"first"),
    }[how]
    with pytest.raises(WireError, match="MAC"):
        b.frames.received(data)


def test_a_frame_that_is_too_long() -> None:
    a, b = shake(*two())
    with pytest.raises(LimitError):
        a.frames.seal(b"x" * FRAME_BYTES)
    with pytest.raises(LimitError):
        b.frames.received((FRAME_BYTES + 1).to_bytes(4, "big"))
