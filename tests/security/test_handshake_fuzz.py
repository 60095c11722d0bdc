"""Logins with a token (DIGEST-MD5) and with a password (PLAIN), damaged at every place: 100,000 in full.

Whatever a client sends, its login ends, and is refused unless it is right; others log in meanwhile; nothing is left of
it.
"""

from __future__ import annotations

import asyncio
import gc
import random
import struct
from base64 import b64encode
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

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

TOGETHER = 50
ANSWER_TURNS = 10  # of the loop, in which a server that answers has done so
LEFT_OBJECTS = 2_000  # that may be there after thousands of logins and were not before: caches of libraries


class AtOnce(Executor):
    """Runs everything where it is asked for."""

    def submit(self, run: Callable[..., Any], /, *args: Any, **named: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(run(*args, **named))
        except BaseException as error:
            done.set_exception(error)
        return done


class Wire(asyncio.Transport):
    """The client's connection: keeps what the server writes."""

    def __init__(self) -> None:
        super().__init__()
        self.sent, self.closing, self.reading = b"", False, True
        self.news = asyncio.Event()

    def write(self, data: Any) -> None:
        self.sent += bytes(data)
        self.news.set()

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True
        self.news.set()

    abort = close

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True


class Passwords:
    """One user."""

    def check(self, user: str, password: bytes) -> str:
        if (user, password) != ("bob", b"secret"):
            raise WrongPassword(user)
        return user


class Counted:
    """The metrics that logins need."""

    def __init__(self) -> None:
        self.ended = {"done": 0, "failed": 0}

    def handshake(self, transport: str, result: str) -> None:
        self.ended[result] += 1

    def limit_broken(self, limit: str) -> None:
        """Behind a login."""


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
        return cast(Client, _Served())


class _Served(asyncio.Protocol):
    lost = True


class Conversation:
    """One client. `damage` gets the number of a message and its bytes, and says in which pieces what is sent."""

    def __init__(self, place: Place, layer: Layers, damage: Callable[[int, bytes], Sequence[bytes]]) -> None:
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


def intact(number: int, whole: bytes) -> Sequence[bytes]:
    return [whole]


def damaged(chance: random.Random) -> Callable[[int, bytes], Sequence[bytes]]:
    """One message of a login is damaged, in one of several ways, and cut into pieces."""
    at, how = chance.randrange(3), chance.choice(WAYS)

    def damage(number: int, whole: bytes) -> Sequence[bytes]:
        said = how(chance, whole) if number == at else whole
        cuts = sorted(chance.randrange(len(said) + 1) for _ in range(chance.randrange(3)))
        return [said[start:end] for start, end in zip([0, *cuts], [*cuts, len(said)], strict=True)]

    return damage


def _flip(chance: random.Random, whole: bytes) -> bytes:
    said = bytearray(whole)
    for _ in range(chance.randrange(1, 4)):
        said[chance.randrange(len(said))] = chance.randrange(256)
    return bytes(said)


def _cut(chance: random.Random, whole: bytes) -> bytes:
    return whole[: chance.randrange(len(whole))]


def _length(chance: random.Random, whole: bytes) -> bytes:
    size = chance.choice([0, 1, MESSAGE_BYTES, MESSAGE_BYTES + 1, 2**31 - 1, 2**31, 2**32 - 1, chance.randrange(2**32)])
    return whole[:1] + struct.pack(">I", size) + whole[5:]


def _status(chance: random.Random, whole: bytes) -> bytes:
    return bytes([chance.randrange(256)]) + whole[1:]


def _long(chance: random.Random, whole: bytes) -> bytes:
    filling = chance.choice([b" ", b"\\", b'"', b"a", b",", b"=", b"\0", b"a=,", b"\xff"]) * chance.randrange(3000)
    at = chance.randrange(5, len(whole) + 1)
    payload = (whole[5:at] + filling + whole[at:])[: MESSAGE_BYTES + 10]
    return message(Status(whole[0]), payload)


def _noise(chance: random.Random, whole: bytes) -> bytes:
    return whole[:5] + chance.randbytes(len(whole) - 5)


def _again(chance: random.Random, whole: bytes) -> bytes:
    return whole * chance.randrange(2, 4)


def _directives(chance: random.Random, whole: bytes) -> bytes:
    """Of a response of DIGEST-MD5: one is repeated, left out, or has another value."""
    parts = whole[5:].split(b",")
    at = chance.randrange(len(parts))
    name = parts[at].partition(b"=")[0]
    values = [b'""', b"", b'"' + chance.randbytes(8) + b'"', b"9" * 30, b'"\\"', b"auth-conf", b"null/default"]
    parts[at : at + 1] = chance.choice([[], [parts[at]] * 2, [name + b"=" + chance.choice(values)], [name]])
    return message(Status(whole[0]), b",".join(parts))


WAYS = [_flip, _flip, _cut, _length, _status, _long, _noise, _again, _directives]


def test_damaged_logins(tmp_path: Path) -> None:
    chance = chance_of("damaged logins")
    place = Place(tmp_path)

    async def some(count: int) -> None:
        for _ in range(count // TOGETHER):
            layers = list(Layers)
            good = [Conversation(place, chance.choice(layers), intact) for _ in range(2)]
            bad = [Conversation(place, chance.choice(layers), damaged(chance)) for _ in range(TOGETHER)]
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
