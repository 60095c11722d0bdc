"""Logins with a password: SASL PLAIN (RFC 4616), and a memory of recent checks.

Job: `PlainLogin` takes a client's one response, which names the user. `Remembered` asks a checker, which is a file
(password_file.py) or a directory (directory.py), and remembers the answer for a while. Must not know: connections,
framing.
Invariants
- An empty password is never passed on: a directory would take it for an anonymous bind, and accept it.
- A password that was refused is not tried again within `seconds`: a client that repeats it does not use up the attempts
  that the directory allows its user. If there was no answer, nothing is remembered.
- No password is kept, only its HMAC-SHA-256 with a key that exists as long as the process.
Owner: one worker; `check` is called in several threads.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from time import monotonic
from typing import Final, NamedTuple, Protocol

from hms_cache_proxy.security.mechanism import UNPROTECTED, LoginRefused, Protection, Step

NAME_BYTES: Final = 256  # of a user's name
PASSWORD_BYTES: Final = 1024
_ENTRIES: Final = 10_000  # that are remembered
_REFUSED: Final = "Error validating the login"  # Hive's text, whatever the reason


class Passwords(Protocol):
    """What checks passwords."""

    def check(self, user: str, password: bytes) -> str:
        """The user's name, as it is spelled where passwords are kept. LoginRefused: it is not this user's password, or
        that cannot be found out."""


class WrongPassword(LoginRefused):
    """There is no such user with this password."""

    def __init__(self, detail: str) -> None:
        super().__init__(_REFUSED, detail=detail)


class Unchecked(LoginRefused):
    """It cannot be found out whether a password is right."""

    def __init__(self, detail: str) -> None:
        super().__init__("Passwords cannot be checked at the moment", detail=detail)


class _Outcome(NamedTuple):
    user: str  # empty: refused
    until_s: float


class Remembered:
    """Passwords, as `inner` checks them. `seconds`: for how long an answer holds; 0: each login is checked."""

    def __init__(self, inner: Passwords, seconds: float, clock: Callable[[], float] = monotonic) -> None:
        self._inner = inner
        self._seconds = seconds
        self._clock = clock
        self._key = os.urandom(32)
        self._outcomes: OrderedDict[bytes, _Outcome] = OrderedDict()
        self._lock = threading.Lock()

    def check(self, user: str, password: bytes) -> str:
        """As Passwords has it."""
        if not self._seconds:
            return self._inner.check(user, password)
        digest = hmac.digest(self._key, b"%b\0%b" % (user.encode(), password), hashlib.sha256)
        with self._lock:
            known = self._outcomes.get(digest)
        if known is not None and self._clock() < known.until_s:
            if not known.user:
                raise WrongPassword(f"a password of {user} that was refused a moment ago")
            return known.user
        try:
            name = self._inner.check(user, password)
        except WrongPassword:
            self._keep(digest, "")
            raise
        self._keep(digest, name)
        return name

    def forget(self) -> None:
        """What was known may have changed."""
        with self._lock:
            self._outcomes.clear()

    def _keep(self, digest: bytes, user: str) -> None:
        with self._lock:
            self._outcomes[digest] = _Outcome(user, self._clock() + self._seconds)
            self._outcomes.move_to_end(digest)
            if len(self._outcomes) > _ENTRIES:
                self._outcomes.popitem(last=False)


class PlainLogin:
    """One client. `principal` is known when a Step is done."""

    __slots__ = ("_passwords", "principal")

    def __init__(self, passwords: Passwords) -> None:
        self._passwords = passwords
        self.principal = ""

    @property
    def protection(self) -> Protection:
        """None: PLAIN has no layer."""
        return UNPROTECTED

    def step(self, response: bytes) -> Step:
        """The end of the login. It may take seconds."""
        user, password = parse_plain(response)
        self.principal = self._passwords.check(user, password)
        return Step(b"", True)


def parse_plain(response: bytes) -> tuple[str, bytes]:
    """User and password of a response. LoginRefused if it is none, or asks to act as somebody else."""
    parts = response.split(b"\0")
    if len(parts) != 3:
        raise LoginRefused(_REFUSED, detail=f"a response of PLAIN with {len(parts) - 1} NULs instead of 2")
    authzid, name, password = parts
    try:
        user = name.decode("utf-8")
    except UnicodeDecodeError as error:
        raise WrongPassword("a user's name that is not UTF-8") from error
    if not user or len(name) > NAME_BYTES or user != user.strip() or not user.isprintable():
        raise WrongPassword(f"{user[:NAME_BYTES]!r} is not the name of a user")
    if not password or len(password) > PASSWORD_BYTES:
        raise WrongPassword(f"a password of {user} with {len(password)} bytes")
    if authzid not in (b"", name):
        asked = authzid[:NAME_BYTES].decode("utf-8", "replace")
        raise LoginRefused("Problem with callback handler", detail=f"{user} asks to act as {asked!r}")
    return user, password
