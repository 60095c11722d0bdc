"""The keys of the proxy's own delegation tokens: a token's password is its identifier's HMAC with one of them.

Job: read them from the file that `tokens.key_file` names, or make a file with one in the data directory. Every worker,
replica and restart that has the keys can check every token, so tokens are stored nowhere. Must not know: tokens, who
asks. The file has one key per line. The first one signs, and all of them verify. So a new key is put first, and an old
one stays until its tokens have expired. A key's number, which is in the identifier, is derived from the key.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from hms_cache_proxy.errors import ConfigError
from hms_cache_proxy.security.renewal import Renewable

KEY: Final = "tokens.key_file"
LEAST_LETTERS: Final = 32
_KEYS: Final = 100
_MADE_BYTES: Final = 32


class TokenKeys:
    """The first signs."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        self._by_number = {_number(key): key for key in keys}
        self.signing = _number(keys[0])

    def __contains__(self, number: int) -> bool:
        return number in self._by_number

    def password(self, identifier: bytes, number: int) -> bytes:
        """By the key with this number, which must be there."""
        return hmac.digest(self._by_number[number], identifier, "sha256")


def followed_keys(key_file: str, own_file: Path) -> Renewable[TokenKeys]:
    """Those of the settings, or the proxy's own. ConfigError if they cannot be used."""
    if key_file:
        return Renewable(lambda: read_keys(Path(key_file)), [key_file])
    make(own_file)
    return Renewable(lambda: read_keys(own_file), [])


def read_keys(file: Path) -> TokenKeys:
    """ConfigError if the file has no keys, or one that is too short to be secret."""
    try:
        lines = [line.strip() for line in file.read_bytes().splitlines()]
    except OSError as error:
        raise ConfigError(f"{KEY}: {file}: {error.strerror}") from error
    keys = [line for line in lines if line and not line.startswith(b"#")]
    if not 0 < len(keys) <= _KEYS:
        raise ConfigError(f"{KEY}: {file}: {len(keys)} keys; there must be 1 to {_KEYS}, one a line")
    if any(len(key) < LEAST_LETTERS for key in keys):
        text = f"{KEY}: {file}: a key has less than {LEAST_LETTERS} letters; make one with openssl rand -base64 32"
        raise ConfigError(text)
    return TokenKeys(keys)


def make(file: Path) -> None:
    """A file with a new key, for this account alone, unless it is there; of several processes, the first makes it."""
    if file.exists():
        return
    draft = file.with_name(f"{file.name}.{os.getpid()}")
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
        out.write(f"{secrets.token_hex(_MADE_BYTES)}\n")
        out.flush()
        os.fsync(out.fileno())
    try:
        os.link(draft, file)  # never replaces one that has been made meanwhile
    except FileExistsError:
        pass
    finally:
        draft.unlink()


def _number(key: bytes) -> int:
    return int.from_bytes(hashlib.sha256(b"number of a key\0" + key).digest()[:4], "big") >> 1
