"""What tests of damaged logins need: a connection without a socket, and messages that are damaged in many ways.

Must not know: mechanisms.
"""

from __future__ import annotations

import asyncio
import random
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from types import SimpleNamespace
from typing import Any, TypeAlias, cast

from hms_cache_proxy.security.mechanism import Admitted
from hms_cache_proxy.server.driver import Client
from hms_cache_proxy.server.hub import Hub
from hms_cache_proxy.server.login import Logins
from hms_cache_proxy.server.mechanisms import Mechanism
from hms_cache_proxy.server.worker_logs import NO_LOGS
from hms_cache_proxy.wire.sasl import MESSAGE_BYTES, Status, message

Damage: TypeAlias = Callable[[int, bytes], Sequence[bytes]]
"""Gets the number of a message and its bytes, and says in which pieces what is sent."""

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


class Counted:
    """The metrics that logins need."""

    def __init__(self) -> None:
        self.ended = {"done": 0, "failed": 0}

    def handshake(self, transport: str, result: str) -> None:
        self.ended[result] += 1

    def limit_broken(self, limit: str) -> None:
        """Behind a login."""


class Served(asyncio.Protocol):
    """Who was let in, and has gone."""

    lost = True


class AttackedLogins:
    """A server's logins. `served`: who was let in."""

    def __init__(self, *mechanisms: Mechanism) -> None:
        for mechanism in mechanisms:
            mechanism.threads = AtOnce()  # type: ignore[assignment]  # any executor will do
        self.counted, self.served = Counted(), list[str]()
        hub = SimpleNamespace(metrics=self.counted, logs=NO_LOGS)
        self.logins = Logins(mechanisms, self._serve, cast(Hub, hub), 1 << 20)

    def _serve(self, admitted: Admitted) -> Client:
        self.served.append(admitted.user)
        return cast(Client, Served())


class Conversation(ABC):
    """One client, which sends its messages damaged in this way."""

    def __init__(self, logins: Logins, damage: Damage) -> None:
        self._logins, self._damage = logins, damage
        self.wire = Wire()
        self.stream = logins.stream("127.0.0.1:1")
        self.stream.connection_made(self.wire)
        self._sent = 0

    async def run(self) -> None:
        """Log in as far as both sides let it, and end the client's side behind the last message."""
        login = asyncio.ensure_future(self._logins.let_in(self.stream, "127.0.0.1:1", within_tls=True))
        await self.talk()
        self.stream.eof_received()
        await login

    @abstractmethod
    async def talk(self) -> None:
        """The client's side of a login."""

    def send(self, whole: bytes) -> None:
        for piece in self._damage(self._sent, whole):
            if piece and not self.wire.closing:
                self.stream.data_received(piece)
        self._sent += 1


def intact(number: int, whole: bytes) -> Sequence[bytes]:
    return [whole]


def damaged(chance: random.Random, messages: int) -> Damage:
    """One message of a login of so many is damaged, in one of several ways, and cut into pieces."""
    at, how = chance.randrange(messages), chance.choice(WAYS)

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
