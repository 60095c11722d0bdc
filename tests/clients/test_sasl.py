"""Logins of real clients through a proxy: Hive's own Java client, with Kerberos and with a password, and PyIceberg."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import bcrypt
import pytest

from tests.clients.sasl_calls import PROTECTIONS, RUN_S, run
from tests.proxy import Proxy
from tests.server.logged_in import realm_in
from tests.testbed.certificates import Authority
from tests.testbed.kdc import REALM
from tests.testbed.metastore import Metastore
from tests.testbed.packages import required

TRUST_PASSWORD = "changeit"


@pytest.mark.timeout(900)
@pytest.mark.secures(
    client="Hive's Java client 4.0.1",
    login="Kerberos, token",
    metastore="embedded",
    who="the user, whom the proxy names",
)
def test_kerberos_and_tokens(
    new_metastore: Callable[..., Metastore], new_proxy: Callable[..., Proxy], tmp_path: Path
) -> None:
    metastore = new_metastore("embedded")
    with realm_in(tmp_path) as realm:
        proxy = new_proxy(metastore, settings=realm.environment("sasl"))
        uri = f"thrift://localhost:{proxy.port}"
        principal, krb5 = f"hive/_HOST@{REALM}", realm.kdc.environment["KRB5_CONFIG"]
        ran = run(tmp_path, uri, "kerberos", principal, "alice", str(realm.users["alice"]), *PROTECTIONS, krb5=krb5)
    said = ran.stderr[-3000:] + proxy.log_tail()
    made = [f"[{', '.join(sorted(('default', name)))}] alice 100000" for name in PROTECTIONS]
    by_ticket_and_token = [line for each in made for line in 2 * (each, "missing")]
    assert ran.stdout.splitlines() == by_ticket_and_token, said
    logins = [line for line in proxy.log.read_text().splitlines() if " login " in line]
    for protection in PROTECTIONS.values():
        for mechanism in ("GSSAPI", "DIGEST-MD5"):
            assert any(f"mechanism={mechanism} " in line and f"protection={protection} " in line for line in logins)
    assert all("user=alice " in line for line in logins)
    assert proxy.metric("hms_proxy_handshakes_total", transport="sasl", result="failed") == 0
    assert sum(count for (_, outcome, _), count in proxy.requests().items() if outcome == "hit") >= 40
    assert proxy.metric("hms_proxy_internal_errors_total") == 0


ICEBERG = """
import sys
import pyarrow
from pyiceberg.catalog import load_catalog
settings = {"hive.kerberos-authentication": "true", "hive.kerberos-service-name": "hive"}
catalog = load_catalog("hive", type="hive", uri=sys.argv[1], warehouse=sys.argv[2], **settings)
catalog.create_namespace("d")
rows = pyarrow.table({"a": pyarrow.array([1, 2, 3], pyarrow.int64())})
table = catalog.create_table("d.t", rows.schema)
for _ in range(3):
    table.append(rows)
print(catalog.list_tables("d"), catalog.load_table("d.t").scan().to_arrow().num_rows)
"""


@pytest.mark.parametrize("protection", ["auth", "auth-int", "auth-conf"])
@pytest.mark.secures(
    client="PyIceberg",
    login="Kerberos",
    metastore="embedded",
    who="the user, whom the proxy names",
)
def test_pyiceberg_with_kerberos(
    new_metastore: Callable[..., Metastore], new_proxy: Callable[..., Proxy], tmp_path: Path, protection: str
) -> None:
    """It takes the strongest protection that is offered."""
    required("thrift_sasl", "kerberos")
    with realm_in(tmp_path) as realm:
        settings = realm.environment("sasl", KERBEROS_PROTECTION=protection)
        proxy = new_proxy(new_metastore("embedded"), settings=settings)
        tickets = {"KRB5CCNAME": f"FILE:{tmp_path / 'tickets'}"}
        realm.kdc.log_in("alice", realm.users["alice"], tickets)
        uri, warehouse = f"thrift://localhost:{proxy.port}", (tmp_path / "warehouse").as_uri()
        ran = subprocess.run(
            [sys.executable, "-c", ICEBERG, uri, warehouse],
            env=os.environ | tickets,
            capture_output=True,
            text=True,
            check=False,
            timeout=RUN_S,
        )
    assert ran.stdout.splitlines() == ["[('d', 't')] 9"], ran.stderr[-3000:] + proxy.log_tail()
    log = proxy.log.read_text()
    assert f"protection={protection} " in log or f'"protection": "{protection}"' in log
    assert proxy.metric("hms_proxy_handshakes_total", transport="sasl", result="failed") == 0


@pytest.mark.timeout(900)
@pytest.mark.secures(
    client="Hive's Java client 4.0.1",
    login="password, within TLS",
    metastore="embedded",
    who="the user, whom the proxy names",
)
def test_a_password(new_metastore: Callable[..., Metastore], new_proxy: Callable[..., Proxy], tmp_path: Path) -> None:
    metastore = new_metastore("embedded")
    authority = Authority(tmp_path / "tls")
    files = authority.signed("server")
    passwords = tmp_path / "passwords"
    passwords.write_text(f"carol:{bcrypt.hashpw(b'secret', bcrypt.gensalt(5)).decode()}\n")
    settings = {
        "SECURITY_TRANSPORTS": "tls+sasl",
        "SECURITY_PASSWORD_FILE": str(passwords),
        "TLS_CERTIFICATE": str(files.certificate),
        "TLS_KEY": str(files.key),
    }
    trusting = [
        "hive.metastore.use.SSL=true",
        f"hive.metastore.truststore.path={authority.trust_store(TRUST_PASSWORD)}",
        f"hive.metastore.truststore.password={TRUST_PASSWORD}",
        "hive.metastore.truststore.type=PKCS12",
    ]
    proxy = new_proxy(metastore, settings=settings)
    uri = f"thrift://localhost:{proxy.port}"
    ran = run(tmp_path, uri, "password", "carol", "secret", str(tmp_path / "right.jceks"), *trusting)
    said = ran.stderr[-3000:] + proxy.log_tail()
    assert ran.stdout.splitlines() == ["[default, password] carol 100000", "missing"], said
    refused = run(tmp_path, uri, "password", "carol", "guess", str(tmp_path / "wrong.jceks"), *trusting)
    assert refused.returncode != 0 and "Error validating the login" in refused.stderr, refused.stderr[-2000:]
    assert proxy.metric("hms_proxy_internal_errors_total") == 0
