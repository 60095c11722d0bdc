"""Logins with a token (DIGEST-MD5) and with a password (PLAIN), damaged at every place: 100,000 in full.

Whatever a client sends, its login ends, and is refused unless it is right; others log in meanwhile; nothing is left of
it.
"""

from __future__ import annotations

import asyncio
import gc
from base64 import b64encode
from contextlib import suppress
from pathlib import Path
from typing import cast

import pytest

from hms_cache_proxy.config.tokens import TokensSection
from hms_cache_proxy.errors import WireError
from hms_cache_proxy.metrics import WorkerMetrics
from hms_cache_proxy.security import token_keys
from hms_cache_proxy.security.cancelled_tokens import CancelledTokens
from hms_cache_proxy.security.digest_md5 import ClientLogin, parse_directives
from hms_cache_proxy.security.mechanism import Admitted
from hms_cache_proxy.security.passwords import Remembered, WrongPassword
from hms_cache_proxy.security.principals import ShortNames
from hms_cache_proxy.security.renewal import Renewable
from hms_cache_proxy.security.token_issuer import Caller, TokenIssuer
from hms_cache_proxy.security.tokens import Token, parse_token
from hms_cache_proxy.server.driver import Client
from hms_cache_proxy.server.login import Logins
from hms_cache_proxy.server.mechanisms import PasswordMechanism, TokenMechanism
from hms_cache_proxy.wire.message import NEED_MORE
from hms_cache_proxy.wire.sasl import EVERY_LAYER, MESSAGE_BYTES, Layers, Status, message, parse_message
from tests.chance import chance as chance_of
from tests.lengths import by_tier
from tests.security.damaged import (
    ANSWER_TURNS,
    LEFT_OBJECTS,
    TOGETHER,
    AtOnce,
    Counted,
    Damage,
    Served,
    Wire,
    damaged,
    intact,
)

MESSAGES = 3  # of the client, at most


class Passwords:
    """One user."""

    def check(self, user: str, password: bytes) -> str:
        if (user, password) != ("bob", b"secret"):
            raise WrongPassword(user)
        return user


class Place:
    """A server's logins, and a good token."""

    def __init__(self, directory: Path) -> None:
        keys = token_keys.followed_keys("", directory / "token-key")
        cancelled = CancelledTokens(directory / "cancelled")
        issuer = TokenIssuer(TokensSection(), keys, cancelled, ShortNames(["DEFAULT"], "R", key="rules"))
        self.token: Token = parse_token(issuer.issue(Caller("alice", "127.0.0.1", False), "alice", "yarn")[0])
        passwords = Renewable(lambda: Remembered(Passwords(), 0), [])
        mechanisms = TokenMechanism(issuer, EVERY_LAYER), PasswordMechanism(passwords, only_within_tls=True)
        for mechanism in mechanisms:
            mechanism.threads = AtOnce()  # type: ignore[assignment]  # any executor will do
        self.counted, self.served = Counted(), list[str]()
        self.logins = Logins(mechanisms, self._serve, cast(WorkerMetrics, self.counted), 1 << 20)

    def _serve(self, admitted: Admitted) -> Client:
        self.served.append(admitted.user)
        return cast(Client, Served())


class Conversation:
    """One client."""

    def __init__(self, place: Place, layer: Layers, damage: Damage) -> None:
        self._place, self._layer, self._damage = place, layer, damage
        self.wire = Wire()
        self.stream = place.logins.stream("127.0.0.1:1")
        self.stream.connection_made(self.wire)
        self._sent = 0

    async def run(self, mechanism: str) -> None:
        """Log in, and end the client's side behind the last message."""
        login = asyncio.ensure_future(self._place.logins.let_in(self.stream, "127.0.0.1:1", within_tls=True))
        self._send(message(Status.START, mechanism.encode()))
        if mechanism == "PLAIN":
            self._send(message(Status.COMPLETE, b"\0bob\0secret"))
        else:
            self._send(message(Status.OK))
            for _ in range(ANSWER_TURNS):
                await asyncio.sleep(0)
            challenge = parse_message(self.wire.sent)
            if challenge is not NEED_MORE and challenge.status is Status.OK:
                token = self._place.token
                client = ClientLogin(b64encode(token.identifier), b64encode(token.password), self._layer)
                client.step(b"")
                self._send(message(Status.OK, client.step(challenge.payload).payload))
        self.stream.eof_received()
        await login

    def _send(self, whole: bytes) -> None:
        for piece in self._damage(self._sent, whole):
            if piece and not self.wire.closing:
                self.stream.data_received(piece)
        self._sent += 1


def test_damaged_logins(tmp_path: Path) -> None:
    chance = chance_of("damaged logins")
    place = Place(tmp_path)

    async def some(count: int) -> None:
        for _ in range(count // TOGETHER):
            layers = list(Layers)
            good = [Conversation(place, chance.choice(layers), intact) for _ in range(2)]
            bad = [Conversation(place, chance.choice(layers), damaged(chance, MESSAGES)) for _ in range(TOGETHER)]
            ways = ["DIGEST-MD5", "PLAIN", *(chance.choice(["DIGEST-MD5", "PLAIN"]) for _ in bad)]
            await asyncio.gather(*(one.run(way) for one, way in zip([*good, *bad], ways, strict=True)))
            assert not any(one.wire.closing for one in good), "who logs in rightly is let in, whatever others do"
            assert set(place.served) == {"alice", "bob"}
            assert all(len(one.stream._received) <= 4 * MESSAGE_BYTES for one in bad)
            place.served.clear()
            for client, why_over in list(place.logins._for_a_time.items()):
                place.logins._look_at(client, why_over)  # as it does once a second

    rounds = int(by_tier(test=1_000, all=10_000, every=100_000))
    asyncio.run(some(rounds // 2))
    gc.collect()
    there = len(gc.get_objects())
    asyncio.run(some(rounds // 2))
    gc.collect()
    assert len(gc.get_objects()) - there < LEFT_OBJECTS
    ended = place.counted.ended
    assert (
        ended["done"] + ended["failed"] == rounds // TOGETHER // 2 * 2 * (TOGETHER + 2) and ended["failed"] > rounds / 2
    )


@pytest.mark.parametrize("filling", [b" ", b"\\", b'\\"', b"a", b'"', b"=", b"a=", b"a ", b'a="'])
def test_directives_are_read_once(filling: bytes) -> None:
    """One that is as long as a message may be takes no longer than others; with one way more, each took a minute."""
    for begin in (b"a=", b'a="', b"a", b""):
        for end in (b'"', b"", b"\xff", b",,"):
            said = begin + filling * (MESSAGE_BYTES // len(filling)) + end
            with suppress(WireError):
                parse_directives(said)
