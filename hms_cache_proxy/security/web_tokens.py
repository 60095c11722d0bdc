"""Finds out whose a signed token (JWT) is, and checks it against a set of public keys (JWKS).

Job: read a key set from its JSON, turn tokens into users, and remember tokens that have been checked, so that a further
request costs only a lookup.
Must not know: where keys come from, HTTP.
Invariants: only asymmetric algorithms are accepted, and of these only those of the key's own type, so a token cannot
choose how it is checked. A token must have an end (`exp`). A remembered token is forgotten when the keys change, and is
not accepted after its end. Reasons have nothing of a token, because they are logged. Owner: one worker's loop.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import jwt
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from hms_cache_proxy.config.http_transport import HttpTransportSection
from hms_cache_proxy.errors import ConfigError, WireError

TOKENS: Final = 10_000  # that are remembered; a token and its user have some 2 kB
RSA_BITS: Final = 2048
USER_BYTES: Final = 512
_ALGORITHMS: Final = {
    ("RSA", None): ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    ("EC", "P-256"): ("ES256",),
    ("EC", "P-384"): ("ES384",),
    ("EC", "P-521"): ("ES512",),
    ("OKP", "Ed25519"): ("EdDSA",),
    ("OKP", "Ed448"): ("EdDSA",),
}
_READERS: Final[dict[str, Any]] = {"RSA": RSAAlgorithm, "EC": ECAlgorithm, "OKP": OKPAlgorithm}
_REASONS: Final[tuple[tuple[type[Exception], str], ...]] = (
    (jwt.ExpiredSignatureError, "it has expired"),
    (jwt.ImmatureSignatureError, "it is not valid yet"),
    (jwt.InvalidAudienceError, "it is for another audience (http_transport.audience)"),
    (jwt.InvalidIssuerError, "it is from another issuer (http_transport.issuer)"),
    (
        jwt.MissingRequiredClaimError,
        "a claim is missing: exp, http_transport.user_claim, or one that is checked",
    ),
    (jwt.InvalidAlgorithmError, "its algorithm is none of the key's"),
    (jwt.InvalidSignatureError, "its signature is not of the key that it names"),
    (jwt.DecodeError, "it is not a signed token"),
)
_TOKEN: Final = "the token is refused: "


class TokenRefused(WireError):
    """`unknown_key`: the token names a key that is not in the set; a newer set may have it."""

    def __init__(self, why: str, *, unknown_key: bool = False) -> None:
        super().__init__(_TOKEN + why)
        self.unknown_key = unknown_key


class SigningKey(NamedTuple):
    """A public key; `kid` is the name that tokens call it by."""

    kid: str | None
    algorithms: tuple[str, ...]
    key: Any


def parse_keys(text: bytes, source: str) -> tuple[SigningKey, ...]:
    """The keys of a set that sign, without those of kinds that are not supported (RFC 7517, section 5). ConfigError
    unless there is at least one, and none is private or weak."""
    try:
        given = [one for one in json.loads(text)["keys"] if one.get("use", "sig") == "sig" and one.get("kty") != "oct"]
        found = [key for key in map(_key, given) if key is not None]
    except (ValueError, KeyError, TypeError, AttributeError, jwt.PyJWTError) as error:
        raise ConfigError(f"http_transport.jwks: {source}: {error}") from error
    if not found:
        why = "there is no public key for signatures in it"
        why += "".join(f", but one of an unsupported kind: {_kind(one)}" for one in given[:1])
        raise ConfigError(f"http_transport.jwks: {source}: {why}")
    return tuple(found)


def read_keys(file: str) -> tuple[SigningKey, ...]:
    """The keys in a file. ConfigError if it cannot be used."""
    try:
        text = Path(file).read_bytes()
    except OSError as error:
        why = f"http_transport.jwks: cannot read {file}: {error.strerror}"
        raise ConfigError(why) from error
    return parse_keys(text, file)


def _kind(given: dict[str, Any]) -> str:
    return " ".join(str(given[name]) for name in ("kty", "crv", "alg") if name in given)


def _key(given: dict[str, Any]) -> SigningKey | None:
    """None: its kind is not supported."""
    if "d" in given:
        raise ValueError("it holds a private key, which belongs to the issuer alone")
    kind = given.get("kty")
    algorithms = _ALGORITHMS.get((str(kind), None if kind == "RSA" else given.get("crv")), ())
    if "alg" in given:
        algorithms = tuple(name for name in algorithms if name == given["alg"])
    if not algorithms:
        return None
    key = _READERS[str(kind)].from_jwk(given)
    if kind == "RSA" and key.key_size < RSA_BITS:
        raise ValueError(f"an RSA key of {key.key_size} bits; at least {RSA_BITS} are required")
    return SigningKey(given.get("kid"), algorithms, key)


@dataclass(slots=True)
class WebTokens:
    """The users of tokens. `keys` is empty as long as none are known."""

    settings: HttpTransportSection
    keys: Sequence[SigningKey] = ()
    _known: dict[bytes, tuple[str, float]] = field(default_factory=dict)

    def use(self, keys: Sequence[SigningKey]) -> None:
        """From now on, tokens are checked with these."""
        self.keys = keys
        self._known.clear()

    def user(self, token: bytes) -> str:
        """Whose token it is. TokenRefused if it is not believed."""
        now_s = time.time()
        known = self._known.get(token)
        if known is not None and now_s < known[1]:
            return known[0]
        user, until_s = self._check(token)
        while len(self._known) >= TOKENS:
            del self._known[next(iter(self._known))]
        self._known[token] = user, until_s
        return user

    def _check(self, token: bytes) -> tuple[str, float]:
        if not self.keys:
            raise TokenRefused("the keys are not known yet (http_transport.jwks)", unknown_key=True)
        problem: Exception | None = None
        for key in self._candidates(token):
            try:
                return self._claims(token, key)
            except jwt.PyJWTError as error:
                problem = error
        raise TokenRefused(_reason(problem)) from problem

    def _candidates(self, token: bytes) -> list[SigningKey]:
        try:
            head = jwt.get_unverified_header(token)
        except jwt.PyJWTError as error:
            raise TokenRefused("it is not a signed token") from error
        if "crit" in head:
            raise TokenRefused("it has extensions (crit)")
        named = head.get("kid")
        found = [key for key in self.keys if named is None or key.kid == named]
        if not found:
            raise TokenRefused("the key that it names is unknown", unknown_key=True)
        return found

    def _claims(self, token: bytes, key: SigningKey) -> tuple[str, float]:
        settings = self.settings
        claims = jwt.decode(
            token,
            key.key,
            algorithms=list(key.algorithms),
            audience=list(settings.audience) or None,
            issuer=settings.issuer or None,
            leeway=settings.leeway_s,
            options={
                "require": ["exp", settings.user_claim],
                "verify_aud": bool(settings.audience),
                "verify_sub": False,
            },
        )
        return user_name(claims[settings.user_claim]), float(claims["exp"]) + settings.leeway_s


def user_name(given: object) -> str:
    """A user's name as clients give it. TokenRefused if it is not one line of text."""
    if not isinstance(given, str) or not given.strip() or not given.isprintable() or len(given) > USER_BYTES:
        raise TokenRefused("the user's name is not a line of text")
    return given


def _reason(problem: Exception | None) -> str:
    return next((text for kind, text in _REASONS if isinstance(problem, kind)), "it is not valid")
