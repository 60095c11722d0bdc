"""Rules of who is called what, and who may ask for whom, that change at SIGHUP."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

from tests.proxy import Proxy
from tests.server import digest
from tests.server.logged_in import Realm, Refused, SaslConnection, realm_in
from tests.testbed.bed import Bed
from tests.testbed.processes import wait_until
from tests.testbed.raw import decode_reply, encode_call

RENAMED = "RULE:[1:$1](alice)s/alice/carol/"


def reloaded(proxy: Proxy) -> float:
    """How often the settings have been read again."""
    return proxy.metric("hms_proxy_reloads_total", what="settings", result="loaded")


def test_rules_change_without_a_restart(bed: Bed, new_proxy: Callable[..., Proxy], tmp_path: Path) -> None:
    file = tmp_path / "proxy.toml"
    file.write_text("")
    with realm_in(tmp_path) as realm:
        settings = realm.environment("sasl", CONFIG=str(file), SECURITY_HANDSHAKE_TIMEOUT_S="20")
        proxy = new_proxy(bed.shared("embedded"), settings=settings, prewarmed=False)
        assert proxy.process is not None
        assert "not allowed to impersonate bob" in _asked(realm, proxy, "alice", "bob")
        file.write_text('[tokens]\nproxy_users = ["alice=bob"]\nlifetime = "1h"\n')
        proxy.process.send_signal(signal.SIGHUP)
        assert wait_until(lambda: reloaded(proxy) == 1)
        token = _asked(realm, proxy, "alice", "bob")
        assert digest.said(token)[:3] == ("bob", "nobody", "alice"), "and not for an hour: that needs a restart"
        assert digest.said(token).latest_ms - digest.said(token).issued_ms == 7 * 86_400_000
        file.write_text(f'[kerberos]\nauth_to_local = ["{RENAMED}"]\n')
        proxy.process.send_signal(signal.SIGHUP)
        assert wait_until(lambda: reloaded(proxy) == 2)
        assert digest.said(_asked(realm, proxy, "alice", "carol"))[:3] == ("carol", "nobody", "")
        assert "carol is not allowed to impersonate bob" in _asked(realm, proxy, "alice", "bob")
        assert _refused(realm, proxy, "bob") == "No user has this principal's name"
        file.write_text('[kerberos]\nauth_to_local = ["RULE:[1:$1"]\n')
        proxy.process.send_signal(signal.SIGHUP)
        assert wait_until(lambda: "the settings cannot be read again" in proxy.log.read_text())
        assert digest.said(_asked(realm, proxy, "alice", "carol"))[:3] == ("carol", "nobody", "")


def _asked(realm: Realm, proxy: Proxy, user: str, owner: str) -> str:
    """The token of this owner that a user gets, or the words with which it does not."""
    with SaslConnection.to(proxy.port) as client:
        client.log_in(realm.client(user))
        result = decode_reply(client.call(encode_call("get_delegation_token", owner, "nobody")))[2]
        found: str = result.success if result.o1 is None else result.o1.message
        return found


def _refused(realm: Realm, proxy: Proxy, user: str) -> str:
    """The words with which a user is not let in."""
    with SaslConnection.to(proxy.port) as client:
        try:
            client.log_in(realm.client(user))
        except Refused as refused:
            return str(refused)
    raise AssertionError(f"{user} was let in")
