"""Delegation tokens as Hadoop's clients have them: bytes to values and back.

Job: a `Token` is an identifier and its password, as text that a client keeps (URL-safe base64 of Hadoop's Writable
encoding: each part is its length as a variable-length number, and its bytes). An `Identifier` is the decoded first part
of such a token, of the proxy or of a metastore. Must not know: keys, who may do what, the clock.
Byte layout of an identifier: 0; owner, renewer and real user as texts; time of issue and last moment in ms, number and
number of the key as variable-length numbers.
"""

from __future__ import annotations

import hashlib
from base64 import b64decode, urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from typing import Final, NamedTuple

from hms_cache_proxy.errors import WireError

KIND: Final = b"HIVE_DELEGATION_TOKEN"
TOKEN_BYTES: Final = 1 << 14  # of a token as text
_VERSION: Final = b"\0"
_ONE_BYTE: Final = range(-112, 128)  # numbers that are a byte of their own
_POSITIVE, _NEGATIVE = -112, -120  # below these, the first byte says how many follow
_BYTE: Final = 256
_SIGN: Final = 128
_DIGEST_BYTES: Final = 16


class Identifier(NamedTuple):
    """Whose token it is, who may renew it, who asked for it, and until when it is good."""

    owner: str
    renewer: str
    real_user: str
    issued_ms: int
    latest_ms: int
    number: int
    key: int

    def encoded(self) -> bytes:
        """As bytes."""
        texts = b"".join(_sized(text.encode()) for text in self[:3])
        return _VERSION + texts + b"".join(map(encode_number, self[3:]))


def parse_identifier(data: bytes) -> Identifier:
    """WireError if these bytes are not exactly one."""
    if data[:1] != _VERSION:
        raise WireError("not the identifier of a delegation token")
    at = 1
    texts: list[str] = []
    numbers: list[int] = []
    for _ in range(3):
        part, at = _part(data, at)
        try:
            texts.append(part.decode())
        except UnicodeDecodeError as error:
            raise WireError("a delegation token with a name that is not UTF-8") from error
    for _ in range(4):
        number, at = _number(data, at)
        numbers.append(number)
    if at != len(data):
        raise WireError("bytes behind the identifier of a delegation token")
    owner, renewer, real_user = texts
    return Identifier(owner, renewer, real_user, *numbers)


def digest(identifier: bytes) -> bytes:
    """By which an identifier is remembered."""
    return hashlib.sha256(identifier).digest()[:_DIGEST_BYTES]


class Token(NamedTuple):
    """What a client holds."""

    identifier: bytes
    password: bytes
    kind: bytes = KIND
    service: bytes = b""

    def text(self) -> str:
        """As a client gets it."""
        return urlsafe_b64encode(b"".join(map(_sized, self))).rstrip(b"=").decode()


def parse_token(text: str) -> Token:
    """WireError if this is not a token."""
    if len(text) > TOKEN_BYTES:
        raise WireError("a delegation token that is too long")
    try:
        data = urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
    except (Base64Error, UnicodeEncodeError) as error:
        raise WireError("not a delegation token") from error
    at, parts = 0, []
    for _ in range(4):
        part, at = _part(data, at)
        parts.append(part)
    return Token(*parts)


def identifier_of(user_name: bytes) -> bytes:
    """The identifier in a user name of DIGEST-MD5. WireError if there is none."""
    try:
        return b64decode(user_name, validate=True)
    except Base64Error as error:
        raise WireError("a user name that is not a token's") from error


def encode_number(value: int) -> bytes:
    """A variable-length number."""
    if value in _ONE_BYTE:
        return (value % _BYTE).to_bytes(1, "big")
    rest, base = (value, _POSITIVE) if value >= 0 else (~value, _NEGATIVE)
    data = rest.to_bytes((rest.bit_length() + 7) // 8, "big")
    return ((base - len(data)) % _BYTE).to_bytes(1, "big") + data


def _number(data: bytes, at: int) -> tuple[int, int]:
    if at >= len(data):
        raise WireError("a delegation token that is cut off")
    first, at = data[at] - _BYTE if data[at] >= _SIGN else data[at], at + 1
    if first >= _POSITIVE:
        return first, at
    negative = first < _NEGATIVE
    size = (_NEGATIVE if negative else _POSITIVE) - first
    if at + size > len(data):
        raise WireError("a delegation token that is cut off")
    value = int.from_bytes(data[at : at + size], "big")
    return ~value if negative else value, at + size


def _part(data: bytes, at: int) -> tuple[bytes, int]:
    size, at = _number(data, at)
    if not 0 <= size <= len(data) - at:
        raise WireError("a delegation token that is cut off")
    return data[at : at + size], at + size


def _sized(part: bytes) -> bytes:
    return encode_number(len(part)) + part
