"""A login that is passed through: turns in any pieces; tokens however they are rotated; bytes that are no login."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hms_cache_proxy.errors import WireError
from hms_cache_proxy.security.mechanism import LoginRefused
from hms_cache_proxy.security.passed_login import PassedLogin
from tests.server.logged_in import BAD, COMPLETE, OK, START, message

CHECKSUM = b"c" * 12


def wrapped(content: bytes, rotated: int = 0, flags: int = 4) -> bytes:
    """As RFC 4121 says, without a key."""
    body = content + CHECKSUM
    at = -rotated % len(body)
    body = body[at:] + body[:at]
    return struct.pack("!2sBBHHQ", b"\5\4", flags, 0xFF, len(CHECKSUM), rotated, 7) + body


def begun() -> PassedLogin:
    """It is the client's turn to choose a protection."""
    login = PassedLogin()
    first = message(START, b"GSSAPI") + message(OK, b"\x60ticket")
    assert login.from_client(first) == first and not login.clients_turn
    answer = message(OK, b"\x60answer")
    assert login.from_metastore(answer) == answer and login.clients_turn
    return login


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize("rotated", [0, 5, 12, 16, 28, 40])
def test_what_is_passed_on_is_unchanged(size: int, rotated: int) -> None:
    login = begun()
    last, rest = message(COMPLETE, wrapped(b"\1\0\0\0alice", rotated)), b"\0\0\0\1x"
    said = last + rest
    assert b"".join(login.from_client(said[at : at + size]) for at in range(0, len(said), size)) == last
    done = message(COMPLETE)
    assert b"".join(login.from_metastore(done[at : at + size]) for at in range(0, len(done), size)) == done
    assert login.done and login.admitted.how == "GSSAPI" and login.admitted.user == ""
    assert login.rest() == (rest, b"")


@pytest.mark.parametrize(
    ("token", "words"),
    [
        (wrapped(b"\2\1\0\0"), "auth-int"),
        (wrapped(b"\4\1\0\0", 12), "auth-conf"),
        (wrapped(b"\3\1\0\0"), "the client chose the protection 3"),
        (wrapped(b"\1\0\0\0", flags=6), "is encrypted"),
        (b"\5\4short", "is encrypted"),
    ],
)
def test_a_choice_that_is_not_passed_on(token: bytes, words: str) -> None:
    with pytest.raises(WireError, match=words):
        begun().from_client(message(COMPLETE, token))


def test_a_metastore_that_ends_it_without_a_choice() -> None:
    login = begun()
    login.from_client(message(OK, b"no token"))
    with pytest.raises(LoginRefused, match="not known which protection"):
        login.from_metastore(message(COMPLETE))


def test_the_metastores_words() -> None:
    with pytest.raises(LoginRefused, match="no ticket") as refused:
        begun().from_metastore(message(BAD, b"no ticket"))
    assert refused.value.detail == "the metastore refuses the login: BAD no ticket"


@given(st.lists(st.tuples(st.booleans(), st.binary(max_size=200)), max_size=8), st.booleans())
def test_any_bytes(pieces: list[tuple[bool, bytes]], started: bool) -> None:
    """A WireError, or what was given, in its order; never a login."""
    login = begun() if started else PassedLogin()
    given_bytes = {True: b"", False: b""}
    passed = {True: b"", False: b""}
    try:
        for of_client, piece in pieces:
            given_bytes[of_client] += piece
            passed[of_client] += login.from_client(piece) if of_client else login.from_metastore(piece)
    except WireError:
        assert not login.done
    for side in (True, False):
        assert given_bytes[side].startswith(passed[side])
