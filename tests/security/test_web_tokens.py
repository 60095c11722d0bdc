"""Sets of keys that sign tokens: which keys of one are used, and which make it useless."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hms_cache_proxy.config.http_transport import HttpTransportSection
from hms_cache_proxy.errors import ConfigError
from hms_cache_proxy.security.web_tokens import WebTokens, parse_keys
from tests.server.web import Issuer

NEWER: dict[str, Any] = {"kty": "AKP", "alg": "ML-DSA-44", "kid": "newer", "pub": "AAAA"}
OTHER_CURVE: dict[str, Any] = {"kty": "EC", "crv": "secp256k1", "kid": "curve", "x": "AA", "y": "AA"}
OF_ENCRYPTION: dict[str, Any] = {"kty": "RSA", "alg": "RSA-OAEP", "kid": "sealed", "n": "AQAB", "e": "AQAB"}
"""Not marked as such by `use`."""


def text(*keys: dict[str, Any]) -> bytes:
    return json.dumps({"keys": keys}).encode()


@pytest.mark.parametrize("other", [NEWER, OTHER_CURVE, OF_ENCRYPTION], ids=lambda key: str(key["kid"]))
def test_keys_of_other_kinds_do_not_matter(other: dict[str, Any]) -> None:
    """An issuer that begins to use one more kind goes on to use the others."""
    issuer = Issuer(kind="EC")
    keys = parse_keys(text(other, *issuer.keys["keys"], other), "keys")
    assert [key.kid for key in keys] == ["one"]
    assert WebTokens(HttpTransportSection(), keys).user(issuer.token().encode()) == "alice"
    with pytest.raises(ConfigError, match=f"no public key .* unsupported kind: {other['kty']} "):
        parse_keys(text(other), "keys")


@pytest.mark.parametrize("wrong", [NEWER | {"d": "AA"}, OF_ENCRYPTION | {"alg": "RS256"}], ids=["private", "weak"])
def test_a_set_with_a_private_or_weak_key_is_not_used(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        parse_keys(text(*Issuer(kind="EC").keys["keys"], wrong), "keys")
