"""Checks passwords against a file as `htpasswd -B` writes it: `USER:HASH` in each line, with a bcrypt hash.

Must not know: connections. Owner: the present value of a Renewable; `check` is called in several threads.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import bcrypt

from hms_cache_proxy.errors import ConfigError
from hms_cache_proxy.security.passwords import WrongPassword

KEY: Final = "security.password_file"
_HASH: Final = re.compile(rb"\$2[aby]\$(0[4-9]|[12]\d|3[01])\$[./A-Za-z0-9]{53}")  # of a cost that bcrypt knows
_MOST_BYTES: Final = 72  # of a password, which is all that bcrypt uses
_NOBODY: Final = bcrypt.hashpw(b"nobody", bcrypt.gensalt(5))
"""Compared for users who are not in the file, in about the time of those who are."""


class PasswordFile:
    """The passwords of a file. ConfigError if it cannot be read, or a line is not as it must be."""

    def __init__(self, file: str) -> None:
        try:
            lines = Path(file).read_bytes().splitlines()
        except OSError as error:
            raise ConfigError(f"{KEY}: {file}: {error.strerror}") from error
        self._hashes: dict[str, bytes] = {}
        for number, line in enumerate(lines, 1):
            if not line.strip() or line.startswith(b"#"):
                continue
            name, _, digest = line.strip().rpartition(b":")
            if not name or _HASH.fullmatch(digest) is None:
                text = f"{file}, line {number}: must be USER:HASH with a hash of bcrypt, as `htpasswd -B` writes it"
                raise ConfigError(f"{KEY}: {text}")
            try:
                self._hashes[name.decode("utf-8")] = digest
            except UnicodeDecodeError as error:
                raise ConfigError(f"{KEY}: {file}, line {number}: the name is not UTF-8") from error

    def check(self, user: str, password: bytes) -> str:
        """As Passwords has it. It takes as long as the hash was made to take."""
        digest = self._hashes.get(user)
        right = bcrypt.checkpw(password[:_MOST_BYTES], digest or _NOBODY)
        if digest is None:
            raise WrongPassword(f"{user} is not in {KEY}")
        if not right or len(password) > _MOST_BYTES:
            raise WrongPassword(f"it is not the password of {user}")
        return user
