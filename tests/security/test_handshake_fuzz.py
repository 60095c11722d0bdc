"""Logins with a token (DIGEST-MD5) and with a password (PLAIN), damaged at every place: 100,000 in full.

Whatever a client sends, its login ends, and is refused unless it is right; others log in meanwhile; nothing is left of
it.
"""

from __future__ import annotations

import asyncio
import gc
from base64 import b64encode
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from hms_cache_proxy.config.tokens import TokensSection
from hms_cache_proxy.errors import WireError
from hms_cache_proxy.security import token_keys
from hms_cache_proxy.security.cancelled_tokens import CancelledTokens
from hms_cache_proxy.security.digest_md5 import ClientLogin, parse_directives
from hms_cache_proxy.security.passwords import Remembered, WrongPassword
from hms_cache_proxy.security.principals import ShortNames
from hms_cache_proxy.security.renewal import Renewable
from hms_cache_proxy.security.token_issuer import Caller, TokenIssuer
from hms_cache_proxy.security.tokens import Token, parse_token
from hms_cache_proxy.server.mechanisms import PasswordMechanism, TokenMechanism
from hms_cache_proxy.wire.message import NEED_MORE
from hms_cache_proxy.wire.sasl import EVERY_LAYER, MESSAGE_BYTES, Layers, Status, message, parse_message
from tests.chance import chance as chance_of
from tests.lengths import by_tier
from tests.security.damaged import (
    ANSWER_TURNS,
    LEFT_OBJECTS,
    TOGETHER,
    AttackedLogins,
    Conversation,
    Damage,
    damaged,
    intact,
)

MESSAGES = 3  # of the client, at most
WAYS_IN = ["DIGEST-MD5", "PLAIN"]


class Passwords:
    """One user."""

    def check(self, user: str, password: bytes) -> str:
        if (user, password) != ("bob", b"secret"):
            raise WrongPassword(user)
        return user


class Place(AttackedLogins):
    """A server's logins, and a good token."""

    def __init__(self, directory: Path) -> None:
        keys = token_keys.followed_keys("", directory / "token-key")
        cancelled = CancelledTokens(directory / "cancelled")
        issuer = TokenIssuer(TokensSection(), keys, cancelled, ShortNames(["DEFAULT"], "R", key="rules"))
        self.token: Token = parse_token(issuer.issue(Caller("alice", "127.0.0.1", False), "alice", "yarn")[0])
        passwords = Renewable(lambda: Remembered(Passwords(), 0), [])
        super().__init__(TokenMechanism(issuer, EVERY_LAYER), PasswordMechanism(passwords, only_within_tls=True))


class SecretLogin(Conversation):
    """A client with the token, or with a password."""

    def __init__(self, place: Place, mechanism: str, layer: Layers, damage: Damage) -> None:
        super().__init__(place.logins, damage)
        self._token, self._mechanism, self._layer = place.token, mechanism, layer

    async def talk(self) -> None:
        self.send(message(Status.START, self._mechanism.encode()))
        if self._mechanism == "PLAIN":
            self.send(message(Status.COMPLETE, b"\0bob\0secret"))
            return
        self.send(message(Status.OK))
        for _ in range(ANSWER_TURNS):
            await asyncio.sleep(0)
        challenge = parse_message(self.wire.sent)
        if challenge is not NEED_MORE and challenge.status is Status.OK:
            client = ClientLogin(b64encode(self._token.identifier), b64encode(self._token.password), self._layer)
            client.step(b"")
            self.send(message(Status.OK, client.step(challenge.payload).payload))


def attacked(directory: Path, logins: int) -> Mapping[str, int]:
    """How so many damaged logins ended, and those of clients beside them that do nothing wrong."""
    chance = chance_of("damaged logins")
    place = Place(directory)

    async def some(count: int) -> None:
        for _ in range(count // TOGETHER):
            layers = list(Layers)
            good = [SecretLogin(place, way, chance.choice(layers), intact) for way in WAYS_IN]
            bad = [
                SecretLogin(place, chance.choice(WAYS_IN), chance.choice(layers), damaged(chance, MESSAGES))
                for _ in range(TOGETHER)
            ]
            await asyncio.gather(*(one.run() for one in (*good, *bad)))
            assert not any(one.wire.closing for one in good), "who logs in rightly is let in, whatever others do"
            assert set(place.served) == {"alice", "bob"}
            assert all(len(one.stream._received) <= 4 * MESSAGE_BYTES for one in bad)
            place.served.clear()
            for client, why_over in list(place.logins._for_a_time.items()):
                place.logins._look_at(client, why_over)  # as it does once a second

    asyncio.run(some(logins // 2))
    gc.collect()
    there = len(gc.get_objects())
    asyncio.run(some(logins // 2))
    gc.collect()
    assert len(gc.get_objects()) - there < LEFT_OBJECTS
    ended = place.counted.ended
    assert ended["done"] + ended["failed"] == logins // TOGETHER // 2 * 2 * (TOGETHER + len(WAYS_IN))
    assert ended["failed"] > logins / 2
    return ended


def test_damaged_logins(tmp_path: Path) -> None:
    attacked(tmp_path, int(by_tier(test=1_000, all=10_000, every=100_000)))


@pytest.mark.parametrize("filling", [b" ", b"\\", b'\\"', b"a", b'"', b"=", b"a=", b"a ", b'a="'])
def test_directives_are_read_once(filling: bytes) -> None:
    """One that is as long as a message may be takes no longer than others; with one way more, each took a minute."""
    for begin in (b"a=", b'a="', b"a", b""):
        for end in (b'"', b"", b"\xff", b",,"):
            said = begin + filling * (MESSAGE_BYTES // len(filling)) + end
            with suppress(WireError):
                parse_directives(said)
