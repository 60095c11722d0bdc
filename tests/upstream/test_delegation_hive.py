"""Acting for users at Hive 4.2 with Kerberos: its own audit names them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest
from hive_metastore.ttypes import Database
from thrift.Thrift import TApplicationException

from tests.proxy import Proxy
from tests.server.logged_in import AUTH, AUTH_CONF, AUTH_INT, Realm, Refused, SaslConnection, realm_in
from tests.testbed.bed import Bed
from tests.testbed.hive import QUICK_START
from tests.testbed.java_kerberos import java_options, more_classes
from tests.testbed.kdc import REALM
from tests.testbed.metastore import Metastore
from tests.testbed.raw import decode_reply, encode_call

TIME_S = 120.0


class Place(NamedTuple):
    """A realm, Hive in it, and a proxy between."""

    realm: Realm
    hive: Metastore
    proxy: Proxy

    def client(self, user: str = "alice", layer: int = AUTH, port: int = 0) -> SaslConnection:
        """After a login at the proxy."""
        connection = SaslConnection.to(port or self.proxy.port)
        connection.socket.settimeout(TIME_S)
        connection.log_in(self.realm.client(user), layer)
        return connection


@pytest.fixture(scope="module")
def place(bed: Bed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """One for all tests. The proxy may act for alice and bob, and not for svc."""
    directory = tmp_path_factory.mktemp("delegation")
    with realm_in(directory) as realm:
        core = {
            "hadoop.security.authentication": "kerberos",
            "hadoop.rpc.protection": "authentication,integrity,privacy",
            "hadoop.proxyuser.proxy.hosts": "*",
            "hadoop.proxyuser.proxy.users": "alice,bob",
        }
        settings = {
            "metastore.sasl.enabled": "true",
            "metastore.kerberos.principal": f"hive/localhost@{REALM}",
            "metastore.kerberos.keytab.file": str(realm.proxy),
            "hive.cluster.delegation.token.store.class": "org.apache.hadoop.hive.metastore.security.DBTokenStore",
        }
        options = (*QUICK_START, *java_options(Path(os.environ["KRB5_CONFIG"])), "-Dtestbed.log.level=info")
        classes = more_classes(directory, core)
        hive = bed.private_metastore(settings=settings, java_options=options, classes=classes)
        service = realm.service(
            SECURITY_UPSTREAM_IDENTITY="delegate",
            STORE="none",
            WORKERS="1",
            KERBEROS_AUTH_TO_LOCAL=r"RULE:[1:$1],RULE:[2:$1]",
            UPSTREAM_OPTIONS_CONNECT_TIMEOUT_S="60",
        )
        proxy = Proxy(
            directory / "proxy", f"thrift://localhost:{hive.port}", settings={**realm.environment("sasl"), **service}
        )
        try:
            yield Place(realm, hive, proxy.start())
        finally:
            proxy.close()
            bed.release(hive)


def owner_of(client: SaslConnection, name: str) -> str:
    """Who owns a new database of this name, which is left to the metastore."""
    assert decode_reply(client.call(encode_call("create_database", Database(name=name, parameters={}))))[2].o1 is None
    return str(decode_reply(client.call(encode_call("get_database", name)))[2].success.ownerName)


def check_audit(hive: Metastore, beginning: str, count: int) -> None:
    """As many databases were created whose names begin so, by the users in their names; the others by alice. (Of a
    login by ticket, Hive logs the principal.)"""
    lines = [line for line in hive.log.read_text().splitlines() if "cmd=create_database" in line and beginning in line]
    assert len(lines) == count, lines
    for line in lines:
        user = "bob" if "bob_" in line else "alice"
        assert re.search(rf"ugi={user}(@{REALM})?\t", line), line


def test_the_audit_names_the_user(place: Place) -> None:
    for number, layer in enumerate((AUTH, AUTH_INT, AUTH_CONF)):
        for user in ("alice", "bob"):
            with place.client(user, layer) as client:
                assert owner_of(client, f"db_{user}_{number}") == user
    with place.client("alice") as alice:
        token = decode_reply(alice.call(encode_call("get_delegation_token", "alice", "alice")))[2].success
    with SaslConnection.to(place.proxy.port) as by_token:
        by_token.socket.settimeout(TIME_S)
        by_token.log_in_with(token, AUTH_CONF)
        assert owner_of(by_token, "db_by_token") == "alice"
    check_audit(place.hive, "db_", 7)
    assert place.proxy.log.read_text().count("token of a metastore") == 2


def test_a_user_whom_the_proxy_may_not_act_for(place: Place) -> None:
    with place.client("svc/localhost") as client, place.client("bob") as bob:
        refusal = decode_reply(client.call(encode_call("get_all_databases")))[2]
        assert isinstance(refusal, TApplicationException), refusal
        assert f"User: proxy/localhost@{REALM} is not allowed to impersonate svc" in refusal.message
        bob.call(encode_call("get_all_databases"))
    assert "ugi=svc" not in place.hive.log.read_text()


def test_a_login_that_is_passed_through(place: Place, tmp_path: Path) -> None:
    """By ticket, and by Hive's own token; the proxy has no right to act for anybody, and needs none."""
    settings = place.realm.service(SECURITY_UPSTREAM_IDENTITY="pass_through", STORE="none", WORKERS="1")
    settings |= {"SECURITY_TRANSPORTS": "sasl", "SECURITY_HANDSHAKE_TIMEOUT_S": "60"}
    proxy = Proxy(tmp_path / "passing", f"thrift://localhost:{place.hive.port}", settings=settings)
    with closing(proxy.start()):
        for user in ("alice", "bob"):
            with place.client(user, port=proxy.port) as client:
                assert owner_of(client, f"passed_{user}_0") == user
                token = decode_reply(client.call(encode_call("get_delegation_token", user, user)))[2].success
        with SaslConnection.to(proxy.port) as by_token:
            by_token.socket.settimeout(TIME_S)
            by_token.log_in_with(token)
            assert owner_of(by_token, "passed_bob_token") == "bob"
        with SaslConnection.to(proxy.port) as client, pytest.raises(Refused, match=r"hadoop\.rpc\.protection"):
            client.socket.settimeout(TIME_S)
            client.log_in(place.realm.client("alice"), AUTH_CONF)
    check_audit(place.hive, "passed_", 3)
