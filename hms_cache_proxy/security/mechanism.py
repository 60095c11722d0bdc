"""What logins have in common: users, steps, protections, refusals.

Job: the types that kerberos.py, service_login.py, digest_md5.py and http_users.py share with the connections that use
them. Must not know: any single mechanism, connections.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from hms_cache_proxy.errors import WireError
from hms_cache_proxy.wire.sasl import MESSAGE_BYTES, Layers

_LEAST_BYTES: Final = 1024  # of a wrapped message, whatever the other side says
OF_HTTP: Final = ("jwt", "header")


@dataclass(frozen=True, slots=True)
class Admitted:
    """Whom a connection or request comes from, and how that is known: a mechanism of SASL, or one of OF_HTTP."""

    user: str
    how: str
    bearer: bytes = field(default=b"", repr=False)
    """The token of an HTTP request, if it is passed through to metastores."""


class LoginRefused(WireError):
    """A client is not let in. It may see the text; `detail` is for the log alone."""

    def __init__(self, message: str, *, detail: str = "") -> None:
        super().__init__(message)
        self.detail = detail or message


class LoginFailed(WireError):
    """The proxy cannot log in to a metastore. `refused`: the metastore has said so."""

    def __init__(self, message: str, *, refused: bool = False) -> None:
        super().__init__(message)
        self.refused = refused


class Step(NamedTuple):
    """What the other side is sent. `done`: this side has nothing more to say."""

    payload: bytes
    done: bool


def content_bytes(said: int, overhead: int) -> int:
    """The longest message that may be wrapped as one, if the other side takes frames of `said` bytes."""
    return max(min(said, MESSAGE_BYTES), _LEAST_BYTES) - overhead


class Protection(Protocol):
    """Wraps and unwraps what follows a login."""

    @property
    def layer(self) -> Layers:
        """What was agreed on."""

    @property
    def most_bytes(self) -> int:
        """The longest message that may be wrapped as one."""

    def wrap(self, message: bytes) -> bytes:
        """A message as the payload of a frame. WireError if it cannot be wrapped."""

    def unwrap(self, payload: bytes) -> bytes:
        """The message in a frame. WireError if it was changed, repeated or not protected as agreed. The payload may be
        changed."""


class Unprotected:
    """What follows a login without a layer."""

    layer = Layers.AUTH
    most_bytes = MESSAGE_BYTES

    def wrap(self, message: bytes) -> bytes:
        """The message as it is."""
        return message

    def unwrap(self, payload: bytes) -> bytes:
        """The payload as it is."""
        return payload


UNPROTECTED: Final = Unprotected()


class IncomingLogin(Protocol):
    """The server's side of a mechanism, for one connection. Errors are LoginRefused."""

    principal: str
    """Who has logged in; known when a Step is done."""

    @property
    def protection(self) -> Protection:
        """What protects the connection from then on."""

    def step(self, response: bytes) -> Step:
        """The answer to a client's response."""


class OwnLogin(Protocol):
    """The client's side of a mechanism, for one connection. Errors are LoginFailed."""

    mechanism: str

    @property
    def protection(self) -> Protection:
        """What protects the connection from now on; known when a Step is done."""

    def step(self, challenge: bytes) -> Step:
        """The answer to the metastore's challenge; to nothing at first."""

    def finish(self, payload: bytes) -> None:
        """The metastore has accepted the login with these words."""
