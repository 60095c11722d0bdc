"""Both sides of DIGEST-MD5 (RFC 2831), as Hadoop's services use it for delegation tokens; without I/O.

Job: a `ServerLogin` lets in a client that knows the password of its user name, a `ClientLogin` logs the proxy in; both
result in a `DigestProtection`. The user name is a token's identifier in base64, and the password is the token's
password in base64. The realm is `default` and the URI `null/default` on both sides, whatever the host is called
(TSaslTransport over Java's SASL). Of the ciphers, only rc4 is offered and chosen: it needs the package cryptography.
Must not know: tokens, connections.
Invariant: a nonce is used for one login. Owner: one connection.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from hms_cache_proxy.errors import ConfigError, WireError
from hms_cache_proxy.security.mechanism import LoginFailed, LoginRefused, Step, content_bytes
from hms_cache_proxy.wire.sasl import MESSAGE_BYTES, Layers, named_layers

MECHANISM: Final = "DIGEST-MD5"
REALM: Final = b"default"
URI: Final = b"null/default"
CIPHER: Final = b"rc4"
_NONCE_BYTES: Final = 30
_COUNT: Final = b"00000001"  # a nonce is used once
_MAC_BYTES: Final = 10
_ENDING: Final = b"\0\1"  # the type of a message, before its number
_TRAILER_BYTES: Final = _MAC_BYTES + 6
_OVERHEAD_BYTES: Final = 32  # of a wrapped message, by the widest count
# Nothing is tried a second way ("*+"): a value that begins with 64 kB of blanks would take a minute.
_DIRECTIVE: Final = re.compile(rb'\s*+([A-Za-z][A-Za-z0-9-]*+)\s*+=\s*+(?:"((?:[^"\\]|\\.)*+)"|([^",\s]*+))\s*+(?:,|$)')
_WORDS: Final = {b"auth": Layers.AUTH, b"auth-int": Layers.AUTH_INT, b"auth-conf": Layers.AUTH_CONF}
_SIGNING: Final = b"Digest session key to %s signing key magic constant"
_SEALING: Final = b"Digest H(A1) to %s sealing key magic constant"
_CLIENTS, _SERVERS = b"client-to-server", b"server-to-client"


class DigestInput(NamedTuple):
    """What both sides hash."""

    user_name: bytes
    password: bytes
    nonce: bytes
    cnonce: bytes
    qop: bytes
    realm: bytes = REALM
    uri: bytes = URI

    def session_key(self) -> bytes:
        """H(A1) of md5-sess, from which the keys of a protection are made."""
        secret = _md5(b":".join((self.user_name, self.realm, self.password)))
        return _md5(b":".join((secret, self.nonce, self.cnonce)))

    def response(self, method: bytes) -> bytes:
        """The client's response (AUTHENTICATE), or the server's (empty)."""
        second = method + b":" + self.uri + (b"" if self.qop == b"auth" else b":" + b"0" * 32)
        parts = (_hex(self.session_key()), self.nonce, _COUNT, self.cnonce, self.qop, _hex(_md5(second)))
        return _hex(_md5(b":".join(parts)))


class DigestProtection:
    """Messages after a login: bare, with a checksum, or encrypted, numbered in each direction."""

    def __init__(self, session_key: bytes, layer: Layers, most_bytes: int, *, client: bool) -> None:
        self.layer = layer
        self.most_bytes = content_bytes(most_bytes, _OVERHEAD_BYTES)
        ways = (_CLIENTS, _SERVERS) if client else (_SERVERS, _CLIENTS)
        self._out_key, self._in_key = (_md5(session_key + _SIGNING % way) for way in ways)
        self._sent = self._received = 0
        self._seal: Any = None
        self._unseal: Any = None
        if layer is Layers.AUTH_CONF:
            self._seal, self._unseal = (_rc4(_md5(session_key + _SEALING % way)) for way in ways)

    def wrap(self, message: bytes) -> bytes:
        """A message as the payload of a frame."""
        if self.layer is Layers.AUTH:
            return message
        number, self._sent = self._sent.to_bytes(4, "big"), (self._sent + 1) % 2**32
        content = message + _mac(self._out_key, number, message)
        if self._seal is not None:
            content = self._seal.update(content)
        return content + _ENDING + number

    def unwrap(self, payload: bytes) -> bytes:
        """The message in a frame."""
        if self.layer is Layers.AUTH:
            return payload
        number, self._received = self._received.to_bytes(4, "big"), (self._received + 1) % 2**32
        if len(payload) < _TRAILER_BYTES or payload[-6:] != _ENDING + number:
            raise WireError("a frame that is not wrapped as agreed: wrong number")
        content = bytes(payload[:-6])
        if self._unseal is not None:
            content = self._unseal.update(content)
        message = content[:-_MAC_BYTES]
        if not hmac.compare_digest(content[-_MAC_BYTES:], _mac(self._in_key, number, message)):
            raise WireError("a frame that is not wrapped as agreed: wrong checksum")
        return message


class ServerLogin:
    """One client. `password_of` is given the user name; it raises LoginRefused. `protection` and `principal`, which is
    the user name, are known when a Step is done."""

    def __init__(self, password_of: Callable[[bytes], bytes], offered: Layers) -> None:
        self._password_of = password_of
        self._offered = offered
        self._nonce = b""
        self._protection: DigestProtection | None = None
        self.principal = ""

    @property
    def protection(self) -> DigestProtection:
        """What protects the connection from now on."""
        assert self._protection is not None, "the login is not done"
        return self._protection

    def step(self, response: bytes) -> Step:
        """The answer to a client's response."""
        if not self._nonce:
            return self._challenge(response)
        given = parse_directives(response)
        name, uri, realm = (given.get(key, b"") for key in ("username", "digest-uri", "realm"))
        if (given.get("nonce"), given.get("nc"), uri, realm) != (self._nonce, _COUNT, URI, REALM):
            raise LoginRefused("DIGEST-MD5: digest response format violation", detail="DIGEST-MD5: another login's")
        if given.get("authzid", name) != name:
            raise LoginRefused("Problem with callback handler", detail="DIGEST-MD5: asks to act as somebody else")
        layer = layer_of(given)
        if not layer & self._offered or (layer is Layers.AUTH_CONF and given.get("cipher") != CIPHER):
            raise LoginRefused("DIGEST-MD5: digest response format violation", detail="DIGEST-MD5: protection")
        facts = DigestInput(
            name, self._password_of(name), self._nonce, given.get("cnonce", b""), given.get("qop", b"auth")
        )
        if not hmac.compare_digest(facts.response(b"AUTHENTICATE"), given.get("response", b"")):
            text = "DIGEST-MD5: digest response format violation. Mismatched response."
            raise LoginRefused(text, detail="DIGEST-MD5: wrong password")
        most = _size(given, LoginRefused)
        self.principal = name.decode("ascii", "replace")
        self._protection = DigestProtection(facts.session_key(), layer, most, client=False)
        return Step(b"rspauth=" + facts.response(b""), True)

    def _challenge(self, response: bytes) -> Step:
        if response:
            raise LoginRefused("a response where none is due")
        self._nonce = b64encode(os.urandom(_NONCE_BYTES))
        qop = b",".join(word for word, layer in _WORDS.items() if layer & self._offered)
        cipher = b',cipher="' + CIPHER + b'"' if self._offered & Layers.AUTH_CONF else b""
        parts = b'realm="%s",nonce="%s",qop="%s",charset=utf-8%s,algorithm=md5-sess'
        return Step(parts % (REALM, self._nonce, qop, cipher), False)


class ClientLogin:
    """One connection to a metastore. `protection` is known when a Step is done."""

    mechanism = MECHANISM

    def __init__(self, user_name: bytes, password: bytes, allowed: Layers) -> None:
        self._user_name = user_name
        self._password = password
        self._allowed = allowed
        self._input: DigestInput | None = None
        self._protection: DigestProtection | None = None

    @property
    def protection(self) -> DigestProtection:
        """What protects the connection from now on."""
        assert self._protection is not None, "the login is not done"
        return self._protection

    def step(self, challenge: bytes) -> Step:
        """The answer to the metastore's challenge; nothing to nothing, as the metastore speaks first."""
        if not challenge and self._input is None:
            return Step(b"", False)
        if self._input is not None:
            raise LoginFailed("DIGEST-MD5: a second challenge")
        try:
            given = parse_directives(challenge)
        except WireError as error:
            raise LoginFailed(f"DIGEST-MD5: {error}") from error
        word = self._choice(given)
        if not given.get("nonce") or given.get("realm", REALM) != REALM:
            raise LoginFailed("DIGEST-MD5: a challenge without a nonce, or of another realm")
        facts = self._input = DigestInput(
            self._user_name, self._password, given["nonce"], b64encode(os.urandom(_NONCE_BYTES)), word
        )
        most = _size(given, LoginFailed)
        self._protection = DigestProtection(facts.session_key(), _WORDS[word], most, client=True)
        cipher = b',cipher="' + CIPHER + b'"' if word == b"auth-conf" else b""
        parts = (
            b'charset=utf-8,username="%s",realm="%s",nonce="%s",nc=%s,cnonce="%s",digest-uri="%s",maxbuf=%d,response=%s'
            b",qop=%s%s"
        )
        said = (self._user_name, REALM, facts.nonce, _COUNT, facts.cnonce, URI, MESSAGE_BYTES)
        return Step(parts % (*said, facts.response(b"AUTHENTICATE"), word, cipher), True)

    def finish(self, payload: bytes) -> None:
        """The metastore must know the password too."""
        assert self._input is not None, "the login is not done"
        if not hmac.compare_digest(payload, b"rspauth=" + self._input.response(b"")):
            raise LoginFailed("DIGEST-MD5: the metastore does not know the token's password")

    def _choice(self, given: Mapping[str, bytes]) -> bytes:
        """The strongest protection that both know."""
        offered = {word.strip() for word in given.get("qop", b"auth").split(b",")}
        if CIPHER not in given.get("cipher", b"").split(b","):
            offered.discard(b"auth-conf")
        for word in (b"auth-conf", b"auth-int", b"auth"):
            if word in offered and _WORDS[word] & self._allowed:
                return word
        there = given.get("qop", b"").decode("utf-8", "replace")
        raise LoginFailed(
            f"DIGEST-MD5: no common protection: hadoop.rpc.protection there is {there},"
            f" kerberos.protection allows {named_layers(self._allowed)}"
        )


def parse_directives(text: bytes) -> dict[str, bytes]:
    """`name=value` and `name="value"`, with commas between them. WireError if it is not so, or a name is repeated."""
    found: dict[str, bytes] = {}
    at = 0
    while at < len(text):
        one = _DIRECTIVE.match(text, at)
        if one is None:
            raise WireError("DIGEST-MD5: not a list of directives")
        name = one[1].decode().lower()
        if name in found:
            raise WireError(f"DIGEST-MD5: {name} is repeated")
        found[name] = one[3] if one[2] is None else re.sub(rb"\\(.)", rb"\1", one[2])
        at = one.end()
    return found


def layer_of(response: Mapping[str, bytes]) -> Layers:
    """The protection that a client's response names; nothing for an unknown one."""
    return _WORDS.get(response.get("qop", b"auth"), Layers(0))


def check_cipher(key: str) -> None:
    """ConfigError, which names the setting that needs it, if the package for auth-conf is not installed."""
    try:
        _rc4(b"\0" * 16)
    except ImportError as error:
        raise ConfigError(
            f"{key}: auth-conf with tokens needs a package: pip install 'hms-cache-proxy[kerberos]' ({error})"
        ) from error


def _rc4(key: bytes) -> Any:
    """RC4's stream: the same in both directions."""
    from cryptography.hazmat.decrepit.ciphers.algorithms import ARC4  # an extra; DIGEST-MD5 has nothing better
    from cryptography.hazmat.primitives.ciphers import Cipher

    return Cipher(ARC4(key), None).encryptor()


def _size(given: Mapping[str, bytes], error: type[LoginRefused] | type[LoginFailed]) -> int:
    text = given.get("maxbuf", b"%d" % MESSAGE_BYTES)
    if not re.fullmatch(rb"\d{1,9}", text):
        raise error("DIGEST-MD5: maxbuf is not a number")
    return int(text)


def _mac(key: bytes, number: bytes, message: bytes) -> bytes:
    return hmac.digest(key, number + message, "md5")[:_MAC_BYTES]


def _md5(data: bytes) -> bytes:
    return hashlib.md5(data, usedforsecurity=False).digest()


def _hex(data: bytes) -> bytes:
    return data.hex().encode()
