"""DIGEST-MD5 without I/O: the example of the RFC, both sides against each other, and what is refused."""

from __future__ import annotations

from base64 import b64encode

import pytest

from hms_cache_proxy.errors import WireError
from hms_cache_proxy.security.digest_md5 import (
    ClientLogin,
    DigestInput,
    DigestProtection,
    ServerLogin,
    parse_directives,
)
from hms_cache_proxy.security.mechanism import LoginFailed, LoginRefused
from hms_cache_proxy.wire.sasl import EVERY_LAYER, Layers

NAME, PASSWORD = b64encode(b"alice and more"), b64encode(bytes(range(32)))
ALL = [Layers.AUTH, Layers.AUTH_INT, Layers.AUTH_CONF]


def password_of(name: bytes) -> bytes:
    if name != NAME:
        raise LoginRefused("nobody")
    return PASSWORD


def logged_in(server: Layers = EVERY_LAYER, client: Layers = EVERY_LAYER) -> tuple[DigestProtection, DigestProtection]:
    """Both ends after a login."""
    there, here = ServerLogin(password_of, server), ClientLogin(NAME, PASSWORD, client)
    assert here.step(b"") == (b"", False)
    challenge = there.step(b"")
    answer = here.step(challenge.payload)
    assert answer.done and not challenge.done
    last = there.step(answer.payload)
    assert last.done
    here.finish(last.payload)
    return there.protection, here.protection


def test_the_example_of_the_rfc() -> None:
    """RFC 2831, section 4."""
    facts = DigestInput(
        b"chris",
        b"secret",
        b"OA6MG9tEQGm2hh",
        b"OA6MHXh6VqTrRk",
        b"auth",
        b"elwood.innosoft.com",
        b"imap/elwood.innosoft.com",
    )
    assert facts.response(b"AUTHENTICATE") == b"d388dad90d4bbd760a152321f2143af7"
    assert facts.response(b"") == b"ea40f60335c427b5527b84dbabcdfffd"


@pytest.mark.parametrize("layer", ALL)
def test_both_directions(layer: Layers) -> None:
    server, client = logged_in(client=layer)
    assert server.layer is client.layer is layer
    for number in range(5):
        message = b"x" * number * 1000
        wrapped = client.wrap(message)
        assert (wrapped == message) is (layer is Layers.AUTH)
        assert (message in wrapped) is (layer is not Layers.AUTH_CONF or not number)
        assert server.unwrap(wrapped) == message
        assert client.unwrap(server.wrap(message + b"!")) == message + b"!"


def test_the_strongest_that_both_know() -> None:
    for server, client, expected in (
        (EVERY_LAYER, EVERY_LAYER, Layers.AUTH_CONF),
        (EVERY_LAYER, Layers.AUTH | Layers.AUTH_INT, Layers.AUTH_INT),
        (Layers.AUTH, EVERY_LAYER, Layers.AUTH),
    ):
        assert logged_in(server, client)[0].layer is expected
    with pytest.raises(LoginFailed, match="there is auth-conf, kerberos.protection allows auth"):
        logged_in(Layers.AUTH_CONF, Layers.AUTH)
    with pytest.raises(LoginFailed, match="no common protection"):  # what is not UTF-8, too
        ClientLogin(NAME, PASSWORD, EVERY_LAYER).step(b'nonce="x",qop="\xff"')


@pytest.mark.parametrize("layer", [Layers.AUTH_INT, Layers.AUTH_CONF])
def test_frames_that_are_not_as_agreed(layer: Layers) -> None:
    def damaged(wrapped: bytes) -> list[bytes]:
        flipped = [bytes([*wrapped[:at], wrapped[at] ^ 1, *wrapped[at + 1 :]]) for at in range(len(wrapped))]
        return [*flipped, b"", wrapped[:15], wrapped[1:], wrapped + b"x"]

    for at in range(len(damaged(logged_in(client=layer)[1].wrap(b"abc")))):
        server, client = logged_in(client=layer)
        with pytest.raises(WireError, match="not wrapped as agreed"):
            server.unwrap(damaged(client.wrap(b"abc"))[at])
    server, client = logged_in(client=layer)
    first = client.wrap(b"abc")
    assert server.unwrap(first) == b"abc"
    with pytest.raises(WireError, match="wrong number"):
        server.unwrap(first)


def response_to(server: ServerLogin, password: bytes = PASSWORD) -> bytes:
    """A client's, before anything was changed in it."""
    return ClientLogin(NAME, password, Layers.AUTH).step(server.step(b"").payload).payload


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (b"nc=00000001", b"nc=00000002", "another login's"),
        (b"null/default", b"hive/other", "another login's"),
        (b'realm="default"', b'realm="x"', "another login's"),
        (b'nonce="', b'nonce="x', "another login's"),
        (b"qop=auth", b"qop=auth-conf", "protection"),
        (b"qop=auth", b"qop=none", "protection"),
        (b"qop=auth", b"qop=auth,qop=auth", "repeated"),
        (b"response=", b"response=0", "wrong password"),
        (b"maxbuf=65536", b"maxbuf=many", "not a number"),
        (b"maxbuf=65536", b'authzid="bob"', "act as somebody else"),
        (b'username="', b'username="Z', "nobody"),
        (b"charset", b"=charset", "not a list"),
    ],
)
def test_refused(old: bytes, new: bytes, why: str) -> None:
    server = ServerLogin(password_of, Layers.AUTH)
    response = response_to(server)
    assert old in response
    with pytest.raises(WireError) as raised:
        server.step(response.replace(old, new, 1))
    assert why in getattr(raised.value, "detail", str(raised.value))


def test_a_response_of_another_login_or_with_another_password() -> None:
    with pytest.raises(LoginRefused, match="Mismatched response"):
        server = ServerLogin(password_of, Layers.AUTH)
        server.step(response_to(server, b"wrong"))
    server = ServerLogin(password_of, Layers.AUTH)
    server.step(b"")
    with pytest.raises(LoginRefused):
        server.step(response_to(ServerLogin(password_of, Layers.AUTH)))
    with pytest.raises(LoginRefused, match="none is due"):
        ServerLogin(password_of, Layers.AUTH).step(b"x")


def test_a_metastore_that_does_not_know_the_password() -> None:
    client = ClientLogin(NAME, PASSWORD, EVERY_LAYER)
    client.step(ServerLogin(password_of, EVERY_LAYER).step(b"").payload)
    with pytest.raises(LoginFailed, match="does not know"):
        client.finish(b"rspauth=" + b"0" * 32)
    with pytest.raises(LoginFailed, match="second challenge"):
        client.step(b"nonce=x")
    for wrong in (b'realm="default"', b'nonce="x",realm="other"', b"nonce"):
        with pytest.raises(LoginFailed):
            ClientLogin(NAME, PASSWORD, EVERY_LAYER).step(wrong)


def test_directives() -> None:
    assert parse_directives(b'a="b\\"c,d", E=f,g=') == {"a": b'b"c,d', "e": b"f", "g": b""}
