"""The whole product with TLS: one proxy, with the embedded metastore, is the metastore of another. The second one
follows its log over Thrift, relays and answers; certificates are replaced while it runs."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from hms_cache_proxy.config import load
from hms_cache_proxy.doctor.security import look_at_security
from hms_cache_proxy.errors import ConfigError
from tests.ops.test_cli import one_line, run
from tests.proxy import Proxy
from tests.server.secured import over_tls
from tests.testbed.certificates import Authority
from tests.testbed.client import MetastoreClient
from tests.testbed.objects import create_database, create_table, table
from tests.testbed.processes import wait_until
from tests.testbed.raw import encode_call

VERSION = encode_call("getVersion", seqid=4)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "tls")


@pytest.fixture
def secured(tmp_path: Path, authority: Authority) -> Iterator[Proxy]:
    """A proxy with the embedded metastore, for clients with TLS alone."""
    files = authority.signed("server")
    settings = {
        "EMBEDDED": "true",
        "SECURITY_TRANSPORTS": "tls",
        "TLS_CERTIFICATE": str(files.certificate),
        "TLS_KEY": str(files.key),
    }
    proxy = Proxy(tmp_path / "first", "", settings=settings)
    try:
        yield proxy.start(prewarmed=True)
    finally:
        proxy.close()


def test_a_proxy_in_front_of_a_metastore_with_tls(tmp_path: Path, authority: Authority, secured: Proxy) -> None:
    settings = {"STORE": "thrift", "TLS_UPSTREAM": "true", "TLS_UPSTREAM_CA": str(authority.file)}
    proxy = Proxy(tmp_path / "second", secured.uri, settings=settings)
    try:
        proxy.start(prewarmed=True)
        assert proxy.status()["mode"] == "cache" and proxy.status()["upstream"]["reachable"]
        with MetastoreClient(*proxy.address) as client:
            create_database(client, "d")
            made = create_table(client, table("d", "t"))
            proxy.wait_event(client.get_current_notificationEventId().eventId)

            def hits() -> float:
                assert client.get_table("d", "t").sd.location == made.sd.location
                told = proxy.told_requests()
                return sum(n for (method, outcome, _), n in told.items() if (method, outcome) == ("get_table", "hit"))

            assert wait_until(hits, 60), proxy.requests()
        assert "warning" not in proxy.log.read_text(), proxy.log_tail()
    finally:
        proxy.close()


def test_sighup_and_new_certificates_drop_no_connection(authority: Authority, secured: Proxy) -> None:
    processes = secured.children()
    assert secured.process is not None
    with over_tls(authority.client(), secured.port) as old:
        expected = old.call(VERSION)
        secured.process.send_signal(signal.SIGHUP)
        assert wait_until(lambda: secured.metric("hms_proxy_reloads_total", what="certificate", result="loaded") == 1)
        files = authority.signed("server")
        reloads = "hms_proxy_reloads_total"
        assert wait_until(lambda: secured.metric(reloads, what="certificate", result="loaded") >= 2)
        assert secured.metric("hms_proxy_tls_expiry_timestamp_seconds") == files.expires.timestamp()
        assert old.call(VERSION) == expected
        with over_tls(authority.client(), secured.port) as new:
            assert new.call(VERSION) == expected
    assert secured.children() == processes
    for pid in processes["worker"]:  # a terminal that ends tells the whole group
        os.kill(pid, signal.SIGHUP)
    time.sleep(0.2)
    assert secured.children() == processes and secured.stop() == 0


def test_a_file_that_cannot_be_used_ends_the_start(tmp_path: Path, authority: Authority) -> None:
    environment = {
        "HMS_CACHE_PROXY_EMBEDDED": "true",
        "HMS_CACHE_PROXY_DATA_DIR": str(tmp_path / "data"),
        "HMS_CACHE_PROXY_SECURITY_TRANSPORTS": "tls",
        "HMS_CACHE_PROXY_TLS_CERTIFICATE": str(tmp_path / "none"),
    }
    for command in ("serve", "check-config", "doctor"):
        ended = run(command, **environment)
        assert ended.returncode == 2 and not (tmp_path / "data").exists()
        assert "tls.certificate: cannot read" in one_line(ended), command


def test_the_metastore_alone_refuses_to_speak_plain_where_tls_is_wanted(tmp_path: Path, authority: Authority) -> None:
    files = authority.signed("server")
    environment = {
        "HMS_CACHE_PROXY_DATA_DIR": str(tmp_path / "data"),
        "HMS_CACHE_PROXY_SECURITY_TRANSPORTS": "tls",
        "HMS_CACHE_PROXY_TLS_CERTIFICATE": str(files.certificate),
        "HMS_CACHE_PROXY_TLS_KEY": str(files.key),
    }
    ended = run("metastore", **environment)
    assert ended.returncode == 2
    assert "the metastore alone speaks plain Thrift only" in one_line(ended)


def test_the_doctor_looks_at_the_certificate(authority: Authority) -> None:
    for days, level, words in ((40, "ok", "valid until"), (3, "warning", "more days"), (-1, "error", "expired on")):
        files = authority.signed("checked", expires=datetime.now(UTC) + timedelta(days=days))
        config = load(
            cli={
                "security.transports": "plain,tls",
                "tls.certificate": str(files.certificate),
                "tls.key": str(files.key),
            }
        )
        found, note = (finding.as_dict() for finding in look_at_security(config))
        assert found["level"] == level and words in str(found["text"])
        assert note["text"] == "clients may connect without TLS too"
    assert look_at_security(load(cli={})) == []


def test_the_doctor_looks_at_every_file_that_serve_needs(tmp_path: Path) -> None:
    passwords = {"transports": ["sasl"], "password_file": str(tmp_path / "none"), "passwords_without_tls": True}
    with pytest.raises(ConfigError, match=r"security\.password_file: .*No such file"):
        look_at_security(load(cli={"security": passwords}))
