"""Two proxies with one key: a delegation token that is cancelled at one of them is good at neither."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.ops.test_peers import listening
from tests.proxy import Proxy
from tests.server.logged_in import Realm, Refused, SaslConnection, realm_in
from tests.server.test_kerberos import VERSION, closed
from tests.testbed.bed import Bed
from tests.testbed.processes import free_port, wait_until
from tests.testbed.raw import decode_reply, encode_call


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Realm]:
    """A KDC."""
    with realm_in(tmp_path_factory.mktemp("realm")) as made:
        yield made


def asked(realm: Realm, proxy: Proxy, method: str, *arguments: str) -> str | None:
    """What alice, who has a ticket, is answered."""
    with SaslConnection.to(proxy.port) as client:
        client.log_in(realm.client("alice"))
        result = decode_reply(client.call(encode_call(method, *arguments)))[2]
        assert result.o1 is None, result.o1.message
        return getattr(result, "success", None)


def good(proxy: Proxy, token: str) -> bool:
    """May a client come by this token?"""
    with SaslConnection.to(proxy.port) as client:
        try:
            client.log_in_with(token)
        except Refused:
            return False
        client.call(VERSION)
        return True


def test_a_token_is_cancelled_at_all_peers(
    bed: Bed, new_proxy: Callable[..., Proxy], realm: Realm, tmp_path: Path
) -> None:
    """One that was cancelled before the other proxy started, then one with an open connection there."""
    keys, ports = tmp_path / "keys", [free_port(), free_port()]
    keys.write_text("k" * 32)
    secured = {**realm.environment("sasl"), "TOKENS_KEY_FILE": str(keys), "SECURITY_HANDSHAKE_TIMEOUT_S": "20"}
    here = new_proxy(bed.shared("embedded"), settings={**secured, **listening(ports, 0)})
    first, second = (asked(realm, here, "get_delegation_token", "alice", "nobody") for _ in range(2))
    assert first is not None and second is not None
    asked(realm, here, "cancel_delegation_token", first)
    assert not good(here, first)
    there = new_proxy(bed.shared("embedded"), settings={**secured, **listening(ports, 1)})
    assert wait_until(lambda: not good(there, first)), "it is told of when the connection begins"
    with SaslConnection.to(there.port) as client:
        client.log_in_with(second)
        client.call(VERSION)
        asked(realm, here, "cancel_delegation_token", second)
        assert closed(client)
    assert not good(there, second)
    third = asked(realm, there, "get_delegation_token", "alice", "nobody")
    assert third is not None and good(here, third)
    asked(realm, there, "cancel_delegation_token", third)
    assert wait_until(lambda: not good(here, third)), "also in the other direction"
    lists = [(proxy.directory / "data" / "cancelled-tokens").read_bytes() for proxy in (here, there)]
    assert sorted(map(len, lists)) == [72, 72], "each once"
