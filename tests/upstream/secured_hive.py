"""A Hive metastore that logs its clients in with Kerberos, and a proxy in front of it that acts for its users."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.proxy import Proxy
from tests.server.logged_in import AUTH, Realm, SaslConnection, realm_in
from tests.testbed.bed import Bed
from tests.testbed.hive import QUICK_START
from tests.testbed.java_kerberos import java_options, more_classes
from tests.testbed.kdc import REALM
from tests.testbed.metastore import Metastore

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

    def audit(self, command: str) -> list[str]:
        """Hive's lines about a command."""
        return [line for line in self.hive.log.read_text().splitlines() if f"cmd={command}" in line]


@contextmanager
def place_in(directory: Path, bed: Bed, flavour: str, users: str, more: Mapping[str, str]) -> Iterator[Place]:
    """The proxy may act for these users alone; `more`: its further settings. Its cache reads over SQL."""
    with realm_in(directory) as realm:
        hive = _hive(directory, bed, flavour, realm, users)
        assert hive.database is not None
        service = realm.service(
            SECURITY_UPSTREAM_IDENTITY="delegate",
            WORKERS="1",
            KERBEROS_AUTH_TO_LOCAL=r"RULE:[1:$1],RULE:[2:$1]",
            UPSTREAM_OPTIONS_CONNECT_TIMEOUT_S="60",
        )
        settings = {**realm.environment("sasl"), **service, **more}
        proxy = Proxy(directory / "proxy", f"thrift://localhost:{hive.port}", hive.database.reader_url, settings)
        try:
            yield Place(realm, hive, proxy.start())
        finally:
            proxy.close()
            bed.release(hive)


def _hive(directory: Path, bed: Bed, flavour: str, realm: Realm, users: str) -> Metastore:
    core = {
        "hadoop.security.authentication": "kerberos",
        "hadoop.rpc.protection": "authentication,integrity,privacy",
        "hadoop.proxyuser.proxy.hosts": "*",
        "hadoop.proxyuser.proxy.users": users,
    }
    settings = {
        "metastore.sasl.enabled": "true",
        "metastore.kerberos.principal": f"hive/localhost@{REALM}",
        "metastore.kerberos.keytab.file": str(realm.proxy),
        "hive.cluster.delegation.token.store.class": "org.apache.hadoop.hive.metastore.security.DBTokenStore",
    }
    options = (*QUICK_START, *java_options(Path(os.environ["KRB5_CONFIG"])), "-Dtestbed.log.level=info")
    classes = more_classes(directory, core)
    return bed.private_metastore(flavour, settings=settings, java_options=options, classes=classes)
