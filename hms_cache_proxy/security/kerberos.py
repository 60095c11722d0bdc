"""GSSAPI for clients that log in with Kerberos: the proxy's side of the mechanism (RFC 4752), without I/O.

Job: `Keytab` makes a `Login` for each connection; a Login takes the client's responses until it knows the principal and
the protection, which then wraps frames. The KDC is never asked: the ticket and the keytab are enough. Must not know:
connections, framing (wire/sasl.py), short names (principals.py). Errors are LoginRefused. Owner: one connection; a step
may run in a thread, because it takes milliseconds.
"""

from __future__ import annotations

from typing import Any

from hms_cache_proxy.errors import ConfigError, WireError
from hms_cache_proxy.security import gss
from hms_cache_proxy.security.mechanism import LoginRefused, Step, content_bytes
from hms_cache_proxy.wire.sasl import MESSAGE_BYTES, Layers, offer, parse_choice

KEY = "kerberos.keytab"
_OVERHEAD_BYTES = 256  # of a wrapped message; 60 with the ciphers of today


class GssProtection:
    """Wraps and unwraps what follows a login."""

    __slots__ = ("_context", "_errors", "layer", "most_bytes")

    def __init__(self, context: Any, errors: Any, layer: Layers, most_bytes: int) -> None:
        self._context = context
        self._errors = errors
        self.layer = layer
        self.most_bytes = content_bytes(most_bytes, _OVERHEAD_BYTES)

    def wrap(self, message: bytes) -> bytes:
        """A message as the payload of a frame. WireError if the library refuses."""
        if self.layer is Layers.AUTH:
            return message
        try:
            wrapped: bytes = self._context.wrap(message, self.layer is Layers.AUTH_CONF).message
        except self._errors as error:
            raise WireError(f"a frame cannot be wrapped: {gss.why(error)}") from error
        return wrapped

    def unwrap(self, payload: bytes) -> bytes:
        """The message in a frame. WireError if it was changed, repeated or not protected as agreed. The library may
        change the payload."""
        if self.layer is Layers.AUTH:
            return payload
        try:
            found = self._context.unwrap(payload)
        except self._errors as error:
            raise WireError(f"a frame that is not wrapped as agreed: {gss.why(error)}") from error
        if self.layer is Layers.AUTH_CONF and not found.encrypted:
            raise WireError("a frame that is not encrypted, as was agreed")
        message: bytes = found.message
        return message


class Keytab:
    """The proxy's keys. `layers`: the protections that are offered. ConfigError if the file cannot be used."""

    def __init__(self, file: str, layers: Layers) -> None:
        self._gssapi = gss.library(KEY)
        self._layers = layers
        try:
            self._keys = self._gssapi.Credentials(usage="accept", store={"keytab": file})
        except self._gssapi.exceptions.GSSError as error:
            raise ConfigError(f"{KEY}: {file}: {gss.why(error)}") from error

    def login(self) -> Login:
        """For one connection."""
        return Login(self._gssapi, self._keys, self._layers)


class Login:
    """One client. `principal` and `protection` are known when a Step is done."""

    __slots__ = ("_context", "_errors", "_offered", "_offering", "_protection", "principal")

    def __init__(self, gssapi: Any, keys: Any, offered: Layers) -> None:
        self._context = gssapi.SecurityContext(creds=keys, usage="accept")
        self._context.__DEFER_STEP_ERRORS__ = False  # or a refusal comes as a challenge, and is raised one step later
        self._errors = gssapi.exceptions.GSSError
        self._offered = offered
        self._offering = False
        self._protection: GssProtection | None = None
        self.principal = ""

    @property
    def protection(self) -> GssProtection:
        """What protects the connection from now on."""
        assert self._protection is not None, "the login is not done"
        return self._protection

    def step(self, response: bytes) -> Step:
        """The answer to a client's response."""
        try:
            if not self._context.complete:
                if not response:  # the library would ask for another one, again and again
                    raise LoginRefused("GSS initiate failed", detail="an empty response")
                challenge = self._context.step(response)
                if challenge or not self._context.complete:
                    return Step(challenge or b"", False)
                response = b""  # without mutual authentication the offer follows at once
            if not self._offering:
                return self._offer(response)
            return self._choose(self._context.unwrap(response).message)
        except self._errors as error:
            raise LoginRefused("GSS initiate failed", detail=gss.why(error)) from error

    def _offer(self, response: bytes) -> Step:
        if response:
            raise LoginRefused("a response where none is due")
        self._offering = True
        return Step(self._context.wrap(offer(self._offered), False).message, False)

    def _choose(self, payload: bytes) -> Step:
        choice = parse_choice(payload, self._offered)
        principal = str(self._context.initiator_name)
        if choice.authzid not in ("", principal):
            raise LoginRefused("Problem with callback handler", detail=f"{principal} asks to act as {choice.authzid!r}")
        self.principal = principal
        self._protection = GssProtection(self._context, self._errors, choice.layer, choice.size or MESSAGE_BYTES)
        return Step(b"", True)
