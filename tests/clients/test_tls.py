"""TLS with Hive's own code at both ends: its metastore behind the proxy, its Driver in front of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hive_metastore.ttypes import GetTableRequest

from tests.clients.hive_driver import HiveDriver
from tests.proxy import Proxy
from tests.testbed.certificates import Authority
from tests.testbed.client import MetastoreClient
from tests.testbed.hive import QUICK_START
from tests.testbed.metastore import Metastore

PASSWORD = "changeit"


@pytest.mark.real
@pytest.mark.covers("Hive's Driver and metastore with TLS: statements on a table", "hive42", cache="Thrift")
@pytest.mark.secures(
    client="Hive's Driver 4.0.1",
    login="none, within TLS",
    metastore="Hive 4.2 with TLS",
    who="the user, whom the client names",
)
def test_hive_at_both_ends(
    new_metastore: Callable[..., Metastore], new_proxy: Callable[..., Proxy], tmp_path: Path
) -> None:
    authority = Authority(tmp_path / "tls")
    files = authority.signed("server")
    settings = {
        "metastore.use.SSL": "true",
        "metastore.keystore.path": str(authority.key_store(files, PASSWORD)),
        "metastore.keystore.password": PASSWORD,
        "metastore.keystore.type": "PKCS12",
        "metastore.event.db.notification.api.auth": "false",
    }
    metastore = new_metastore("hive42", settings=settings, java_options=QUICK_START)  # options: it is never lent again
    secured = {
        "STORE": "thrift",
        "SECURITY_TRANSPORTS": "tls",
        "TLS_CERTIFICATE": str(files.certificate),
        "TLS_KEY": str(files.key),
        "TLS_UPSTREAM": "true",
        "TLS_UPSTREAM_CA": str(authority.file),
    }
    proxy = new_proxy(metastore, settings=secured, store=False, prewarmed=False)
    proxy.wait_prewarmed()
    assert proxy.status()["mode"] == "cache" and proxy.status()["upstream"]["version"] == "4.2.0"
    trusting = {
        "metastore.use.SSL": "true",
        "metastore.truststore.path": str(authority.trust_store(PASSWORD)),
        "metastore.truststore.password": PASSWORD,
        "metastore.truststore.type": "PKCS12",
    }
    with HiveDriver(tmp_path / "hive", metastore, [proxy.uri], trusting) as hive:
        for sql, expected in (
            ("create database d", []),
            ("create external table d.t (a int) partitioned by (p string)", []),
            ("alter table d.t add partition (p='1') partition (p='2')", []),
            ("show partitions d.t", ["p=1", "p=2"]),
            ("show tables in d", ["t"]),
        ):
            answer = hive.run(0, sql)
            assert answer.error is None and sorted(answer.rows) == expected, (sql, answer, hive.log_tail())
    with (
        MetastoreClient(*metastore.address, tls=authority.client()) as direct,
        MetastoreClient(*proxy.address, tls=authority.client()) as through,
    ):
        proxy.wait_event(direct.get_current_notificationEventId().eventId)
        asked = GetTableRequest(dbName="d", tblName="t")
        assert through.get_table_req(asked) == direct.get_table_req(asked)
        assert through.get_partitions("d", "t", -1) == direct.get_partitions("d", "t", -1)
    assert proxy.metric("hms_proxy_handshakes_total", result="done") >= 2
    assert proxy.metric("hms_proxy_handshakes_total", result="failed") == 0, proxy.log_tail()
