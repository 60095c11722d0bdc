"""HTTP clients for tests of a worker, and the keys that sign their tokens. The client is Python's own."""

from __future__ import annotations

import json
import ssl
import time
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path
from typing import Any, NamedTuple

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from tests.testbed.processes import SOON_S

PATH = "/metastore/*"


class Issuer:
    """Signs tokens; `keys` is what its key set says."""

    def __init__(self, kid: str = "one", kind: str = "RSA") -> None:
        self.kid = kid
        self._algorithm: str = "RS256" if kind == "RSA" else "ES256"
        self._key: Any
        if kind == "RSA":
            self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
            public = RSAAlgorithm.to_jwk(self._key.public_key(), as_dict=True)
        else:
            self._key = ec.generate_private_key(ec.SECP256R1())
            public = ECAlgorithm.to_jwk(self._key.public_key(), as_dict=True)
        self.keys: dict[str, Any] = {"keys": [public | {"kid": kid, "use": "sig"}]}

    def token(self, user: object = "alice", *, kid: str | None = None, **claims: object) -> str:
        """For this user, for five minutes unless the claims say otherwise."""
        named = {"sub": user, "exp": int(time.time()) + 300} | claims
        given = {name: value for name, value in named.items() if value is not None}
        return jwt.encode(given, self._key, self._algorithm, {"kid": kid or self.kid})

    def written(self, file: Path) -> Path:
        """The key set, in a file."""
        file.write_text(json.dumps(self.keys))
        return file


class Answer(NamedTuple):
    """Of one request."""

    status: int
    body: bytes
    headers: dict[str, str]


class Web:
    """One connection."""

    def __init__(self, port: int, *, source: str = "", tls: ssl.SSLContext | None = None, **headers: str) -> None:
        origin = (source, 0) if source else None
        if tls is None:
            self._connection = HTTPConnection("127.0.0.1", port, timeout=SOON_S, source_address=origin)
        else:
            self._connection = HTTPSConnection("localhost", port, timeout=SOON_S, source_address=origin, context=tls)
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}

    def ask(self, message: bytes, *, path: str = PATH, method: str = "POST", **headers: str) -> Answer:
        """One request."""
        more = {name.replace("_", "-"): value for name, value in headers.items()}
        self._connection.request(method, path, message, self.headers | more)
        answer = self._connection.getresponse()
        return Answer(answer.status, answer.read(), {name.lower(): value for name, value in answer.getheaders()})

    def call(self, message: bytes) -> bytes:
        """The reply, which there must be."""
        answer = self.ask(message)
        assert answer.status == 200, answer
        return answer.body

    @property
    def kept(self) -> bool:
        """Is the connection still there after the last answer?"""
        return self._connection.sock is not None

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Web:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
